// The routes of the server.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "server/app.h"
#include "server/dialect.h"

namespace tandem::server {

enum class Access : uint8_t {
    open,   // to all who reach the server
    use,    // with a key, where there are keys
    admin,  //
};

inline constexpr std::string_view kMetricsPath = "/metrics";

struct Route {
    std::string_view method;  // GET serves HEAD, too
    std::string_view path;    // one that ends with /* has a name there, which may have slashes
    Access access;
    // Either a dialect, whose Ask is answered,
    const Dialect* dialect = nullptr;
    // or a function.
    std::shared_ptr<Exchange> (*handle)(App& app, const CallPtr& call) = nullptr;
    // The body of an error; null: as OpenAI has it.
    std::string (*error)(const ApiError& error) = nullptr;

    bool generates() const { return dialect != nullptr; }
};

std::span<const Route> routes();

// Whether the route's path is this one, and the name in it.
bool matches(const Route& route, std::string_view path, std::string& name);

// The body of an error in the shape that suits the path, be it one of the server's or not.
std::string error_body(std::string_view path, const ApiError& error);

}  // namespace tandem::server
