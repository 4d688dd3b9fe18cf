#include "server/call_schema.h"

#include "server/sse.h"

namespace tandem::server {

namespace {

// References within a schema that has moved to `place`.
void move_references(Json& schema, const std::string& place) {
    if (schema.is_object()) {
        const auto reference = schema.find("$ref");
        if (reference != schema.end() && reference->is_string()) {
            const auto& target = reference->get_ref<const std::string&>();
            if (target.starts_with("#")) *reference = "#" + place + target.substr(1);
        }
    }
    if (!schema.is_structured()) return;
    for (Json& inner : schema) move_references(inner, place);
}

Json schema_of(const Json& function, const std::string& place) {
    Json arguments = function.value("parameters", Json::object());
    if (arguments.empty()) arguments = {{"type", "object"}};
    move_references(arguments, place + "/properties/arguments");
    return {{"type", "object"},
            {"properties", {{"name", {{"const", function.at("name")}}}, {"arguments", std::move(arguments)}}},
            {"required", {"name", "arguments"}},
            {"additionalProperties", false}};
}

}  // namespace

std::string call_schema(const Ask& ask) {
    Json options = Json::array();
    for (const Json& tool : ask.tools) {
        const Json& function = tool.at("function");
        if (ask.tool_choice == ToolChoice::named && function.at("name") != ask.tool_name) continue;
        options.push_back(schema_of(function, fmt::format("/anyOf/{}", options.size())));
    }
    return dump({{"anyOf", std::move(options)}});
}

}  // namespace tandem::server
