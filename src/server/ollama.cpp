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

std::string ollama_error(const ApiError& error) {
    return dump({{"error", error.message}}) + "\n";
}

Reply<Ok> read_keep_alive(const Fields& body, const char* key, Ask& ask) {
    const Json* const value = body.find(key);
    if (value->is_number()) ask.keep_alive_s = value->get<double>();
    if (value->is_string()) ask.keep_alive_s = parse_duration(value->get_ref<const std::string&>());
    if (ask.keep_alive_s && std::isfinite(*ask.keep_alive_s)) return Ok{};
    return body.wrong(key, "seconds, or a duration such as \"5m\"");
}

Reply<Ok> read_ollama_format(const Fields& body, const char* key, Ask& ask) {
    const Json* const format = body.find(key);
    if (*format == "") return Ok{};  // as clients send what they do not use
    if (*format == "json") {
        ask.format.kind = FormatKind::json_object;
    } else if (format->is_object()) {
        ask.format = {.kind = FormatKind::json_schema, .source = dump(*format)};
    } else {
        return body.wrong(key, "\"json\" or a JSON Schema");
    }
    return Ok{};
}

Reply<Ok> read_think(const Fields& body, const char* key, Ask& ask) {
    const Json* const think = body.find(key);
    if (!think->is_string()) return body.read(key, ask.thinks);
    ask.reasoning_effort = think->get<std::string>();
    ask.thinks = true;
    for (const char* effort : {"low", "medium", "high"}) {
        if (ask.reasoning_effort == effort) return Ok{};
    }
    return body.wrong(key, "true, false, \"low\", \"medium\" or \"high\"");
}

Reply<Ok> read_num_predict(const Fields& options, const char* key, Ask& ask) {
    TRY(options.read(key, ask.max_tokens));
    ask.max_tokens = std::max(ask.max_tokens, 0);  // -1 and -2: until the context is full
    return Ok{};
}

Reply<Ok> read_ollama_logprobs(const Fields& body, const char* key, Ask& ask) {
    bool wanted = false;
    TRY(body.read(key, wanted));
    if (wanted) ask.logprobs = 0;
    return Ok{};
}

Reply<Ok> read_ollama_top_logprobs(const Fields& body, const char* key, Ask& ask) {
    int top = 0;
    TRY(body.read(key, top));
    if (top != 0) ask.logprobs = top;
    return Ok{};
}

Reply<Ok> refuse_images(const Fields& fields) {
    const Json* const images = fields.find("images");
    if (images == nullptr || images->empty()) return Ok{};
    return bad_request(fields.name("images"), "{}: the models of this server read text, not images",
                       fields.name("images"));
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

Reply<Ok> read_ollama_messages(const Fields& body, const char* key, Ask& ask) {
    const Json& messages = *TRY(body.required_array(key, AskLimits().messages));
    for (size_t i = 0; i < messages.size(); ++i)
        ask.messages.push_back(TRY(read_ollama_message(messages[i], fmt::format("{}[{}]", key, i))));
    return Ok{};
}

Reply<Ok> read_ollama_tools(const Fields& body, const char* key, Ask& ask) {
    const Json& tools = *TRY(body.required_array(key, AskLimits().tools));
    for (size_t i = 0; i < tools.size(); ++i) TRY(check_tool(tools[i], fmt::format("{}[{}]", key, i)));
    if (!tools.empty()) ask.tools = tools;
    return Ok{};
}

// With the messages before it: `system` is one.
Reply<Ok> read_ollama_prompt(const Fields& body, const char* key, Ask& ask) {
    std::string prompt;
    std::string system;
    bool raw = false;
    TRY(body.read(key, prompt));
    TRY(body.read("system", system));
    TRY(body.read("raw", raw));
    if (prompt.empty()) return Ok{};  // it only loads
    if (raw) {
        ask.kind = AskKind::completion;
        ask.prompts.emplace_back(std::move(prompt));
        return Ok{};
    }
    if (!system.empty()) ask.messages.push_back({{"role", "system"}, {"content", system}});
    ask.messages.push_back({{"role", "user"}, {"content", prompt}});
    return Ok{};
}

template <typename T>
Reply<Ok> is_of_type(const Fields& body, const char* key, Ask& /*ask*/) {
    T value = {};
    return body.read(key, value);
}

Reply<Ok> read_texts(const Fields& body, const char* key, Ask& ask) {
    std::vector<std::string> texts;
    TRY(body.read(key, texts));
    for (std::string& text : texts) ask.prompts.emplace_back(std::move(text));
    return Ok{};
}

Reply<Ok> read_one_text(const Fields& body, const char* key, Ask& ask) {
    ask.prompts.emplace_back(TRY(body.required_text(key)));
    return Ok{};
}

Reply<Ok> read_ollama_options(const Fields& body, const char* key, Ask& ask) {
    return read_fields(TRY(Fields::of(*body.find(key), key)), ollama_option_fields(), ask, OtherFields::ignored);
}

// "name" is what older clients write.
FieldRules model_fields() {
    return {reads("model", is_of_type<std::string>), reads("name", is_of_type<std::string>),
            reads("keep_alive", read_keep_alive)};
}

// What chat and generate have in common.
FieldRules ollama_shared_fields() {
    return joined({model_fields(),
                   {
                       reads("stream", into<&Ask::stream>),
                       reads("format", read_ollama_format),
                       reads("think", read_think),
                       reads("options", read_ollama_options),
                       reads("logprobs", read_ollama_logprobs),
                       reads("top_logprobs", read_ollama_top_logprobs),
                       ignores("truncate"),  // what does not fit is an error, never cut
                       ignores("shift"),
                   }});
}

const FieldRules& ollama_chat_fields() {
    static const FieldRules rules = joined({ollama_shared_fields(),
                                            {
                                                reads("messages", read_ollama_messages),
                                                reads("tools", read_ollama_tools),
                                            }});
    return rules;
}

const FieldRules& ollama_generate_fields() {
    constexpr std::string_view kUseChat = "leave it out, or use /api/chat";
    static const FieldRules rules = joined({ollama_shared_fields(),
                                            {
                                                reads("prompt", read_ollama_prompt),
                                                reads("system", is_of_type<std::string>),
                                                reads("raw", is_of_type<bool>),
                                                refuses("images", "the models of this server read text, not images"),
                                                refuses("suffix", kUseChat),
                                                refuses("template", kUseChat),
                                                refuses("context", kUseChat),
                                            }});
    return rules;
}

const FieldRules& ollama_embed_fields() {
    static const FieldRules rules = joined({model_fields(),
                                            {
                                                reads("input", read_texts),
                                                reads("truncate", into<&Ask::truncates>),
                                                reads("dimensions", into<&Ask::dimensions>),
                                                ignores("options"),
                                            }});
    return rules;
}

const FieldRules& ollama_embeddings_fields() {
    static const FieldRules rules = joined({model_fields(), {needs("prompt", read_one_text), ignores("options")}});
    return rules;
}

Reply<Ask> read_ollama(const Json& body, const FieldRules& rules, Ask ask) {
    ask.model = TRY(ollama_model_name(body));
    const Fields fields = TRY(Fields::of(body));
    TRY(read_fields(fields, rules, ask, OtherFields::ignored));
    return ask;
}

// As Ollama's documentation has them.
Ask ollama_defaults() {
    Ask ask;
    ask.stream = true;
    ask.sampling.temperature = 0.8F;
    ask.sampling.top_k = 40;
    ask.sampling.top_p = 0.9F;
    return ask;
}

Reply<Ask> parse_ollama_chat(const Json& body) {
    return read_ollama(body, ollama_chat_fields(), ollama_defaults());
}

Reply<Ask> parse_ollama_generate(const Json& body) {
    return read_ollama(body, ollama_generate_fields(), ollama_defaults());
}

Ask ollama_embedding() {
    Ask ask;
    ask.kind = AskKind::embedding;
    ask.truncates = true;
    return ask;
}

Reply<Ask> parse_ollama_embed(const Json& body) {
    return read_ollama(body, ollama_embed_fields(), ollama_embedding());
}

Reply<Ask> parse_ollama_embeddings(const Json& body) {
    return read_ollama(body, ollama_embeddings_fields(), ollama_embedding());
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

std::string write_loaded(const Ask& ask, const AnswerHead& head, bool generate) {
    Json line = ollama_line(head, generate, "");
    line["done"] = true;
    line["done_reason"] = ask.keep_alive_s == 0.0 ? "unload" : "load";
    return dump(line);
}

std::string write_chat_loaded(const Ask& ask, const AnswerHead& head) {
    return write_loaded(ask, head, false);
}

std::string write_generate_loaded(const Ask& ask, const AnswerHead& head) {
    return write_loaded(ask, head, true);
}

}  // namespace

// The context is the server's: num_ctx changes nothing, and a prompt that does not fit is an error, never cut.
const FieldRules& ollama_option_fields() {
    using Sampling = device::SamplingParams;
    constexpr std::string_view kSamplers = "use temperature, top_k, top_p or min_p";
    static const FieldRules rules = {
        reads("temperature", into_sampling<&Sampling::temperature>),
        reads("top_k", into_sampling<&Sampling::top_k>),
        reads("top_p", into_sampling<&Sampling::top_p>),
        reads("min_p", into_sampling<&Sampling::min_p>),
        reads("repeat_penalty", into_sampling<&Sampling::repetition_penalty>),
        reads("presence_penalty", into_sampling<&Sampling::presence_penalty>),
        reads("frequency_penalty", into_sampling<&Sampling::frequency_penalty>),
        reads("repeat_last_n", read_penalty_window),
        reads("seed", into<&Ask::seed>),
        reads("stop", into<&Ask::stop>),
        reads("num_predict", read_num_predict),
        reads("ignore_eos", into<&Ask::ignore_end>),
        refuses("mirostat", kSamplers, "0"),
        refuses("typical_p", kSamplers, "1"),
        refuses("tfs_z", kSamplers, "1"),
        ignores("penalize_newline"),  // penalties count all tokens alike, as Ollama's do by now
        ignores("mirostat_tau"),
        ignores("mirostat_eta"),
        ignores("num_ctx"),
        ignores("num_keep"),
        ignores("num_batch"),
        ignores("num_gpu"),
        ignores("main_gpu"),
        ignores("num_thread"),
        ignores("numa"),
        ignores("use_mmap"),
        ignores("use_mlock"),
        ignores("low_vram"),
        ignores("f16_kv"),
        ignores("logits_all"),
        ignores("vocab_only"),
        ignores("embedding_only"),
        ignores("draft_num_predict"),
    };
    return rules;
}

const Dialect kOllamaChat = {.fields = ollama_chat_fields,
                             .parse = parse_ollama_chat,
                             .writer = ollama_chat_writer,
                             .loaded = write_chat_loaded,
                             .error = ollama_error};
const Dialect kOllamaGenerate = {.fields = ollama_generate_fields,
                                 .parse = parse_ollama_generate,
                                 .writer = ollama_generate_writer,
                                 .loaded = write_generate_loaded,
                                 .error = ollama_error};
const Dialect kOllamaEmbed = {.fields = ollama_embed_fields,
                              .parse = parse_ollama_embed,
                              .embeddings = write_ollama_embeddings,
                              .error = ollama_error};
const Dialect kOllamaEmbeddings = {.fields = ollama_embeddings_fields,
                                   .parse = parse_ollama_embeddings,
                                   .embeddings = write_ollama_embedding,
                                   .error = ollama_error};

}  // namespace tandem::server
