#include "server/ollama.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "server/fields.h"
#include "server/sse.h"
#include "server/time_text.h"

namespace tandem::server {

namespace {

int64_t nanoseconds(double seconds) {
    return static_cast<int64_t>(std::clamp(seconds, 0.0, 1e9) * 1e9);
}

// Clients send fields that they do not use as "" or [].
bool is_blank(const Json& value) {
    return value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty();
}

std::string ollama_error(const ApiError& error) {
    return dump({{"error", error.message}}) + "\n";
}

Reply<Ok> read_keep_alive(const Fields& body, Ask& ask) {
    const Json* const value = body.find("keep_alive");
    if (value == nullptr) return Ok{};
    if (value->is_number()) ask.keep_alive_s = value->get<double>();
    if (value->is_string()) ask.keep_alive_s = parse_duration(value->get_ref<const std::string&>());
    if (ask.keep_alive_s && std::isfinite(*ask.keep_alive_s)) return Ok{};
    return body.wrong("keep_alive", "seconds, or a duration such as \"5m\"");
}

Reply<Ok> read_ollama_format(const Fields& body, Ask& ask) {
    const Json* const format = body.find("format");
    if (format == nullptr || (format->is_string() && is_blank(*format))) return Ok{};
    if (*format == "json") {
        ask.format.kind = FormatKind::json_object;
    } else if (format->is_object()) {
        ask.format = {.kind = FormatKind::json_schema, .source = dump(*format)};
    } else {
        return body.wrong("format", "\"json\" or a JSON Schema");
    }
    return Ok{};
}

Reply<Ok> read_think(const Fields& body, Ask& ask) {
    const Json* const think = body.find("think");
    if (think == nullptr) return Ok{};
    if (!think->is_string()) return body.read("think", ask.thinks);
    ask.reasoning_effort = think->get<std::string>();
    ask.thinks = true;
    for (const char* effort : {"low", "medium", "high"}) {
        if (ask.reasoning_effort == effort) return Ok{};
    }
    return body.wrong("think", "true, false, \"low\", \"medium\" or \"high\"");
}

// num_ctx is not among them: the context is the server's, and a prompt that does not fit is an error, never cut.
Reply<Ok> read_ollama_options(const Fields& body, Ask& ask) {
    ask.sampling.temperature = 0.8F;  // as Ollama's documentation has them
    ask.sampling.top_k = 40;
    ask.sampling.top_p = 0.9F;
    const Json* const object = body.find("options");
    if (object == nullptr) return Ok{};
    const Fields options = TRY(Fields::of(*object, "options"));
    TRY(options.read("temperature", ask.sampling.temperature));
    TRY(options.read("top_k", ask.sampling.top_k));
    TRY(options.read("top_p", ask.sampling.top_p));
    TRY(options.read("min_p", ask.sampling.min_p));
    TRY(options.read("repeat_penalty", ask.sampling.repetition_penalty));
    TRY(options.read("presence_penalty", ask.sampling.presence_penalty));
    TRY(options.read("frequency_penalty", ask.sampling.frequency_penalty));
    TRY(options.read("seed", ask.seed));
    TRY(options.read("stop", ask.stop));
    TRY(options.read("num_predict", ask.max_tokens));
    ask.max_tokens = std::max(ask.max_tokens, 0);  // -1 and -2: until the context is full
    int mirostat = 0;
    TRY(options.read("mirostat", mirostat));
    if (mirostat != 0) return bad_request("options.mirostat", "options.mirostat is not supported: leave it out");
    return Ok{};
}

Reply<Ok> read_ollama_logprobs(const Fields& body, Ask& ask) {
    bool wanted = false;
    int top = 0;
    TRY(body.read("logprobs", wanted));
    TRY(body.read("top_logprobs", top));
    if (wanted || top != 0) ask.logprobs = top;
    return Ok{};
}

Reply<Ok> refuse_images(const Fields& fields) {
    const Json* const images = fields.find("images");
    if (images == nullptr || images->empty()) return Ok{};
    return bad_request(fields.name("images"), "{}: the models of this server read text, not images",
                       fields.name("images"));
}

// What chat and generate have in common.
Reply<Ask> read_ollama_common(const Json& json) {
    const Fields body = TRY(Fields::of(json));
    Ask ask;
    ask.stream = true;
    ask.model = TRY(ollama_model_name(json));
    TRY(body.read("stream", ask.stream));
    TRY(read_keep_alive(body, ask));
    TRY(read_ollama_format(body, ask));
    TRY(read_think(body, ask));
    TRY(read_ollama_options(body, ask));
    TRY(read_ollama_logprobs(body, ask));
    return ask;
}

Reply<Json> read_calls_of_message(const Json& calls, const std::string& path) {
    if (!calls.is_array()) return bad_request(path, "{} must be an array", path);
    Json list = Json::array();
    for (size_t i = 0; i < calls.size(); ++i) {
        const Fields call = TRY(Fields::of(calls[i], fmt::format("{}[{}]", path, i)));
        const Json* const inner = call.find("function");
        if (inner == nullptr) return call.wrong("function", "an object");
        const Fields function = TRY(Fields::of(*inner, call.name("function")));
        std::string id = fmt::format("call_{}", i);
        TRY(call.read("id", id));
        const std::string name = TRY(function.required_text("name"));
        const Json* const arguments = function.find("arguments");
        list.push_back(
            {{"id", id},
             {"type", "function"},
             {"function", {{"name", name}, {"arguments", arguments_of(arguments == nullptr ? Json() : *arguments)}}}});
    }
    return list;
}

Reply<Json> read_ollama_message(const Json& json, const std::string& path) {
    const Fields fields = TRY(Fields::of(json, path));
    const std::string role = TRY(fields.required_text("role"));
    if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
        return bad_request(fields.name("role"), "{}: '{}' is none of system, user, assistant and tool",
                           fields.name("role"), role);
    }
    TRY(refuse_images(fields));
    std::string content;
    std::string thinking;
    std::string tool;
    std::string call_id;
    TRY(fields.read("content", content));
    TRY(fields.read("thinking", thinking));
    TRY(fields.read("tool_name", tool));
    TRY(fields.read("tool_call_id", call_id));
    Json message = {{"role", role}, {"content", content}};
    if (!thinking.empty()) message["reasoning_content"] = thinking;
    if (!tool.empty()) message["name"] = tool;
    if (!call_id.empty()) message["tool_call_id"] = call_id;
    if (const Json* const calls = fields.find("tool_calls"); calls != nullptr && !calls->empty())
        message["tool_calls"] = TRY(read_calls_of_message(*calls, fields.name("tool_calls")));
    return message;
}

Reply<Ask> parse_ollama_chat(const Json& body) {
    const Fields fields = TRY(Fields::of(body));
    Ask ask = TRY(read_ollama_common(body));
    if (const Json* const messages = fields.find("messages"); messages != nullptr) {
        if (!messages->is_array()) return fields.wrong("messages", "an array");
        for (size_t i = 0; i < messages->size(); ++i)
            ask.messages.push_back(TRY(read_ollama_message((*messages)[i], fmt::format("messages[{}]", i))));
    }
    if (const Json* const tools = fields.find("tools"); tools != nullptr && !tools->empty()) {
        if (!tools->is_array()) return fields.wrong("tools", "an array");
        for (size_t i = 0; i < tools->size(); ++i) TRY(check_tool((*tools)[i], fmt::format("tools[{}]", i)));
        ask.tools = *tools;
    }
    return ask;
}

Reply<Ask> parse_ollama_generate(const Json& body) {
    const Fields fields = TRY(Fields::of(body));
    Ask ask = TRY(read_ollama_common(body));
    TRY(refuse_images(fields));
    for (const char* key : {"suffix", "template", "context"}) {
        const Json* const value = fields.find(key);
        if (value != nullptr && !is_blank(*value))
            return bad_request(key, "{} is not supported: leave it out, or use /api/chat", key);
    }
    std::string prompt;
    std::string system;
    bool raw = false;
    TRY(fields.read("prompt", prompt));
    TRY(fields.read("system", system));
    TRY(fields.read("raw", raw));
    if (prompt.empty()) return ask;  // only_loads()
    if (raw) {
        ask.kind = AskKind::completion;
        ask.prompts.emplace_back(std::move(prompt));
        return ask;
    }
    if (!system.empty()) ask.messages.push_back({{"role", "system"}, {"content", system}});
    ask.messages.push_back({{"role", "user"}, {"content", prompt}});
    return ask;
}

// What both ways to ask for embeddings have.
Reply<Ask> begin_ollama_embedding(const Json& body, const Fields& fields) {
    Ask ask;
    ask.kind = AskKind::embedding;
    ask.truncates = true;
    ask.model = TRY(ollama_model_name(body));
    TRY(read_keep_alive(fields, ask));
    return ask;
}

Reply<Ask> parse_ollama_embed(const Json& body) {
    const Fields fields = TRY(Fields::of(body));
    Ask ask = TRY(begin_ollama_embedding(body, fields));
    std::vector<std::string> texts;
    TRY(fields.read("input", texts));
    TRY(fields.read("truncate", ask.truncates));
    TRY(fields.read("dimensions", ask.dimensions));
    for (std::string& text : texts) ask.prompts.emplace_back(std::move(text));
    return ask;
}

Reply<Ask> parse_ollama_embeddings(const Json& body) {
    const Fields fields = TRY(Fields::of(body));
    Ask ask = TRY(begin_ollama_embedding(body, fields));
    ask.prompts.emplace_back(TRY(fields.required_text("prompt")));
    return ask;
}

std::string write_ollama_embedding(const Ask& /*ask*/, const AnswerHead& /*head*/, const Embeddings& embeddings) {
    return dump({{"embedding", embeddings.vectors.front()}}) + "\n";
}

std::string write_ollama_embeddings(const Ask& /*ask*/, const AnswerHead& head, const Embeddings& embeddings) {
    return dump({{"model", head.model},
                 {"embeddings", embeddings.vectors},
                 {"total_duration", nanoseconds(embeddings.total_seconds)},
                 {"load_duration", nanoseconds(head.load_seconds)},
                 {"prompt_eval_count", embeddings.prompt_tokens}}) +
           "\n";
}

Json ollama_calls(const std::vector<ToolCallPiece>& calls) {
    Json list = Json::array();
    for (const ToolCallPiece& call : calls) {
        list.push_back(
            {{"id", call.id},
             {"function", {{"index", call.index}, {"name", call.name}, {"arguments", arguments_of(call.arguments)}}}});
    }
    return list;
}

Json ollama_token(const TokenText& token) {
    Json bytes = Json::array();
    for (const char c : token.bytes) bytes.push_back(static_cast<unsigned char>(c));
    return {{"token", token.text}, {"logprob", token.logprob}, {"bytes", std::move(bytes)}};
}

Json ollama_logprobs(const std::vector<TokenDetail>& details) {
    Json list = Json::array();
    for (const TokenDetail& detail : details) {
        Json entry = ollama_token(detail.chosen);
        Json top = Json::array();
        for (const TokenText& token : detail.top) top.push_back(ollama_token(token));
        if (!top.empty()) entry["top_logprobs"] = std::move(top);
        list.push_back(std::move(entry));
    }
    return list;
}

// A line of an answer, before "done".
Json ollama_line(const AnswerHead& head, bool generate, const std::string& content, const std::string& thinking = {},
                 Json calls = {}) {
    const auto created = std::chrono::system_clock::time_point(std::chrono::seconds(head.created_s));
    Json line = {{"model", head.model}, {"created_at", iso_time(created)}};
    if (generate) {
        line["response"] = content;
        if (!thinking.empty()) line["thinking"] = thinking;
        return line;
    }
    Json message = {{"role", "assistant"}, {"content", content}};
    if (!thinking.empty()) message["thinking"] = thinking;
    if (!calls.empty()) message["tool_calls"] = std::move(calls);
    line["message"] = std::move(message);
    return line;
}

class OllamaWriter final : public Writer {
  public:
    OllamaWriter(AnswerHead head, bool generate) : head_(std::move(head)), generate_(generate) {}

    std::string_view stream_type() const override { return "application/x-ndjson"; }
    std::string heartbeat() const override { return {}; }  // a line that is no answer would break clients

    std::string write(const Delta& delta) override {
        Delta calls;  // their arguments are objects here: they wait until they are complete
        calls.tool_calls = delta.tool_calls;
        calls_.add(calls);
        std::string lines;
        if (!delta.content.empty() || !delta.reasoning.empty() || !delta.logprobs.empty()) {
            Json line = ollama_line(head_, generate_, delta.content, delta.reasoning);
            line["done"] = false;
            if (!delta.logprobs.empty()) line["logprobs"] = ollama_logprobs(delta.logprobs);
            lines += dump(line) + "\n";
        }
        if (delta.end) {
            const auto& calls_made = calls_.choices().front().tool_calls;
            if (!calls_made.empty()) {
                Json line = ollama_line(head_, generate_, "", "", ollama_calls(calls_made));
                line["done"] = false;
                lines += dump(line) + "\n";
            }
            lines += dump(finished(ollama_line(head_, generate_, ""), *delta.end)) + "\n";
        }
        return lines;
    }

    std::string end() override { return {}; }
    std::string fail(const ApiError& error) override { return ollama_error(error); }

    std::string whole(const std::vector<WholeChoice>& choices) override {
        const WholeChoice& choice = choices.front();
        Json line = ollama_line(head_, generate_, choice.content, choice.reasoning, ollama_calls(choice.tool_calls));
        line = finished(std::move(line), choice.end);
        if (!choice.logprobs.empty()) line["logprobs"] = ollama_logprobs(choice.logprobs);
        return dump(line) + "\n";
    }

  private:
    Json finished(Json line, const Ending& end) const {
        const engine::Timings& timing = end.timing;
        line["done"] = true;
        line["done_reason"] = end.reason == EndReason::length ? "length" : "stop";
        line["total_duration"] = nanoseconds(head_.load_seconds + timing.queue + timing.prefill + timing.decode);
        line["load_duration"] = nanoseconds(head_.load_seconds);
        line["prompt_eval_count"] = end.usage.prompt_tokens;
        line["prompt_eval_duration"] = nanoseconds(timing.prefill);
        line["eval_count"] = end.usage.generated_tokens;
        line["eval_duration"] = nanoseconds(timing.decode);
        return line;
    }

    AnswerHead head_;
    bool generate_;
    WholeAnswer calls_{1};
};

std::unique_ptr<Writer> ollama_chat_writer(const Ask& /*ask*/, AnswerHead head) {
    return std::make_unique<OllamaWriter>(std::move(head), false);
}

std::unique_ptr<Writer> ollama_generate_writer(const Ask& /*ask*/, AnswerHead head) {
    return std::make_unique<OllamaWriter>(std::move(head), true);
}

}  // namespace

const Dialect kOllamaChat = {.parse = parse_ollama_chat, .writer = ollama_chat_writer, .error = ollama_error};
const Dialect kOllamaGenerate = {
    .parse = parse_ollama_generate, .writer = ollama_generate_writer, .error = ollama_error};
const Dialect kOllamaEmbed = {
    .parse = parse_ollama_embed, .embeddings = write_ollama_embeddings, .error = ollama_error};
const Dialect kOllamaEmbeddings = {
    .parse = parse_ollama_embeddings, .embeddings = write_ollama_embedding, .error = ollama_error};

bool only_loads(const Ask& ask) {
    return ask.kind == AskKind::chat && ask.messages.empty();
}

Json ollama_loaded(const Ask& ask, const AnswerHead& head, bool generate) {
    Json line = ollama_line(head, generate, "");
    line["done"] = true;
    line["done_reason"] = ask.keep_alive_s == 0.0 ? "unload" : "load";
    return line;
}

}  // namespace tandem::server
