// Reads what users write for numbers, token ids and biases; errors say what was expected.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tandem::user {

template <typename T>
struct Range {
    T least;
    T most;
};

// `what` stands in messages: "temperature 'warm' is not a number".
Result<double> parse_number(std::string_view text, std::string_view what, Range<double> range);
Result<int64_t> parse_integer(std::string_view text, std::string_view what, Range<int64_t> range);

// "1,2,3" or "1 2 3" in any mixture, or "@FILE" that holds such a list.
Result<std::vector<int32_t>> parse_ids(const std::string& text);

// Every id must be in a vocabulary of `vocab` tokens.
Status check_vocabulary(const std::vector<int32_t>& ids, int vocab);

// "ID=VALUE"
Result<std::pair<int32_t, float>> parse_logit_bias(std::string_view text);

}  // namespace tandem::user
