// Parses JSON that we do not trust, and writes what everybody can read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem::format {

// The most of everything. The time of a parse grows with the text, whatever is in it; these bound what is made of it,
// and so the time of those who walk it. The defaults are for what comes over a network.
struct JsonLimits {
    int depth = 64;                // walking the result is safe
    size_t values = 160'000;       // of all kinds: each token id of a prompt is one
    size_t kept = 1U << 16U;       // strings, arrays and objects: each has memory of its own
    size_t members = 1U << 16U;    // of all objects together
    size_t keys = 4096;            // of one object: some are searched from end to end
    size_t fractions = 1U << 16U;  // numbers that are no integers, which take longest to read
    size_t digits = 1000;          // characters of a number
};

// For the files of a model: a vocabulary is one object with a key for each token. The file's size is the bound.
inline constexpr JsonLimits kFileJson = {.values = SIZE_MAX,
                                         .kept = SIZE_MAX,
                                         .members = SIZE_MAX,
                                         .keys = SIZE_MAX,
                                         .fractions = SIZE_MAX,
                                         .digits = SIZE_MAX};

// `name` stands in messages. Of a key that comes twice the last value counts, at the place of the first.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view name, const JsonLimits& limits = {});

// The same with the keys of objects in the order they were written.
Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view name,
                                                  const JsonLimits& limits = {});

// JSON as compact text; what is not UTF-8 is replaced.
std::string dump(const nlohmann::ordered_json& json);

}  // namespace tandem::format
