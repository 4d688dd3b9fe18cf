// How JSON is written to clients: as text that is always UTF-8, and as events of a stream.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "format/json.h"

namespace tandem::server {

using format::dump;

// "data: {...}\n\n"
std::string event(const nlohmann::ordered_json& json);
// "event: NAME\ndata: {...}\n\n"
std::string event(std::string_view name, const nlohmann::ordered_json& json);

// Letters and digits that nobody can guess.
std::string random_id(int length = 24);

}  // namespace tandem::server
