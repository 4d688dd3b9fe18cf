#include <algorithm>
#include <limits>

#include "server/fields.h"
#include "server/openai.h"

namespace tandem::server {

namespace {

constexpr int kCompletionTokens = 16;  // OpenAI's default, which older clients count on

Reply<Json> parse_tool_calls(const Json& calls, const std::string& path) {
    if (!calls.is_array()) return bad_request(path, "{} must be an array", path);
    Json parsed = Json::array();
    for (size_t i = 0; i < calls.size(); ++i) {
        const Fields call = TRY(Fields::of(calls[i], fmt::format("{}[{}]", path, i)));
        const Json* const function = call.find("function");
        if (function == nullptr) return call.wrong("function", "an object");
        const Fields inner = TRY(Fields::of(*function, call.name("function")));
        const std::string name = TRY(inner.required_text("name"));
        const Json* const arguments = inner.find("arguments");
        std::string id;
        TRY(call.read("id", id));
        parsed.push_back(
            {{"id", id},
             {"type", "function"},
             {"function",
              {{"name", name}, {"arguments", arguments == nullptr ? Json::object() : arguments_of(*arguments)}}}});
    }
    return parsed;
}

Reply<Json> parse_message(const Json& message, const std::string& path) {
    const Fields fields = TRY(Fields::of(message, path));
    std::string role = TRY(fields.required_text("role"));
    if (role == "developer") role = "system";  // newer name for the same
    static constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool"};
    if (std::find(std::begin(kRoles), std::end(kRoles), role) == std::end(kRoles)) {
        return bad_request(fields.name("role"), "{} is '{}': it must be system, user, assistant or tool",
                           fields.name("role"), role);
    }
    const Json* const content = fields.find("content");
    const Json* const calls = fields.find("tool_calls");
    if (content == nullptr && role != "assistant") return fields.wrong("content", "a string or an array of parts");

    Json parsed = {{"role", role}};
    parsed["content"] = content == nullptr ? "" : TRY(text_of_content(*content, fields.name("content")));
    std::string reasoning;
    TRY(fields.read("reasoning", reasoning));
    TRY(fields.read("reasoning_content", reasoning));
    if (!reasoning.empty()) parsed["reasoning_content"] = reasoning;
    if (calls != nullptr && !calls->empty())
        parsed["tool_calls"] = TRY(parse_tool_calls(*calls, fields.name("tool_calls")));
    for (const char* const key : {"name", "tool_call_id"}) {
        std::string value;
        TRY(fields.read(key, value));
        if (!value.empty()) parsed[key] = value;
    }
    return parsed;
}

Reply<Ok> parse_messages(const Fields& body, Ask& ask) {
    const Json* const messages = TRY(body.required_array("messages"));
    if (messages->empty()) return bad_request("messages", "messages is empty: there is nothing to answer");
    if (messages->size() > static_cast<size_t>(AskLimits().messages)) {
        return bad_request("messages", "messages: {} of them; at most {}", messages->size(), AskLimits().messages);
    }
    for (size_t i = 0; i < messages->size(); ++i) {
        ask.messages.push_back(TRY(parse_message((*messages)[i], fmt::format("messages[{}]", i))));
    }
    return Ok{};
}

Reply<Ok> parse_tools(const Fields& body, Ask& ask) {
    const Json* const tools = body.find("tools");
    if (tools != nullptr) {
        if (!tools->is_array()) return body.wrong("tools", "an array");
        for (size_t i = 0; i < tools->size(); ++i) TRY(check_tool((*tools)[i], fmt::format("tools[{}]", i)));
        if (!tools->empty()) ask.tools = *tools;
    }
    TRY(body.read("parallel_tool_calls", ask.parallel_tool_calls));
    const Json* const choice = body.find("tool_choice");
    if (choice == nullptr) return Ok{};
    if (*choice == "auto") {
        ask.tool_choice = ToolChoice::automatic;
    } else if (*choice == "none") {
        ask.tool_choice = ToolChoice::none;
    } else if (*choice == "required") {
        ask.tool_choice = ToolChoice::required;
    } else if (choice->is_object()) {
        const Fields named = TRY(Fields::of(*choice, "tool_choice"));
        const Json* const function = named.find("function");
        if (function == nullptr) return named.wrong("function", "an object with the name of a tool");
        const Fields inner = TRY(Fields::of(*function, "tool_choice.function"));
        ask.tool_name = TRY(inner.required_text("name"));
        ask.tool_choice = ToolChoice::named;
    } else {
        return body.wrong("tool_choice", "auto, none, required or an object that names a function");
    }
    return Ok{};
}

Reply<Ok> parse_format(const Fields& body, Ask& ask) {
    std::string grammar;  // as llama-server has it
    TRY(body.read("grammar", grammar));
    if (!grammar.empty()) ask.format = {.kind = FormatKind::gbnf, .source = grammar};
    const Json* const format = body.find("response_format");
    if (format == nullptr) return Ok{};
    const Fields fields = TRY(Fields::of(*format, "response_format"));
    const std::string type = TRY(fields.required_text("type"));
    if (type == "text") return Ok{};
    if (!grammar.empty()) return bad_request("grammar", "grammar and response_format exclude each other");
    if (type == "json_object") {
        ask.format = {.kind = FormatKind::json_object};
        return Ok{};
    }
    if (type != "json_schema") {
        return bad_request("response_format.type",
                           "response_format.type is '{}': it must be text, json_object or json_schema", type);
    }
    const Json* const wrapper = fields.find("json_schema");
    if (wrapper == nullptr) return fields.wrong("json_schema", "an object with a schema");
    const Fields inner = TRY(Fields::of(*wrapper, "response_format.json_schema"));
    const Json* const schema = inner.find("schema");
    if (schema == nullptr || !schema->is_object()) return inner.wrong("schema", "a JSON Schema object");
    ask.format = {.kind = FormatKind::json_schema, .source = schema->dump()};
    return Ok{};
}

// What /v1/chat/completions and /v1/completions have in common.
Reply<Ok> parse_shared(const Fields& body, Ask& ask) {
    TRY(body.read("model", ask.model));
    TRY(body.read("temperature", ask.sampling.temperature));
    TRY(body.read("top_p", ask.sampling.top_p));
    TRY(body.read("top_k", ask.sampling.top_k));
    ask.sampling.top_k = std::max(ask.sampling.top_k, 0);  // -1 is all for some clients
    TRY(body.read("min_p", ask.sampling.min_p));
    TRY(body.read("presence_penalty", ask.sampling.presence_penalty));
    TRY(body.read("frequency_penalty", ask.sampling.frequency_penalty));
    TRY(body.read("repeat_penalty", ask.sampling.repetition_penalty));
    TRY(body.read("repetition_penalty", ask.sampling.repetition_penalty));
    TRY(body.read_logit_bias("logit_bias", ask.sampling.logit_bias));
    TRY(body.read("seed", ask.seed));
    TRY(body.read("n", ask.n));
    TRY(body.read("stop", ask.stop));
    TRY(body.read("ignore_eos", ask.ignore_end));
    TRY(body.read("stream", ask.stream));
    TRY(body.read("user", ask.user));
    TRY(body.read("keep_alive", ask.keep_alive_s));
    const Json* const options = body.find("stream_options");
    if (options != nullptr) {
        const Fields inner = TRY(Fields::of(*options, "stream_options"));
        TRY(inner.read("include_usage", ask.include_usage));
    }
    return parse_format(body, ask);
}

Reply<Ok> parse_max_tokens(const Fields& body, const char* key, Ask& ask) {
    if (body.find(key) == nullptr) return Ok{};
    TRY(body.read(key, ask.max_tokens));
    if (ask.max_tokens < 1) return bad_request(key, "{} is {}: it must be at least 1", key, ask.max_tokens);
    return Ok{};
}

Reply<Ok> parse_thinking(const Fields& body, Ask& ask) {
    TRY(body.read("reasoning_effort", ask.reasoning_effort));
    const Json* const values = body.find("chat_template_kwargs");
    if (values == nullptr) return Ok{};
    const Fields fields = TRY(Fields::of(*values, "chat_template_kwargs"));
    TRY(fields.read("enable_thinking", ask.thinks));
    for (const char* const key : {"messages", "tools", "bos_token", "eos_token", "chat_template"}) {
        if (fields.find(key) != nullptr)
            return bad_request(fields.name(key), "{} is the server's: leave it out", fields.name(key));
    }
    ask.template_values = *values;
    return Ok{};
}

Reply<text::TokenId> parse_token(const Json& value, const std::string& name) {
    const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() < (1U << 31U));
    const int64_t id = fits ? value.get<int64_t>() : -1;
    if (id < 0 || id > std::numeric_limits<text::TokenId>::max()) {
        return bad_request(name, "{}: a token id must be a whole number that is not negative", name);
    }
    return static_cast<text::TokenId>(id);
}

Reply<Prompt> parse_prompt(const Json& value, const std::string& name) {
    if (value.is_string()) return Prompt(value.get<std::string>());
    if (!value.is_array()) return bad_request(name, "{} must be a string, token ids, or an array of either", name);
    std::vector<text::TokenId> tokens;
    tokens.reserve(value.size());
    for (const Json& token : value) tokens.push_back(TRY(parse_token(token, name)));
    return Prompt(std::move(tokens));
}

}  // namespace

Reply<std::vector<Prompt>> parse_prompts(const Json& value, const std::string& name) {
    std::vector<Prompt> prompts;
    const bool several = value.is_array() && !value.empty() && !value.front().is_number();
    if (!several) {
        prompts.push_back(TRY(parse_prompt(value, name)));
        return prompts;
    }
    if (value.size() > static_cast<size_t>(AskLimits().prompts)) {
        return bad_request(name, "{}: {} of them; at most {}", name, value.size(), AskLimits().prompts);
    }
    prompts.reserve(value.size());
    for (const Json& item : value) prompts.push_back(TRY(parse_prompt(item, name)));
    return prompts;
}

Reply<Ask> parse_openai_chat(const Json& body) {
    Ask ask;
    const Fields fields = TRY(Fields::of(body));
    TRY(parse_shared(fields, ask));
    TRY(parse_messages(fields, ask));
    TRY(parse_tools(fields, ask));
    TRY(parse_thinking(fields, ask));
    TRY(parse_max_tokens(fields, "max_tokens", ask));
    TRY(parse_max_tokens(fields, "max_completion_tokens", ask));
    TRY(fields.read("continue_final_message", ask.continues_last));
    bool logprobs = false;
    TRY(fields.read("logprobs", logprobs));
    if (logprobs) ask.logprobs = 0;
    int top_logprobs = 0;
    TRY(fields.read("top_logprobs", top_logprobs));
    if (top_logprobs != 0 && !logprobs) return bad_request("top_logprobs", "top_logprobs needs logprobs: true");
    if (logprobs) ask.logprobs = top_logprobs;
    return ask;
}

Reply<Ask> parse_openai_completion(const Json& body) {
    Ask ask;
    ask.kind = AskKind::completion;
    ask.max_tokens = kCompletionTokens;
    const Fields fields = TRY(Fields::of(body));
    TRY(parse_shared(fields, ask));
    TRY(fields.read("logprobs", ask.logprobs));
    TRY(fields.read("echo", ask.echo));
    const Json* const most = fields.find("max_tokens");
    ask.prompt_only = ask.echo && most != nullptr && *most == 0;  // to have the prompt's log-probabilities
    if (ask.prompt_only)
        ask.max_tokens = 1;
    else
        TRY(parse_max_tokens(fields, "max_tokens", ask));
    const Json* const prompt = fields.find("prompt");
    if (prompt == nullptr) return fields.wrong("prompt", "a string, token ids, or an array of either");
    ask.prompts = TRY(parse_prompts(*prompt, "prompt"));
    std::string suffix;
    TRY(fields.read("suffix", suffix));
    if (!suffix.empty())
        return bad_request("suffix", "suffix is not supported: only what follows the prompt is written");
    int best_of = 1;
    TRY(fields.read("best_of", best_of));
    if (best_of > ask.n) return bad_request("best_of", "best_of is not supported: ask for n answers and choose");
    return ask;
}

Reply<Ask> parse_openai_embeddings(const Json& body) {
    Ask ask;
    ask.kind = AskKind::embedding;
    const Fields fields = TRY(Fields::of(body));
    TRY(fields.read("model", ask.model));
    TRY(fields.read("dimensions", ask.dimensions));
    TRY(fields.read("user", ask.user));
    std::string encoding = "float";
    TRY(fields.read("encoding_format", encoding));
    if (encoding != "float" && encoding != "base64") {
        return bad_request("encoding_format", "encoding_format is '{}': it must be float or base64", encoding);
    }
    ask.base64 = encoding == "base64";
    const Json* const input = fields.find("input");
    if (input == nullptr) return fields.wrong("input", "a string, token ids, or an array of either");
    ask.prompts = TRY(parse_prompts(*input, "input"));
    return ask;
}

}  // namespace tandem::server
