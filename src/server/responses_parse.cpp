#include "server/responses_parse.h"

#include <utility>

#include "server/fields.h"
#include "server/sse.h"

namespace tandem::server {

namespace {

// The items of a request as messages: calls and reasoning become part of an answer of the assistant.
class Items {
  public:
    void add_text(std::string role, const std::string& text) {
        if (role == "developer") role = "system";
        // Instructions may come in several pieces; templates want one.
        if (role == "system" && messages_.size() == 1 && messages_.back()["role"] == "system") {
            messages_.back()["content"].get_ref<std::string&>() += "\n\n" + text;
            return;
        }
        if (role == "assistant") {
            Json& message = answer(false);
            message["content"] = text;
            return;
        }
        messages_.push_back({{"role", std::move(role)}, {"content", text}});
    }

    void add_reasoning(const std::string& text) {
        if (!text.empty()) answer(false)["reasoning_content"] = text;
    }

    void add_call(const std::string& id, const std::string& name, Json arguments) {
        answer(true)["tool_calls"].push_back(
            {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
    }

    void add_result(const std::string& id, const std::string& text) {
        messages_.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", text}});
    }

    Json take() { return std::move(messages_); }

  private:
    // The assistant's message that goes on, or a new one: after text there may be calls, but no other text.
    Json& answer(bool for_call) {
        const bool has_one = !messages_.empty() && messages_.back()["role"] == "assistant";
        const bool is_bare = has_one && messages_.back()["content"].get_ref<const std::string&>().empty() &&
                             !messages_.back().contains("tool_calls");
        const bool goes_on = has_one && (for_call || is_bare);
        if (!goes_on) messages_.push_back({{"role", "assistant"}, {"content", ""}});
        return messages_.back();
    }

    Json messages_ = Json::array();
};

Reply<Ok> read_message_item(const Fields& item, Items& items) {
    const std::string role = TRY(item.required_text("role"));
    if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
        return bad_request(item.name("role"), "{}: '{}' is none of user, assistant, system and developer",
                           item.name("role"), role);
    }
    const Json* const content = item.find("content");
    if (content == nullptr) return item.wrong("content", "a string or an array of parts");
    const std::string text =
        TRY(text_of_content(*content, item.name("content"), {"input_text", "output_text", "text"}));
    items.add_text(role, text);
    return Ok{};
}

Reply<Ok> read_call_item(const Fields& item, Items& items) {
    const std::string id = TRY(item.required_text("call_id"));
    const std::string name = TRY(item.required_text("name"));
    const std::string arguments = TRY(item.required_text("arguments"));
    items.add_call(id, name, arguments);
    return Ok{};
}

Reply<Ok> read_result_item(const Fields& item, Items& items) {
    const std::string id = TRY(item.required_text("call_id"));
    const Json* const output = item.find("output");
    if (output == nullptr) return item.wrong("output", "a string or an array of parts");
    const std::string text = TRY(text_of_content(*output, item.name("output"), {"input_text", "output_text", "text"}));
    items.add_result(id, text);
    return Ok{};
}

Reply<Ok> read_reasoning_item(const Fields& item, Items& items) {
    const Json* const content = item.find("content");
    const std::string text =
        TRY(text_of_content(content == nullptr ? Json() : *content, item.name("content"), {"reasoning_text", "text"}));
    items.add_reasoning(text);
    return Ok{};
}

Reply<Ok> read_item(const Fields& item, Items& items) {
    std::string type = "message";
    TRY(item.read("type", type));
    if (type == "message") return read_message_item(item, items);
    if (type == "function_call") return read_call_item(item, items);
    if (type == "function_call_output") return read_result_item(item, items);
    if (type == "reasoning") return read_reasoning_item(item, items);
    if (type == "item_reference")
        return bad_request(item.name("type"), "{}: this server stores nothing: send the item itself",
                           item.name("type"));
    return bad_request(item.name("type"), "{}: items of type '{}' are not supported", item.name("type"), type);
}

Reply<Ok> read_input(const Fields& body, const char* key, Ask& ask) {
    Items items;
    if (!ask.instructions.empty()) items.add_text("system", ask.instructions);
    const Json* const input = body.find(key);
    if (input != nullptr && input->is_string()) {
        items.add_text("user", input->get<std::string>());
    } else if (input != nullptr && input->is_array() && !input->empty()) {
        TRY(body.required_array(key, AskLimits().messages));
        for (size_t i = 0; i < input->size(); ++i) {
            const Fields item = TRY(Fields::of((*input)[i], fmt::format("input[{}]", i)));
            TRY(read_item(item, items));
        }
    } else {
        return body.wrong(key, "a string or an array of items");
    }
    ask.messages = items.take();
    return Ok{};
}

Reply<Ok> read_function_tools(const Fields& body, const char* key, Ask& ask) {
    const Json* const tools = TRY(body.required_array(key, AskLimits().tools));
    if (tools->empty()) return Ok{};
    ask.tools = Json::array();
    for (size_t i = 0; i < tools->size(); ++i) {
        const std::string path = fmt::format("tools[{}]", i);
        const Fields tool = TRY(Fields::of((*tools)[i], path));
        const std::string type = TRY(tool.required_text("type"));
        if (type != "function") {
            return bad_request(tool.name("type"), "{}: tools of type '{}' are not supported; give a function",
                               tool.name("type"), type);
        }
        Json function = Json::object();
        for (const char* name : {"name", "description", "parameters", "strict"}) {
            if (const Json* const value = tool.find(name); value != nullptr) function[name] = *value;
        }
        ask.tools.push_back({{"type", "function"}, {"function", std::move(function)}});
        TRY(check_tool(ask.tools.back(), path));
    }
    return Ok{};
}

Reply<Ok> read_function_choice(const Fields& body, const char* key, Ask& ask) {
    const Json* const choice = body.find(key);
    if (*choice == "auto") return Ok{};
    if (*choice == "none") {
        ask.tool_choice = ToolChoice::none;
    } else if (*choice == "required") {
        ask.tool_choice = ToolChoice::required;
    } else {
        const Fields fields = TRY(Fields::of(*choice, "tool_choice"));
        const std::string type = TRY(fields.required_text("type"));
        if (type != "function") return fields.wrong("type", "\"function\"");
        ask.tool_choice = ToolChoice::named;
        ask.tool_name = TRY(fields.required_text("name"));
    }
    return Ok{};
}

Reply<Ok> read_text_format(const Fields& body, const char* key, Ask& ask) {
    const Fields fields = TRY(Fields::of(*body.find(key), key));
    const Json* const format = fields.find("format");
    if (format == nullptr) return Ok{};
    const Fields inner = TRY(Fields::of(*format, "text.format"));
    const std::string type = TRY(inner.required_text("type"));
    if (type == "json_object") {
        ask.format.kind = FormatKind::json_object;
    } else if (type == "json_schema") {
        const Json* const schema = inner.find("schema");
        if (schema == nullptr || !schema->is_object()) return inner.wrong("schema", "a JSON Schema");
        ask.format = {.kind = FormatKind::json_schema, .source = dump(*schema)};
    } else if (type != "text") {
        return bad_request("text.format.type", "text.format.type: '{}' is none of text, json_object and json_schema",
                           type);
    }
    return Ok{};
}

Reply<Ok> read_reasoning_wish(const Fields& body, const char* key, Ask& ask) {
    const Fields fields = TRY(Fields::of(*body.find(key), key));
    TRY(fields.read("effort", ask.reasoning_effort));
    return Ok{};
}

// Logprobs are asked for by the list of what to include, or by their number.
Reply<Ok> read_included(const Fields& body, const char* key, Ask& ask) {
    std::vector<std::string> include;
    TRY(body.read(key, include));
    for (const std::string& item : include) {
        if (item == "message.output_text.logprobs") ask.logprobs = ask.logprobs.value_or(0);
    }
    return Ok{};
}

Reply<Ok> read_logprobs_number(const Fields& body, const char* key, Ask& ask) {
    int top = 0;
    TRY(body.read(key, top));
    if (top != 0) ask.logprobs = top;
    return Ok{};
}

Reply<Ok> read_output_tokens(const Fields& body, const char* key, Ask& ask) {
    TRY(body.read(key, ask.max_tokens));
    if (ask.max_tokens < 1) return bad_request(key, "{} is {}: at least 1", key, ask.max_tokens);
    return Ok{};
}

// Up to 16 pairs of short strings, as OpenAI has it; they come back with the response.
Reply<Ok> read_response_metadata(const Fields& body, const char* key, Ask& ask) {
    constexpr size_t kMostPairs = 16;
    constexpr size_t kMostKeyBytes = 64;
    constexpr size_t kMostValueBytes = 512;
    const Json* const metadata = body.find(key);
    if (!metadata->is_object() || metadata->size() > kMostPairs) {
        return body.wrong(key, "an object of at most 16 pairs of strings");
    }
    for (const auto& pair : metadata->items()) {
        const bool fits = pair.key().size() <= kMostKeyBytes && pair.value().is_string() &&
                          pair.value().get_ref<const std::string&>().size() <= kMostValueBytes;
        if (!fits) return body.wrong(key, "keys of at most 64 bytes, and strings of at most 512");
    }
    ask.metadata = *metadata;
    return Ok{};
}

}  // namespace

const FieldRules& responses_fields() {
    using Sampling = device::SamplingParams;
    constexpr std::string_view kNothingStored = "this server stores nothing: send the whole conversation as input";
    static const FieldRules rules = {
        refuses("previous_response_id", kNothingStored),
        refuses("conversation", kNothingStored),
        refuses("prompt", kNothingStored),
        refuses("background", "this server stores nothing: use stream"),
        reads("model", into<&Ask::model>),
        reads("instructions", into<&Ask::instructions>),
        needs("input", read_input),
        reads("tools", read_function_tools),
        reads("tool_choice", read_function_choice),
        reads("parallel_tool_calls", into<&Ask::parallel_tool_calls>),
        reads("text", read_text_format),
        reads("reasoning", read_reasoning_wish),
        reads("include", read_included),
        reads("top_logprobs", read_logprobs_number),
        reads("stream", into<&Ask::stream>),
        reads("temperature", into_sampling<&Sampling::temperature>),
        reads("top_p", into_sampling<&Sampling::top_p>),
        reads("user", into<&Ask::user>),
        reads("metadata", read_response_metadata),
        reads("max_output_tokens", read_output_tokens),
        ignores("truncation"),  // what does not fit is an error, never cut
        ignores("max_tool_calls"),
        ignores("store"),
        ignores("stream_options"),
        ignores("service_tier"),
        ignores("safety_identifier"),
        ignores("prompt_cache_key"),
        ignores("prompt_cache_retention"),
    };
    return rules;
}

Reply<Ask> parse_responses(const Json& body) {
    Ask ask;
    const Fields fields = TRY(Fields::of(body));
    TRY(read_fields(fields, responses_fields(), ask));
    return ask;
}

}  // namespace tandem::server
