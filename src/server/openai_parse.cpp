#include <algorithm>
#include <limits>

#include "server/fields.h"
#include "server/format_fields.h"
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
             {"function", {{"name", name}, {"arguments", arguments == nullptr ? Json::object() : *arguments}}}});
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
    parsed["content"] = nullptr;
    if (content != nullptr) parsed["content"] = TRY(text_of_content(*content, fields.name("content")));
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

Reply<Ok> parse_messages(const Fields& body, const char* key, Ask& ask) {
    const Json* const messages = TRY(body.required_array(key, AskLimits().messages));
    if (messages->empty()) return bad_request("messages", "messages is empty: there is nothing to answer");
    for (size_t i = 0; i < messages->size(); ++i) {
        ask.messages.push_back(TRY(parse_message((*messages)[i], fmt::format("messages[{}]", i))));
    }
    return Ok{};
}

Reply<text::TokenId> parse_token(const Json& value, const std::string& name) {
    // Which of them a model has is seen when the model is there: check_token_ids().
    using Range = std::numeric_limits<text::TokenId>;
    if (!value.is_number_integer()) return bad_request(name, "{}: a token id must be a whole number", name);
    const bool is_huge = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(Range::max());
    if (is_huge || value.get<int64_t>() < Range::min()) {
        return bad_request(name, "{}: token id {} is in no model's vocabulary", name, value.dump());
    }
    return value.get<text::TokenId>();
}

Reply<Ok> parse_tools(const Fields& body, const char* key, Ask& ask) {
    const Json& tools = *TRY(body.required_array(key, AskLimits().tools));
    for (size_t i = 0; i < tools.size(); ++i) TRY(check_tool(tools[i], fmt::format("{}[{}]", key, i)));
    if (!tools.empty()) ask.tools = tools;
    return Ok{};
}

Reply<Ok> parse_tool_choice(const Fields& body, const char* key, Ask& ask) {
    const Json& choice = *body.find(key);
    if (choice == "auto") {
        ask.tool_choice = ToolChoice::automatic;
    } else if (choice == "none") {
        ask.tool_choice = ToolChoice::none;
    } else if (choice == "required") {
        ask.tool_choice = ToolChoice::required;
    } else if (choice.is_object()) {
        const Fields named = TRY(Fields::of(choice, key));
        const Json* const function = named.find("function");
        if (function == nullptr) return named.wrong("function", "an object with the name of a tool");
        const Fields inner = TRY(Fields::of(*function, named.name("function")));
        ask.tool_name = TRY(inner.required_text("name"));
        ask.tool_choice = ToolChoice::named;
    } else {
        return body.wrong(key, "auto, none, required or an object that names a function");
    }
    return Ok{};
}

Reply<Ok> parse_top_k(const Fields& body, const char* key, Ask& ask) {
    TRY(body.read(key, ask.sampling.top_k));
    ask.sampling.top_k = std::max(ask.sampling.top_k, 0);  // -1 is all for some clients
    return Ok{};
}

Reply<Ok> parse_logit_bias(const Fields& body, const char* key, Ask& ask) {
    return body.read_logit_bias(key, ask.sampling.logit_bias);
}

Reply<Ok> parse_stop_tokens(const Fields& body, const char* key, Ask& ask) {
    for (const Json& token : *TRY(body.required_array(key)))
        ask.stop_tokens.push_back(TRY(parse_token(token, body.name(key))));
    return Ok{};
}

Reply<Ok> parse_stream_options(const Fields& body, const char* key, Ask& ask) {
    static const FieldRules rules = {reads("include_usage", into<&Ask::include_usage>), ignores("include_obfuscation"),
                                     ignores("continuous_usage_stats")};
    return read_fields(TRY(Fields::of(*body.find(key), key)), rules, ask);
}

Reply<Ok> parse_max_tokens(const Fields& body, const char* key, Ask& ask) {
    TRY(body.read(key, ask.max_tokens));
    if (ask.max_tokens < 1) return bad_request(key, "{} is {}: it must be at least 1", key, ask.max_tokens);
    return Ok{};
}

// llama-server's: a negative number is no limit.
Reply<Ok> parse_n_predict(const Fields& body, const char* key, Ask& ask) {
    TRY(body.read(key, ask.max_tokens));
    if (ask.max_tokens == 0) return bad_request(key, "{} is 0: it must be at least 1, or -1", key);
    ask.max_tokens = std::max(ask.max_tokens, 0);
    return Ok{};
}

Reply<Ok> parse_template_values(const Fields& body, const char* key, Ask& ask) {
    const Json& values = *body.find(key);
    const Fields fields = TRY(Fields::of(values, key));
    TRY(fields.read("enable_thinking", ask.thinks));
    for (const char* const name : {"messages", "tools", "bos_token", "eos_token", "chat_template"}) {
        if (fields.find(name) != nullptr)
            return bad_request(fields.name(name), "{} is the server's: leave it out", fields.name(name));
    }
    ask.template_values = values;
    return Ok{};
}

Reply<Ok> parse_generation_prompt(const Fields& body, const char* key, Ask& ask) {
    bool is_added = true;
    TRY(body.read(key, is_added));
    if (is_added || ask.continues_last) return Ok{};
    return bad_request(key, "{}: an answer has a beginning: leave it out, or set continue_final_message", key);
}

Reply<Ok> parse_chat_logprobs(const Fields& body, const char* key, Ask& ask) {
    bool wanted = false;
    TRY(body.read(key, wanted));
    if (wanted) ask.logprobs = 0;
    return Ok{};
}

Reply<Ok> parse_top_logprobs(const Fields& body, const char* key, Ask& ask) {
    int top = 0;
    TRY(body.read(key, top));
    if (top != 0 && !ask.logprobs) return bad_request(key, "{} needs logprobs: true", key);
    if (ask.logprobs) ask.logprobs = top;
    return Ok{};
}

// With `echo`, 0 is for the prompt's log-probabilities.
Reply<Ok> parse_completion_tokens(const Fields& body, const char* key, Ask& ask) {
    ask.prompt_only = ask.echo && *body.find(key) == 0;
    if (!ask.prompt_only) return parse_max_tokens(body, key, ask);
    ask.max_tokens = 1;
    return Ok{};
}

Reply<Ok> parse_completion_prompt(const Fields& body, const char* key, Ask& ask) {
    const Json* const prompt = body.find(key);
    if (prompt == nullptr) return body.wrong(key, "a string, token ids, or an array of either");
    ask.prompts = TRY(parse_prompts(*prompt, key));
    return Ok{};
}

Reply<Ok> parse_best_of(const Fields& body, const char* key, Ask& ask) {
    int best_of = 1;
    TRY(body.read(key, best_of));
    if (best_of > ask.n) return bad_request(key, "{} is not supported: ask for n answers and choose", key);
    return Ok{};
}

Reply<Ok> parse_encoding(const Fields& body, const char* key, Ask& ask) {
    const std::string encoding = TRY(body.required_text(key));
    if (encoding != "float" && encoding != "base64")
        return bad_request(key, "{} is '{}': it must be float or base64", key, encoding);
    ask.base64 = encoding == "base64";
    return Ok{};
}

// What /v1/chat/completions and /v1/completions have in common.
FieldRules shared_fields() {
    using Sampling = device::SamplingParams;
    return {
        reads("model", into<&Ask::model>),
        reads("temperature", into_sampling<&Sampling::temperature>),
        reads("top_p", into_sampling<&Sampling::top_p>),
        reads("top_k", parse_top_k),
        reads("min_p", into_sampling<&Sampling::min_p>),
        reads("presence_penalty", into_sampling<&Sampling::presence_penalty>),
        reads("frequency_penalty", into_sampling<&Sampling::frequency_penalty>),
        reads("repeat_penalty", into_sampling<&Sampling::repetition_penalty>),
        reads("repetition_penalty", into_sampling<&Sampling::repetition_penalty>),
        reads("repeat_last_n", read_penalty_window),
        reads("logit_bias", parse_logit_bias),
        reads("seed", into<&Ask::seed>),
        reads("n", into<&Ask::n>),
        reads("stop", into<&Ask::stop>),
        reads("stop_token_ids", parse_stop_tokens),
        reads("min_tokens", into<&Ask::min_tokens>),
        reads("n_predict", parse_n_predict),
        reads("ignore_eos", into<&Ask::ignore_end>),
        reads("stream", into<&Ask::stream>),
        reads("stream_options", parse_stream_options),
        reads("user", into<&Ask::user>),
        reads("keep_alive", into<&Ask::keep_alive_s>),
        reads("cache_salt", into<&Ask::cache_salt>),
        reads("best_of", parse_best_of),
    };
}

// What OpenAI, llama-server and vLLM have beside, and is not here.
FieldRules other_fields() {
    constexpr std::string_view kSamplers = "use temperature, top_k, top_p or min_p";
    constexpr std::string_view kPenalties = "use repetition_penalty, presence_penalty or frequency_penalty";
    return {
        refuses("typical_p", kSamplers, "1"),
        refuses("tfs_z", kSamplers, "1"),
        refuses("top_a", kSamplers, "0"),
        refuses("top_n_sigma", kSamplers, "-1"),
        refuses("mirostat", kSamplers, "0"),
        refuses("xtc_probability", kSamplers, "0"),
        refuses("dynatemp_range", kSamplers, "0"),
        refuses("samplers", "their order is fixed: penalties, logit_bias, temperature, top_k, top_p, min_p"),
        refuses("min_keep", "leave it out", "0"),
        refuses("dry_multiplier", kPenalties, "0"),
        refuses("no_repeat_ngram_size", kPenalties, "0"),
        refuses("penalize_nl", "penalties count all tokens alike"),
        refuses("length_penalty", "answers are drawn, not searched for", "1"),
        refuses("use_beam_search", "answers are drawn, not searched for"),
        refuses("early_stopping", "answers are drawn, not searched for"),
        refuses("bad_words", "use logit_bias"),
        refuses("allowed_token_ids", "use guided_choice, guided_regex or grammar"),
        refuses("logits_processors", "use logit_bias"),
        refuses("include_stop_str_in_output", "the text that ends an answer is not part of it"),
        refuses("skip_special_tokens", "special tokens are no text", "true"),
        refuses("truncate_prompt_tokens", "a prompt that is too long is an error: shorten it"),
        refuses("prompt_logprobs", "use echo and logprobs of /v1/completions"),
        refuses("n_probs", "use logprobs", "0"),
        refuses("return_token_ids", "use /tokenize"),
        refuses("return_tokens_as_token_ids", "use /tokenize"),
        refuses("t_max_predict_ms", "use max_tokens", "0"),
        refuses("lora", "serve a model with its adapter merged"),
        ignores("mirostat_tau"),
        ignores("mirostat_eta"),
        ignores("xtc_threshold"),
        ignores("dynatemp_exponent"),
        ignores("dry_base"),
        ignores("dry_allowed_length"),
        ignores("dry_penalty_last_n"),
        ignores("dry_sequence_breakers"),
        ignores("cache_prompt"),
        ignores("id_slot"),
        ignores("n_keep"),
        ignores("timings_per_token"),
        ignores("return_progress"),
        ignores("spaces_between_special_tokens"),
        ignores("priority"),
        ignores("request_id"),
        ignores("store"),
        ignores("metadata"),
        ignores("service_tier"),
        ignores("safety_identifier"),
        ignores("prompt_cache_key"),
        ignores("prompt_cache_retention"),
        ignores("prediction"),
    };
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

const FieldRules& openai_chat_fields() {
    static const FieldRules rules =
        joined({shared_fields(),
                format_fields(),
                {
                    needs("messages", parse_messages),
                    reads("tools", parse_tools),
                    reads("tool_choice", parse_tool_choice),
                    reads("parallel_tool_calls", into<&Ask::parallel_tool_calls>),
                    reads("reasoning_effort", into<&Ask::reasoning_effort>),
                    reads("enable_thinking", into<&Ask::thinks>),
                    reads("chat_template_kwargs", parse_template_values),
                    reads("max_tokens", parse_max_tokens),
                    reads("max_completion_tokens", parse_max_tokens),
                    reads("continue_final_message", into<&Ask::continues_last>),
                    reads("add_generation_prompt", parse_generation_prompt),
                    reads("logprobs", parse_chat_logprobs),
                    reads("top_logprobs", parse_top_logprobs),
                    refuses("functions", "send them as tools"),
                    refuses("function_call", "use tools and tool_choice", R"("auto")"),
                    refuses("chat_template",
                            "the template is the model's own; "
                            "chat_template_kwargs sets its variables"),
                    refuses("documents", "put them into the messages"),
                    refuses("modalities", "answers are text", R"(["text"])"),
                    refuses("audio", "answers are text"),
                    refuses("web_search_options", "nothing is ever fetched: use tools"),
                    refuses("verbosity", "say it in the messages", R"("medium")"),
                    refuses("reasoning_format", "reasoning is always split from the content", R"("auto")"),
                    refuses("echo", "use /v1/completions"),
                    refuses("add_special_tokens", "the template has them"),
                    refuses("mm_processor_kwargs", "models read text"),
                },
                other_fields()});
    return rules;
}

const FieldRules& openai_completion_fields() {
    static const FieldRules rules = joined({shared_fields(),
                                            format_fields(),
                                            {
                                                needs("prompt", parse_completion_prompt),
                                                reads("echo", into<&Ask::echo>),
                                                reads("max_tokens", parse_completion_tokens),
                                                reads("logprobs", into<&Ask::logprobs>),
                                                refuses("suffix", "only what follows the prompt is written"),
                                                refuses("add_special_tokens", "send token ids as the prompt", "true"),
                                                refuses("prompt_embeds", "send text or token ids"),
                                            },
                                            other_fields()});
    return rules;
}

const FieldRules& openai_embedding_fields() {
    static const FieldRules rules = {
        reads("model", into<&Ask::model>),
        reads("dimensions", into<&Ask::dimensions>),
        reads("user", into<&Ask::user>),
        reads("encoding_format", parse_encoding),
        needs("input", parse_completion_prompt),
        refuses("truncate_prompt_tokens", "a text that is too long is an error: shorten it"),
        refuses("add_special_tokens", "send token ids as the input", "true"),
        refuses("normalize", "embeddings have the length 1", "true"),
        ignores("priority"),
        ignores("request_id"),
        ignores("metadata"),
    };
    return rules;
}

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
    TRY(read_fields(fields, openai_chat_fields(), ask));
    return ask;
}

Reply<Ask> parse_openai_completion(const Json& body) {
    Ask ask;
    ask.kind = AskKind::completion;
    ask.max_tokens = kCompletionTokens;
    const Fields fields = TRY(Fields::of(body));
    TRY(read_fields(fields, openai_completion_fields(), ask));
    return ask;
}

Reply<Ask> parse_openai_embeddings(const Json& body) {
    Ask ask;
    ask.kind = AskKind::embedding;
    const Fields fields = TRY(Fields::of(body));
    TRY(read_fields(fields, openai_embedding_fields(), ask));
    return ask;
}

}  // namespace tandem::server
