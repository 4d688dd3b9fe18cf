#include "server/format_fields.h"

#include "server/sse.h"

namespace tandem::server {

namespace {

Reply<Ok> set_format(const std::string& name, Ask& ask, ResponseFormat format) {
    if (ask.format.kind != FormatKind::text)
        return bad_request(name, "{}: the answer is held to another form already: give one of them", name);
    ask.format = std::move(format);
    return Ok{};
}

// An object, or its text.
Reply<Ok> read_schema(const Fields& fields, const char* key, Ask& ask) {
    const Json& value = *fields.find(key);
    const bool is_text = value.is_string();
    if (!value.is_object() && !is_text) return fields.wrong(key, "a JSON Schema object");
    std::string source = is_text ? value.get<std::string>() : dump(value);
    return set_format(fields.name(key), ask, {.kind = FormatKind::json_schema, .source = std::move(source)});
}

template <FormatKind Kind>
Reply<Ok> read_source(const Fields& fields, const char* key, Ask& ask) {
    const std::string source = TRY(fields.required_text(key));
    if (source.empty()) return Ok{};
    return set_format(fields.name(key), ask, {.kind = Kind, .source = source});
}

Reply<Ok> read_choices(const Fields& fields, const char* key, Ask& ask) {
    const Json& value = *fields.find(key);
    bool are_texts = value.is_array() && !value.empty();
    for (const Json& item : value)
        are_texts = are_texts && item.is_string() && !item.get_ref<const std::string&>().empty();
    if (!are_texts) return fields.wrong(key, "an array of texts that are not empty");
    return set_format(fields.name(key), ask, {.kind = FormatKind::choice, .source = dump(value)});
}

Reply<Ok> read_any_json(const Fields& fields, const char* key, Ask& ask) {
    bool wanted = false;
    TRY(fields.read(key, wanted));
    return wanted ? set_format(fields.name(key), ask, {.kind = FormatKind::json_object}) : Reply<Ok>(Ok{});
}

Reply<Ok> read_structured_outputs(const Fields& fields, const char* key, Ask& ask) {
    static const FieldRules rules = {
        reads("json", read_schema),
        reads("regex", read_source<FormatKind::regex>),
        reads("choice", read_choices),
        reads("grammar", read_source<FormatKind::gbnf>),
        reads("json_object", read_any_json),
        refuses("structural_tag", "use tools with tool_choice"),
        refuses("whitespace_pattern", "use regex or grammar"),
        ignores("disable_fallback"),
        ignores("disable_any_whitespace"),
        ignores("disable_additional_properties"),
    };
    return read_fields(TRY(Fields::of(*fields.find(key), fields.name(key))), rules, ask);
}

Reply<Ok> read_response_format(const Fields& body, const char* key, Ask& ask) {
    const Fields fields = TRY(Fields::of(*body.find(key), body.name(key)));
    const std::string type = TRY(fields.required_text("type"));
    if (type == "text") return Ok{};
    if (type != "json_object" && type != "json_schema") {
        return bad_request(fields.name("type"), "{} is '{}': it must be text, json_object or json_schema",
                           fields.name("type"), type);
    }
    if (fields.find("schema") != nullptr) return read_schema(fields, "schema", ask);  // as llama-server has it
    if (type == "json_object") return set_format(body.name(key), ask, {.kind = FormatKind::json_object});
    const Json* const wrapper = fields.find("json_schema");
    if (wrapper == nullptr) return fields.wrong("json_schema", "an object with a schema");
    const Fields inner = TRY(Fields::of(*wrapper, fields.name("json_schema")));
    if (inner.find("schema") == nullptr) return inner.wrong("schema", "a JSON Schema object");
    return read_schema(inner, "schema", ask);
}

}  // namespace

FieldRules format_fields() {
    return {
        reads("grammar", read_source<FormatKind::gbnf>),
        reads("response_format", read_response_format),
        reads("json_schema", read_schema),
        reads("guided_json", read_schema),
        reads("guided_regex", read_source<FormatKind::regex>),
        reads("guided_choice", read_choices),
        reads("guided_grammar", read_source<FormatKind::gbnf>),
        reads("structured_outputs", read_structured_outputs),
        refuses("guided_whitespace_pattern", "use guided_regex or guided_grammar"),
        refuses("structural_tag", "use tools with tool_choice"),
        refuses("regex", "use guided_regex"),
        refuses("ebnf", "use grammar, in the notation GBNF"),
        refuses("grammar_lazy", "use tools: their calls are free before and held to their schema"),
        refuses("grammar_triggers", "use tools: their calls are free before and held to their schema"),
        ignores("guided_decoding_backend"),
    };
}

}  // namespace tandem::server
