#include "text/call_syntax.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tandem::text {

namespace {

using Form = CallSyntax::Form;

constexpr CallSyntax kTagged = {.begin = "<tool_call>\n", .end = "\n</tool_call>", .between = "\n"};
constexpr CallSyntax kListed = {.begin = "[TOOL_CALLS]", .is_list = true};
constexpr CallSyntax kNamed = {.form = Form::named, .begin = "[TOOL_CALLS]", .after_name = "[ARGS]"};
constexpr CallSyntax kPlain = {
    .begin = "<|python_tag|>", .begins_bare = true, .one_only = true, .arguments = "parameters"};
constexpr CallSyntax kBarred = {.begin = "<|tool_call|>", .end = "<|/tool_call|>", .is_list = true, .ends_bare = true};
constexpr CallSyntax kSpelled = {.form = Form::elements,
                                 .begin = "<tool_call>\n",
                                 .end = "</tool_call>",
                                 .between = "\n",
                                 .before_name = "<function=",
                                 .after_name = ">\n",
                                 .before_key = "<parameter=",
                                 .after_key = ">\n",
                                 .after_value = "\n</parameter>\n",
                                 .after_arguments = "</function>\n"};
constexpr CallSyntax kKeyed = {.form = Form::elements,
                               .begin = "<tool_call>",
                               .end = "</tool_call>",
                               .between = "\n",
                               .after_name = "\n",
                               .before_key = "<arg_key>",
                               .after_key = "</arg_key>",
                               .before_value = "\n<arg_value>",
                               .after_value = "</arg_value>\n",
                               .loose_breaks = true};
constexpr CallSyntax kCalled = {
    .form = Form::called, .begin = "<|tool_call>", .end = "<tool_call|>", .before_name = "call:"};
constexpr CallSyntax kHarmony = {.form = Form::named,
                                 .begin = "<|channel|>commentary ",
                                 .one_only = true,
                                 .before_name = "to=functions.",
                                 .after_name = " <|constrain|>json<|message|>"};

bool takes_text(const nlohmann::ordered_json& schema) {
    if (!schema.is_object()) return false;
    if (const auto type = schema.find("type"); type != schema.end()) return *type == "string";
    const auto values = schema.find("enum");
    return values != schema.end() && values->is_array() && !values->empty() &&
           std::all_of(values->begin(), values->end(), [](const auto& value) { return value.is_string(); });
}

}  // namespace

const CallSyntax& call_syntax(CallStyle style) {
    switch (style) {
        case CallStyle::tagged:
            return kTagged;
        case CallStyle::listed:
            return kListed;
        case CallStyle::named:
            return kNamed;
        case CallStyle::barred:
            return kBarred;
        case CallStyle::spelled:
            return kSpelled;
        case CallStyle::keyed:
            return kKeyed;
        case CallStyle::called:
            return kCalled;
        case CallStyle::harmony:
            return kHarmony;
        case CallStyle::plain:
            break;
    }
    return kPlain;
}

std::string_view mark_of(std::string_view written) {
    constexpr std::string_view kBreaks = " \n";
    const size_t first = written.find_first_not_of(kBreaks);
    if (first == std::string_view::npos) return {};
    return written.substr(first, written.find_last_not_of(kBreaks) - first + 1);
}

std::set<std::string> text_parameters(const nlohmann::ordered_json& parameters) {
    std::set<std::string> names;
    const auto properties = parameters.is_object() ? parameters.find("properties") : parameters.end();
    if (properties == parameters.end() || !properties->is_object()) return names;
    for (const auto& [name, schema] : properties->items()) {
        if (takes_text(schema)) names.insert(name);
    }
    return names;
}

}  // namespace tandem::text
