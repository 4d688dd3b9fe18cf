// Renders small templates for the tests of the template engine.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/jinja/program.h"

namespace tandem::text::jinja {

using Json = nlohmann::ordered_json;

inline Result<std::string> try_render(const std::string& source, const Json& variables = Json::object(),
                                      const Limits& limits = {}) {
    Program program = TRY(Program::parse(source));
    Variables given;
    for (const auto& [name, value] : variables.items()) given.emplace_back(name, &value);
    RenderOptions options{.limits = limits, .now = std::chrono::system_clock::from_time_t(1753876800)};
    return render(program, given, options);
}

// The text, or "error: ..." so that a comparison shows what went wrong.
inline std::string rendered(const std::string& source, const Json& variables = Json::object()) {
    Result<std::string> text = try_render(source, variables);
    return text ? *text : "error: " + text.error().message;
}

// The message of the error, or "no error: ..." with the text.
inline std::string failure(const std::string& source, const Json& variables = Json::object(),
                           const Limits& limits = {}) {
    Result<std::string> text = try_render(source, variables, limits);
    return text ? "no error: " + text->substr(0, 100) : text.error().message;
}

}  // namespace tandem::text::jinja
