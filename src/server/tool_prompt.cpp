#include "server/tool_prompt.h"

#include <algorithm>
#include <cstdint>

#include "server/sse.h"

namespace tandem::server {

namespace {

constexpr std::string_view kInstructions =
    "You can call these tools, each given as a JSON object:\n{}\n"
    "To call one, answer with nothing but a JSON object of this form:\n"
    "{{\"name\": \"the tool\", \"arguments\": {{...}}}}\n"
    "Otherwise answer as usual.";

std::string describe(const Json& tools) {
    std::string lines;
    for (const Json& tool : tools) lines += dump(tool.at("function")) + "\n";
    return fmt::format(kInstructions, lines);
}

std::string text_of_calls(const Json& calls) {
    std::string text;
    for (const Json& call : calls) text += dump(call.at("function")) + "\n";
    return text;
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

Json messages_with_tools(const Ask& ask) {
    Json messages = Json::array();
    std::string system = describe(ask.tools);
    size_t i = 0;
    if (!ask.messages.empty() && ask.messages.front().value("role", "") == "system") {
        system.insert(0, ask.messages.front().value("content", "") + "\n\n");
        i = 1;
    }
    messages.push_back({{"role", "system"}, {"content", system}});
    for (; i < ask.messages.size(); ++i) {
        const Json& message = ask.messages[i];
        std::string content = message.value("content", "");
        std::string role = message.value("role", "user");
        if (role == "tool") {
            role = "user";
            content.insert(0, "The tool answered:\n");
        }
        const auto calls = message.find("tool_calls");
        if (calls != message.end()) content += text_of_calls(*calls);
        // Templates want questions and answers to take turns.
        if (messages.back().at("role") == role && role == "user") {
            messages.back()["content"] = messages.back().value("content", "") + "\n\n" + content;
        } else {
            messages.push_back({{"role", role}, {"content", content}});
        }
    }
    return messages;
}

Json messages_with_short_ids(Json messages) {
    std::vector<std::string> asked;  // by the last message with calls
    size_t answered = 0;             // of them
    for (Json& message : messages) {
        if (const auto calls = message.find("tool_calls"); calls != message.end()) {
            asked.clear();
            answered = 0;
            for (Json& call : *calls) {
                const std::string id = call.value("id", "");
                asked.push_back(short_id(id.empty() ? fmt::format("call {}", asked.size()) : id));
                call["id"] = asked.back();
            }
        }
        if (message.value("role", "") != "tool") continue;
        if (const auto id = message.find("tool_call_id"); id != message.end()) {
            *id = short_id(id->get_ref<const std::string&>());
        } else if (answered < asked.size()) {  // results come in the order of the calls
            message["tool_call_id"] = asked[answered];
        }
        ++answered;
    }
    return messages;
}

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
