// JSON that users hand in, with the keys of objects in the order they were written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem::cli {

// `name` stands in messages.
Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view name);

// "-" reads standard input.
Result<nlohmann::ordered_json> read_json(const std::string& path);

}  // namespace tandem::cli
