// JSON files that users hand in, with the keys of objects in the order they were written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"

namespace tandem::cli {

// "-" reads standard input.
Result<nlohmann::ordered_json> read_json(const std::string& path);

}  // namespace tandem::cli
