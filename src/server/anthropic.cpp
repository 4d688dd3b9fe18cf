#include "server/anthropic.h"

#include <map>
#include <utility>

#include "server/fields.h"
#include "server/sse.h"

namespace tandem::server {

namespace {

std::string_view anthropic_type(const ApiError& error) {
    switch (error.status) {
        case 401:
            return "authentication_error";
        case 403:
            return "permission_error";
        case 404:
            return "not_found_error";
        case 413:
            return "request_too_large";
        case 429:
            return "rate_limit_error";
        case 503:
            return "overloaded_error";
        default:
            return error.status >= 500 ? "api_error" : "invalid_request_error";
    }
}

Json anthropic_error_json(const ApiError& error) {
    return {{"type", "error"}, {"error", {{"type", anthropic_type(error)}, {"message", error.message}}}};
}

std::string anthropic_error(const ApiError& error) {
    return dump(anthropic_error_json(error));
}

// The messages of a request in the form of templates. Neighbours with the same role become one.
class AnthropicMessages {
  public:
    void add_text(const std::string& role, const std::string& text) {
        if (!messages_.empty() && messages_.back()["role"] == role && !messages_.back().contains("tool_calls")) {
            std::string& before = messages_.back()["content"].get_ref<std::string&>();
            before += (before.empty() ? "" : "\n") + text;
            return;
        }
        messages_.push_back({{"role", role}, {"content", text}});
    }

    void add_thinking(const std::string& text) {
        if (messages_.empty() || messages_.back()["role"] != "assistant") add_text("assistant", "");
        messages_.back()["reasoning_content"] = text;
    }

    void add_call(const std::string& id, const std::string& name, const Json& input) {
        if (messages_.empty() || messages_.back()["role"] != "assistant") add_text("assistant", "");
        messages_.back()["tool_calls"].push_back(
            {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", input}}}});
        names_[id] = name;
    }

    void add_result(const std::string& id, const std::string& text) {
        Json message = {{"role", "tool"}, {"tool_call_id", id}};
        if (const auto name = names_.find(id); name != names_.end()) message["name"] = name->second;
        message["content"] = text;
        messages_.push_back(std::move(message));
    }

    Json take() { return std::move(messages_); }

  private:
    Json messages_ = Json::array();
    std::map<std::string, std::string> names_;  // of the tools, by the ids of their calls
};

Reply<Ok> read_tool_use(const Fields& block, AnthropicMessages& conversation) {
    const std::string id = TRY(block.required_text("id"));
    const std::string name = TRY(block.required_text("name"));
    const Json* const input = block.find("input");
    if (input != nullptr && !input->is_object()) return block.wrong("input", "an object");
    conversation.add_call(id, name, input == nullptr ? Json::object() : *input);
    return Ok{};
}

Reply<Ok> read_tool_result(const Fields& block, AnthropicMessages& conversation) {
    const std::string id = TRY(block.required_text("tool_use_id"));
    const Json* const content = block.find("content");
    bool failed = false;
    TRY(block.read("is_error", failed));
    const std::string text = TRY(text_of_content(content == nullptr ? Json() : *content, block.name("content")));
    conversation.add_result(id, failed ? "Error: " + text : text);
    return Ok{};
}

Reply<Ok> read_content_block(const Fields& block, const std::string& role, AnthropicMessages& conversation) {
    const std::string type = TRY(block.required_text("type"));
    const bool by_user = role == "user";
    if (type == "text") {
        conversation.add_text(role, TRY(block.required_text("text")));
    } else if (type == "tool_result" && by_user) {
        return read_tool_result(block, conversation);
    } else if (type == "tool_use" && !by_user) {
        return read_tool_use(block, conversation);
    } else if (type == "thinking" && !by_user) {
        conversation.add_thinking(TRY(block.required_text("thinking")));
    } else if (type != "redacted_thinking" || by_user) {
        return bad_request(block.name("type"),
                           "{}: blocks of type '{}' are not supported here: the models of this server read text",
                           block.name("type"), type);
    }
    return Ok{};
}

Reply<Ok> read_anthropic_message(const Json& json, const std::string& path, AnthropicMessages& conversation) {
    const Fields fields = TRY(Fields::of(json, path));
    const std::string role = TRY(fields.required_text("role"));
    if (role != "user" && role != "assistant") {
        return bad_request(fields.name("role"), "{}: '{}' is neither user nor assistant; give instructions as `system`",
                           fields.name("role"), role);
    }
    const Json* const content = fields.find("content");
    if (content != nullptr && content->is_string()) {
        conversation.add_text(role, content->get<std::string>());
        return Ok{};
    }
    if (content == nullptr || !content->is_array()) return fields.wrong("content", "a string or an array of blocks");
    for (size_t i = 0; i < content->size(); ++i) {
        const Fields block = TRY(Fields::of((*content)[i], fmt::format("{}[{}]", fields.name("content"), i)));
        TRY(read_content_block(block, role, conversation));
    }
    return Ok{};
}

Reply<Ok> read_anthropic_messages(const Fields& body, const char* key, Ask& ask) {
    AnthropicMessages conversation;
    if (const Json* const system = body.find("system"); system != nullptr) {
        const std::string text = TRY(text_of_content(*system, "system"));
        if (!text.empty()) conversation.add_text("system", text);
    }
    const Json* const messages = TRY(body.required_array(key, AskLimits().messages));
    if (messages->empty()) return bad_request(key, "messages: there must be at least one");
    for (size_t i = 0; i < messages->size(); ++i)
        TRY(read_anthropic_message((*messages)[i], fmt::format("messages[{}]", i), conversation));
    ask.messages = conversation.take();
    const Json& last = ask.messages.back();
    ask.continues_last = last["role"] == "assistant" && !last.contains("tool_calls") &&
                         !last["content"].get_ref<const std::string&>().empty();
    return Ok{};
}

Reply<Ok> read_anthropic_tools(const Fields& body, const char* key, Ask& ask) {
    const Json* const tools = TRY(body.required_array(key, AskLimits().tools));
    if (tools->empty()) return Ok{};
    ask.tools = Json::array();
    for (size_t i = 0; i < tools->size(); ++i) {
        const Fields tool = TRY(Fields::of((*tools)[i], fmt::format("tools[{}]", i)));
        std::string type = "custom";
        std::string description;
        TRY(tool.read("type", type));
        if (type != "custom") {
            return bad_request(tool.name("type"),
                               "{}: tools of type '{}' are not supported; give one with an "
                               "input_schema",
                               tool.name("type"), type);
        }
        const std::string name = TRY(tool.required_text("name"));
        Json function = {{"name", name}};
        TRY(tool.read("description", description));
        if (!description.empty()) function["description"] = description;
        if (const Json* const schema = tool.find("input_schema"); schema != nullptr) function["parameters"] = *schema;
        ask.tools.push_back({{"type", "function"}, {"function", std::move(function)}});
        TRY(check_tool(ask.tools.back(), tool.name("input_schema")));
    }
    return Ok{};
}

Reply<Ok> read_anthropic_choice(const Fields& body, const char* key, Ask& ask) {
    const Fields fields = TRY(Fields::of(*body.find(key), key));
    const std::string type = TRY(fields.required_text("type"));
    bool one_at_a_time = false;
    TRY(fields.read("disable_parallel_tool_use", one_at_a_time));
    ask.parallel_tool_calls = !one_at_a_time;
    if (type == "any") {
        ask.tool_choice = ToolChoice::required;
    } else if (type == "none") {
        ask.tool_choice = ToolChoice::none;
    } else if (type == "tool") {
        ask.tool_choice = ToolChoice::named;
        ask.tool_name = TRY(fields.required_text("name"));
    } else if (type != "auto") {
        return fields.wrong("type", "auto, any, tool or none");
    }
    return Ok{};
}

// {"type": "json_schema", "schema"}, as output_format or in output_config.
Reply<Ok> read_output_format(const Fields& body, const char* key, Ask& ask) {
    const Fields fields = TRY(Fields::of(*body.find(key), body.name(key)));
    const std::string type = TRY(fields.required_text("type"));
    const Json* const schema = fields.find("schema");
    if (type != "json_schema" || schema == nullptr || !schema->is_object())
        return bad_request(body.name(key), "{} must be of type json_schema, with a schema", body.name(key));
    ask.format = {.kind = FormatKind::json_schema, .source = dump(*schema)};
    return Ok{};
}

Reply<Ok> read_output_config(const Fields& body, const char* key, Ask& ask) {
    static const FieldRules rules = {reads("effort", into<&Ask::reasoning_effort>),
                                     reads("format", read_output_format)};
    return read_fields(TRY(Fields::of(*body.find(key), key)), rules, ask);
}

// As in the original, models think only when they are told to.
Reply<Ok> read_anthropic_thinking(const Fields& body, const char* key, Ask& ask) {
    ask.thinks = false;
    const Json* const thinking = body.find(key);
    if (thinking == nullptr) return Ok{};
    const Fields fields = TRY(Fields::of(*thinking, key));
    const std::string type = TRY(fields.required_text("type"));
    ask.thinks = type == "enabled" || type == "adaptive";
    if (!*ask.thinks && type != "disabled") return fields.wrong("type", "enabled, disabled or adaptive");
    return Ok{};
}

Reply<Ok> read_metadata(const Fields& body, const char* key, Ask& ask) {
    const Fields fields = TRY(Fields::of(*body.find(key), key));
    return fields.read("user_id", ask.user);
}

Reply<Ok> read_anthropic_model(const Fields& body, const char* key, Ask& ask) {
    ask.model = TRY(body.required_text(key));
    return Ok{};
}

Reply<Ok> read_anthropic_tokens(const Fields& body, const char* key, Ask& ask) {
    if (body.find(key) == nullptr) return bad_request(key, "{} is required", key);
    TRY(body.read(key, ask.max_tokens));
    if (ask.max_tokens < 1) return bad_request(key, "{} is {}: at least 1", key, ask.max_tokens);
    return Ok{};
}

Reply<Ok> read_system(const Fields& body, const char* key, Ask& /*ask*/) {
    TRY(text_of_content(*body.find(key), key));  // it becomes the first message
    return Ok{};
}

// Without max_tokens, which there is nothing to count of.
FieldRules anthropic_prompt_fields() {
    using Sampling = device::SamplingParams;
    return {
        needs("model", read_anthropic_model),
        reads("system", read_system),
        needs("messages", read_anthropic_messages),
        reads("tools", read_anthropic_tools),
        reads("tool_choice", read_anthropic_choice),
        reads("output_format", read_output_format),
        reads("output_config", read_output_config),
        needs("thinking", read_anthropic_thinking),
        reads("metadata", read_metadata),
        reads("stream", into<&Ask::stream>),
        reads("stop_sequences", into<&Ask::stop>),
        reads("temperature", into_sampling<&Sampling::temperature>),
        reads("top_k", into_sampling<&Sampling::top_k>),
        reads("top_p", into_sampling<&Sampling::top_p>),
        refuses("mcp_servers", "this server connects to no other; leave it out"),
        refuses("container", "this server runs no code; leave it out"),
        ignores("context_management"),
        ignores("cache_control"),
        ignores("service_tier"),
        ignores("inference_geo"),
        ignores("betas"),
    };
}

const FieldRules& anthropic_fields() {
    static const FieldRules rules = joined({anthropic_prompt_fields(), {needs("max_tokens", read_anthropic_tokens)}});
    return rules;
}

Reply<Ask> parse_anthropic(const Json& body) {
    Ask ask;
    const Fields fields = TRY(Fields::of(body));
    TRY(read_fields(fields, anthropic_fields(), ask));
    return ask;
}

std::string_view anthropic_stop_reason(const Ending& end) {
    if (end.reason == EndReason::tool_calls) return "tool_use";
    if (end.reason == EndReason::length) return "max_tokens";
    return end.stop_sequence.empty() ? "end_turn" : "stop_sequence";
}

Json anthropic_usage(const engine::Usage& usage) {
    return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", usage.cached_tokens},
            {"output_tokens", usage.generated_tokens}};
}

class AnthropicWriter final : public Writer {
  public:
    explicit AnthropicWriter(AnswerHead head) : head_(std::move(head)) {}

    std::string begin() override {
        Json message = message_json();
        message["usage"] = anthropic_usage({.prompt_tokens = head_.prompt_tokens});
        return event("message_start", {{"type", "message_start"}, {"message", std::move(message)}});
    }

    std::string write(const Delta& delta) override {
        std::string events;
        if (!delta.reasoning.empty()) {
            open(Block::thinking, 0, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, events);
            put({{"type", "thinking_delta"}, {"thinking", delta.reasoning}}, events);
        }
        if (!delta.content.empty()) {
            open(Block::text, 0, {{"type", "text"}, {"text", ""}}, events);
            put({{"type", "text_delta"}, {"text", delta.content}}, events);
        }
        for (const ToolCallPiece& piece : delta.tool_calls) {
            open(Block::call, piece.index,
                 {{"type", "tool_use"}, {"id", piece.id}, {"name", piece.name}, {"input", Json::object()}}, events);
            put({{"type", "input_json_delta"}, {"partial_json", piece.arguments}}, events);
        }
        if (delta.end) end_ = *delta.end;
        return events;
    }

    std::string end() override {
        std::string events;
        close(events);
        events +=
            event("message_delta",
                  {{"type", "message_delta"}, {"delta", stop_json(end_)}, {"usage", anthropic_usage(end_.usage)}});
        return events + event("message_stop", {{"type", "message_stop"}});
    }

    std::string fail(const ApiError& error) override { return event("error", anthropic_error_json(error)); }
    std::string heartbeat() const override { return event("ping", {{"type", "ping"}}); }

    std::string whole(const std::vector<WholeChoice>& choices) override {
        const WholeChoice& choice = choices.front();
        Json message = message_json();
        Json& content = message["content"];
        if (!choice.reasoning.empty())
            content.push_back({{"type", "thinking"}, {"thinking", choice.reasoning}, {"signature", ""}});
        if (!choice.content.empty()) content.push_back({{"type", "text"}, {"text", choice.content}});
        for (const ToolCallPiece& call : choice.tool_calls) {
            Json input = arguments_of(call.arguments);
            if (!input.is_object()) input = Json::object();  // it was cut off
            content.push_back(
                {{"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", std::move(input)}});
        }
        message.update(stop_json(choice.end));
        message["usage"] = anthropic_usage(choice.end.usage);
        return dump(message);
    }

  private:
    enum class Block : uint8_t { none, thinking, text, call };

    Json message_json() const {
        return {{"id", "msg_" + head_.id},  {"type", "message"},      {"role", "assistant"},     {"model", head_.model},
                {"content", Json::array()}, {"stop_reason", nullptr}, {"stop_sequence", nullptr}};
    }

    static Json stop_json(const Ending& end) {
        return {{"stop_reason", anthropic_stop_reason(end)},
                {"stop_sequence", end.stop_sequence.empty() ? Json() : Json(end.stop_sequence)}};
    }

    void open(Block block, int call, const Json& start, std::string& events) {
        if (block_ == block && call_ == call) return;
        close(events);
        block_ = block;
        call_ = call;
        ++index_;
        events += event("content_block_start",
                        {{"type", "content_block_start"}, {"index", index_}, {"content_block", start}});
    }

    void put(const Json& delta, std::string& events) const {
        events += event("content_block_delta", {{"type", "content_block_delta"}, {"index", index_}, {"delta", delta}});
    }

    void close(std::string& events) {
        if (block_ == Block::none) return;
        block_ = Block::none;
        events += event("content_block_stop", {{"type", "content_block_stop"}, {"index", index_}});
    }

    AnswerHead head_;
    Block block_ = Block::none;
    int call_ = 0;
    int index_ = -1;
    Ending end_;
};

std::unique_ptr<Writer> anthropic_writer(const Ask& /*ask*/, AnswerHead head) {
    return std::make_unique<AnthropicWriter>(std::move(head));
}

}  // namespace

const Dialect kAnthropicMessages = {.fields = anthropic_fields,
                                    .parse = parse_anthropic,
                                    .writer = anthropic_writer,
                                    .error = anthropic_error,
                                    .has_cut_calls = true};

Reply<Ask> parse_anthropic_count(const Json& body) {
    static const FieldRules rules = joined({anthropic_prompt_fields(), {ignores("max_tokens")}});
    Ask ask;
    const Fields fields = TRY(Fields::of(body));
    TRY(read_fields(fields, rules, ask));
    return ask;
}

Json anthropic_count(int prompt_tokens) {
    return {{"input_tokens", prompt_tokens}};
}

}  // namespace tandem::server
