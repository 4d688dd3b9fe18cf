#include "text/message_forms.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/json.h"
#include "text/template_traits.h"

namespace tandem::text {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kInstructions =
    "You can call these tools, each given as a JSON object:\n{}\n"
    "To call one, answer with nothing but a JSON object of this form:\n"
    "{{\"name\": \"the tool\", \"arguments\": {{...}}}}\n"
    "Otherwise answer as usual.";

std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The text of `key`, "" where there is none.
std::string_view text_at(const Json& object, const char* key) {
    const auto found = object.find(key);
    const auto* const text = found == object.end() ? nullptr : found->get_ptr<const std::string*>();
    return text == nullptr ? std::string_view() : *text;
}

std::string_view role_of(const Json& message) {
    return text_at(message, "role");
}

// The calls of a message, or null.
Json* calls_of(Json& message) {
    const auto calls = message.find("tool_calls");
    return calls == message.end() || !calls->is_array() || calls->empty() ? nullptr : &*calls;
}

// Of a call, or null.
Json* function_of(Json& call) {
    if (!call.is_object()) return nullptr;
    const auto function = call.find("function");
    return function == call.end() || !function->is_object() ? nullptr : &*function;
}

bool are_messages(const Json& messages) {
    if (!messages.is_array()) return false;
    for (const Json& message : messages) {
        if (!message.is_object()) return false;
    }
    return true;
}

std::string short_id(std::string_view id) {
    constexpr size_t kLength = 9;
    constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const bool is_short = id.size() == kLength && id.find_first_not_of(kLetters) == std::string_view::npos;
    if (is_short) return std::string(id);
    uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
    for (const char letter : id) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
    std::string result(kLength, ' ');
    for (char& letter : result) {
        letter = kLetters[hash % kLetters.size()];
        hash /= kLetters.size();
    }
    return result;
}

// Which of the calls a result answers: the one with its id; without an id they come in the order of the calls.
size_t answered_call(const Json& calls, const Json& result, size_t order) {
    const std::string_view id = text_at(result, "tool_call_id");
    if (id.empty()) return order;
    for (size_t i = 0; i < calls.size(); ++i) {
        if (calls[i].is_object() && text_at(calls[i], "id") == id) return i;
    }
    return calls.size();
}

void fit_arguments(Json& calls, bool as_text) {
    for (Json& call : calls) {
        Json* const function = function_of(call);
        if (function == nullptr) continue;
        const auto arguments = function->find("arguments");
        const Json value = arguments == function->end() ? Json() : *arguments;
        (*function)["arguments"] = as_text ? Json(arguments_text(value)) : arguments_of(value);
    }
}

void write_calls(Json& message, const Json& calls) {
    std::string text = content_text(message);
    for (const Json& call : calls) text += dump(call.is_object() ? call.value("function", call) : call) + "\n";
    message["content"] = std::move(text);
}

// Appends the message, in one piece or two.
void fit_calls(Json message, const TemplateTraits& traits, Json& out) {
    Json calls = std::move(*calls_of(message));
    message.erase("tool_calls");
    fit_arguments(calls, traits.text_arguments && !traits.writes_calls);
    if (traits.writes_calls) {
        write_calls(message, calls);
        out.push_back(std::move(message));
        return;
    }
    Json& content = message["content"];
    if (traits.splits_text && !content_text(message).empty()) {
        out.push_back({{"role", "assistant"}, {"content", content}});
        content = "";
    }
    if (traits.empty_as_null && content == "") content = nullptr;
    if (traits.null_as_empty && content.is_null()) content = "";
    message["tool_calls"] = std::move(calls);
    out.push_back(std::move(message));
}

Json fit_tools(Json messages, const TemplateTraits& traits) {
    Json out = Json::array();
    for (Json& message : messages) {
        if (calls_of(message) != nullptr) {
            fit_calls(std::move(message), traits, out);
            continue;
        }
        message.erase("tool_calls");  // an empty list, which some templates take for calls
        if (const auto content = message.find("content"); content != message.end() && content->is_null()) *content = "";
        if (traits.results_as_user && role_of(message) == "tool") {
            message = {{"role", "user"}, {"content", "The tool answered:\n" + content_text(message)}};
        }
        out.push_back(std::move(message));
    }
    return out;
}

void type_contents(Json& messages) {
    for (Json& message : messages) {
        const auto content = message.find("content");
        if (content == message.end() || !content->is_string()) continue;
        *content = Json::array({{{"type", "text"}, {"text", *content}}});
    }
}

}  // namespace

Json arguments_of(const Json& arguments) {
    if (!arguments.is_string()) return arguments.is_null() ? Json::object() : arguments;
    const auto& source = arguments.get_ref<const std::string&>();
    if (source.empty()) return Json::object();
    Result<Json> parsed = format::parse_ordered_json(source, "arguments");
    if (!parsed || !parsed->is_object()) return arguments;
    return std::move(*parsed);
}

std::string arguments_text(const Json& arguments) {
    const bool is_empty = arguments.is_null() || arguments == "";
    if (is_empty) return "{}";
    return arguments.is_string() ? arguments.get<std::string>() : dump(arguments);
}

std::string content_text(const Json& message) {
    const auto content = message.find("content");
    if (content == message.end()) return {};
    if (content->is_string()) return content->get<std::string>();
    std::string text;
    if (!content->is_array()) return text;
    for (const Json& part : *content) {
        if (part.is_object()) text += text_at(part, "text");
    }
    return text;
}

Json describe_tools(Json messages, const Json& tools) {
    std::string lines;
    for (const Json& tool : tools) lines += dump(tool.is_object() ? tool.value("function", tool) : tool) + "\n";
    std::string system = fmt::format(kInstructions, lines);
    if (!are_messages(messages)) return messages;
    const bool has_system = !messages.empty() && role_of(messages.front()) == "system";
    if (has_system) {
        system.insert(0, content_text(messages.front()) + "\n\n");
        messages.front()["content"] = std::move(system);
    } else {
        messages.insert(messages.begin(), Json{{"role", "system"}, {"content", std::move(system)}});
    }
    return messages;
}

Json messages_with_system_tools(Json messages, const Json& tools) {
    if (!are_messages(messages)) return messages;
    Json functions = Json::array();
    for (const Json& tool : tools) functions.push_back(tool.is_object() ? tool.value("function", tool) : tool);
    const bool has_system = !messages.empty() && role_of(messages.front()) == "system";
    if (!has_system) messages.insert(messages.begin(), Json{{"role", "system"}, {"content", ""}});
    messages.front()["tools"] = dump(functions);
    return messages;
}

Json tools_in_full(Json tools) {
    for (Json& tool : tools) {
        if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
        Json& function = tool["function"];
        if (!function.contains("description")) function["description"] = "";
        Json& parameters = function["parameters"];
        if (!parameters.is_object()) parameters = {{"type", "object"}};
        if (!parameters.contains("properties")) parameters["properties"] = Json::object();
    }
    return tools;
}

Json messages_with_short_ids(Json messages) {
    std::vector<std::string> asked;  // by the last message with calls
    size_t answered = 0;             // of them
    for (Json& message : messages) {
        if (Json* const calls = calls_of(message)) {
            asked.clear();
            answered = 0;
            for (Json& call : *calls) {
                if (!call.is_object()) continue;
                const std::string_view id = text_at(call, "id");
                asked.push_back(short_id(id.empty() ? fmt::format("call {}", asked.size()) : std::string(id)));
                call["id"] = asked.back();
            }
        }
        if (role_of(message) != "tool") continue;
        if (const std::string_view id = text_at(message, "tool_call_id"); !id.empty()) {
            message["tool_call_id"] = short_id(id);
        } else if (answered < asked.size()) {
            message["tool_call_id"] = asked[answered];
        }
        ++answered;
    }
    return messages;
}

Json messages_with_named_results(Json messages) {
    Json calls = Json::array();  // of the last message with some
    size_t order = 0;
    for (Json& message : messages) {
        if (const Json* const asked = calls_of(message)) {
            calls = *asked;
            order = 0;
        }
        if (role_of(message) != "tool") continue;
        const size_t call = answered_call(calls, message, order++);
        Json* const function = call < calls.size() ? function_of(calls[call]) : nullptr;
        if (function != nullptr && text_at(message, "name").empty()) message["name"] = text_at(*function, "name");
    }
    return messages;
}

Json messages_with_one_call(Json messages) {
    Json out = Json::array();
    for (size_t i = 0; i < messages.size(); ++i) {
        const Json* const calls = calls_of(messages[i]);
        if (calls == nullptr || calls->size() == 1) {
            out.push_back(messages[i]);
            continue;
        }
        size_t end = i + 1;
        while (end < messages.size() && role_of(messages[end]) == "tool") ++end;
        for (size_t call = 0; call < calls->size(); ++call) {
            Json alone = call == 0 ? messages[i] : Json{{"role", "assistant"}, {"content", ""}};
            alone["tool_calls"] = Json::array({(*calls)[call]});
            out.push_back(std::move(alone));
            const bool is_last = call + 1 == calls->size();  // and has the results of no call at all
            for (size_t result = i + 1; result < end; ++result) {
                const size_t answered = answered_call(*calls, messages[result], result - i - 1);
                if (answered == call || (is_last && answered > call)) out.push_back(messages[result]);
            }
        }
        i = end - 1;
    }
    return out;
}

Json messages_with_folded_system(Json messages, bool late_only) {
    Json out = Json::array();
    std::string pending;
    for (Json& message : messages) {
        const bool folds = role_of(message) == "system" && !(late_only && out.empty());
        if (folds) {
            pending += content_text(message) + "\n\n";
            continue;
        }
        if (!pending.empty() && role_of(message) == "user") {
            message["content"] = std::exchange(pending, {}) + content_text(message);
        }
        out.push_back(std::move(message));
    }
    while (pending.ends_with('\n')) pending.pop_back();
    if (!pending.empty()) out.push_back({{"role", "user"}, {"content", pending}});
    return out;
}

Json messages_in_turns(Json messages) {
    Json out = Json::array();
    for (Json& message : messages) {
        const std::string_view role = role_of(message);
        const bool goes_on =
            !out.empty() && role_of(out.back()) == role && role != "tool" && calls_of(out.back()) == nullptr;
        if (!goes_on) {
            out.push_back(std::move(message));
            continue;
        }
        std::string text = content_text(out.back());
        const std::string more = content_text(message);
        if (!text.empty() && !more.empty()) text += "\n\n";
        out.back()["content"] = text + more;
        if (Json* const calls = calls_of(message)) out.back()["tool_calls"] = std::move(*calls);
    }
    return out;
}

Json fit_messages(Json messages, const TemplateTraits& traits) {
    if (!are_messages(messages)) return messages;
    if (traits.short_ids) messages = messages_with_short_ids(std::move(messages));
    if (traits.names_results) messages = messages_with_named_results(std::move(messages));
    if (traits.one_call) messages = messages_with_one_call(std::move(messages));
    messages = fit_tools(std::move(messages), traits);
    if (traits.folds_system || traits.folds_late_system) {
        messages = messages_with_folded_system(std::move(messages), !traits.folds_system);
    }
    if (traits.merges_turns) messages = messages_in_turns(std::move(messages));
    if (traits.typed_content) type_contents(messages);
    return messages;
}

}  // namespace tandem::text
