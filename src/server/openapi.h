// The description of the server's APIs in OpenAPI's form, openapi.json.
#pragma once

#include <string_view>

namespace tandem::server {

// As it is in the tree. A test holds it to the routes.
std::string_view openapi();

}  // namespace tandem::server
