// Parses JSON that we do not trust.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"

namespace tandem::format {

// `name` stands in messages. Refuses nesting deeper than `max_depth`, so that walking the result is safe.
Result<nlohmann::json> parse_json(std::string_view text, std::string_view name, int max_depth = 64);

// The same with the keys of objects in the order they were written.
Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view name, int max_depth = 64);

}  // namespace tandem::format
