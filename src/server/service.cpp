#include "server/service.h"

#include <algorithm>
#include <chrono>

#include "server/sse.h"

namespace tandem::server {

namespace {

const char* field_of(AskKind kind) {
    return kind == AskKind::chat ? "messages" : kind == AskKind::embedding ? "input" : "prompt";
}

ApiError to_api_error(text::PromptError error, AskKind kind, int context) {
    const bool is_named = !error.field.empty();
    ApiError reply = {.message = std::move(error.message), .param = is_named ? std::move(error.field) : field_of(kind)};
    if (error.kind == text::PromptError::Kind::too_long) {
        reply.type = "exceed_context_size_error";
        reply.code = "context_length_exceeded";
        reply.extra = {{"n_prompt_tokens", error.tokens}, {"n_ctx", context}};
    }
    return reply;
}

Reply<text::Prompt> reply_of(text::Made<text::Prompt> made, AskKind kind, int context) {
    if (!made) return to_api_error(std::move(made).error(), kind, context);
    return std::move(*made);
}

bool offers_tools(const Ask& ask) {
    return !ask.tools.empty() && ask.tool_choice != ToolChoice::none;
}

bool must_call(const Ask& ask) {
    return offers_tools(ask) && (ask.tool_choice == ToolChoice::required || ask.tool_choice == ToolChoice::named);
}

// Tools whose calls are to be valid even where the model is free to make none.
bool offers_strict_tools(const Ask& ask) {
    return offers_tools(ask) && std::any_of(ask.tools.begin(), ask.tools.end(), [](const Json& tool) {
               return tool.at("function").value("strict", Json()) == true;
           });
}

Reply<text::Prompt> chat_prompt(const Ask& ask, const text::PromptMaker& prompts, const text::PromptLimits& limits) {
    const text::PromptInput input = {.messages = ask.messages,
                                     .tools = offers_tools(ask) ? ask.tools : Json(),
                                     .continues_last = ask.continues_last,
                                     .calls_tool = must_call(ask),
                                     .constrained = ask.format.kind != FormatKind::text,
                                     .thinking = ask.thinks,
                                     .reasoning_effort = ask.reasoning_effort,
                                     .values = ask.template_values};
    return reply_of(prompts.chat(input, limits), ask.kind, limits.context);
}

Reply<text::Prompt> plain_prompt(const Prompt& prompt, const Ask& ask, const text::PromptMaker& prompts,
                                 const text::PromptLimits& limits) {
    const auto* const text = std::get_if<std::string>(&prompt);
    if (text != nullptr) {
        return reply_of(ask.truncates ? prompts.cut_text(*text, limits) : prompts.text(*text, limits), ask.kind,
                        limits.context);
    }
    std::vector<text::TokenId> tokens = std::get<std::vector<text::TokenId>>(prompt);
    const auto most = static_cast<size_t>(limits.context);
    if (ask.truncates && tokens.size() > most) tokens.resize(most);
    return reply_of(text::PromptMaker::tokens(std::move(tokens), limits), ask.kind, limits.context);
}

// One of the tools, or the named one.
text::CallRules call_rules(const Ask& ask, const text::Prompt& prompt) {
    const bool is_named = ask.tool_choice == ToolChoice::named;
    text::CallRules rules = {.format = prompt.format,
                             .several = ask.parallel_tool_calls && !is_named,
                             .with_text = ask.tool_choice == ToolChoice::automatic,
                             .begins_in_reasoning = prompt.begins_in_reasoning};
    for (const Json& tool : ask.tools) {
        const Json& function = tool.at("function");
        if (is_named && function.at("name") != ask.tool_name) continue;
        rules.tools.push_back({{"name", function.at("name")}, {"parameters", function.value("parameters", Json())}});
    }
    return rules;
}

// What only the model can tell.
Reply<Ok> check_with(const LoadedModel& model, const Ask& ask) {
    const int vocab = model.bundle().model.vocab;
    for (const auto& bias : ask.sampling.logit_bias) {
        if (bias.first < 0 || bias.first >= vocab) {
            return bad_request("logit_bias", "logit_bias: the model has {} tokens, and none with id {}", vocab,
                               bias.first);
        }
    }
    for (const text::TokenId token : ask.stop_tokens) {
        if (token >= vocab) {
            return bad_request("stop_token_ids", "stop_token_ids: the model has {} tokens, and none with id {}", vocab,
                               token);
        }
    }
    if (ask.n > model.engine().most_choices()) {
        return bad_request("n", "n is {}: at most {} answers are written at once", ask.n,
                           model.engine().most_choices());
    }
    if (ask.dimensions > model.bundle().model.dim) {
        return bad_request("dimensions", "dimensions is {}: the model's embeddings have {}", ask.dimensions,
                           model.bundle().model.dim);
    }
    if (ask.echo && ask.logprobs && ask.n > 1) {
        return bad_request("n", "log-probabilities of an echoed prompt are given with n = 1 only, not {}", ask.n);
    }
    return Ok{};
}

uint64_t random_seed() {
    uint64_t seed = 0;
    for (const char letter : random_id(13)) seed = seed * 32 + static_cast<uint64_t>(letter % 32);
    return seed;
}

}  // namespace

Reply<std::vector<text::TokenId>> Service::tokens_of_chat(const Ask& ask, const LoadedModel& model) {
    const engine::Bundle& bundle = model.bundle();
    text::Prompt prompt = TRY(chat_prompt(ask, bundle.prompts, {.context = 0, .vocab = bundle.model.vocab}));
    return std::move(prompt.tokens);
}

Reply<AnswerExchange::Start> Service::prepare(const Ask& ask, const Client& client, ModelPool::Use model) const {
    AnswerExchange::Start start;
    engine::Request request;
    request.sampling = ask.sampling;
    request.sampling.seed = ask.seed ? *ask.seed : random_seed();
    request.max_tokens = ask.max_tokens;
    request.n = ask.n;
    request.stop = ask.stop;
    request.stop_tokens = ask.stop_tokens;
    request.min_tokens = ask.min_tokens;
    request.ignore_end = ask.ignore_end;
    request.logprobs = ask.logprobs;
    request.salt = ask.cache_salt.empty() ? client.salt : client.salt + '\n' + ask.cache_salt;
    request.owner = client.owner;
    if (options_.answer_seconds > 0) {
        request.deadline = std::chrono::steady_clock::now() +
                           std::chrono::milliseconds(static_cast<int64_t>(options_.answer_seconds * 1000));
    }
    TRY(check_with(*model, ask));
    const text::PromptMaker& maker = model->bundle().prompts;
    const text::PromptLimits limits = {.context = model->engine().context(), .vocab = model->bundle().model.vocab};
    std::vector<text::Prompt> prompts;
    if (ask.kind == AskKind::chat) {
        prompts.push_back(TRY(chat_prompt(ask, maker, limits)));
        start.reader = text::answer_reader_options(prompts.back(), offers_tools(ask) ? ask.tools : Json());
        request.shown = prompts.back().shown;
        const bool is_held = ask.format.kind == FormatKind::text && offers_strict_tools(ask);
        if (must_call(ask) || is_held) {
            request.grammar = TRY(model->grammars().find(call_rules(ask, prompts.back())));
        }
    } else {
        request.continues_text = true;
        request.echo = ask.echo;
        request.prompt_only = ask.prompt_only;
        if (ask.kind == AskKind::embedding) request.embed = engine::Pooling::mean;
        prompts.reserve(ask.prompts.size());
        for (const Prompt& prompt : ask.prompts) prompts.push_back(TRY(plain_prompt(prompt, ask, maker, limits)));
    }
    if (!request.grammar) request.grammar = TRY(model->grammars().find(ask.format));
    start.head = {.id = random_id(),
                  .created_s = std::chrono::duration_cast<std::chrono::seconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count(),
                  .model = model.name(),
                  .prompt_tokens = 0,
                  .load_seconds = model.load_seconds()};
    start.requests.reserve(prompts.size());
    for (text::Prompt& prompt : prompts) {
        start.head.prompt_tokens += static_cast<int>(prompt.tokens.size());
        start.requests.push_back(request);
        start.requests.back().prompt = std::move(prompt.tokens);
    }
    start.metrics = &metrics_.model(model.name());
    start.model = std::move(model);
    return start;
}

void Service::with_model(const std::string& name, std::optional<double> keep_alive_s,
                         std::function<void(Reply<ModelPool::Use>)> then) {
    pool_.acquire(name, keep_alive_s, [this, then = std::move(then)](Reply<ModelPool::Use> reply) {
        const auto shared = std::make_shared<Reply<ModelPool::Use>>(std::move(reply));  // functions must be copyable
        workers_.post([then, shared] { then(std::move(*shared)); });
    });
}

void Service::answer(Ask ask, Client client, const std::shared_ptr<AnswerExchange>& exchange) {
    const Reply<Ok> checked = check(ask, options_.limits);
    if (!checked) return exchange->fail(checked.error());
    const std::string name = ask.model;
    const std::optional<double> keep_alive_s = ask.keep_alive_s;
    const auto shared = std::make_shared<Ask>(std::move(ask));
    with_model(name, keep_alive_s, [this, shared, exchange, client = std::move(client)](Reply<ModelPool::Use> model) {
        if (!model) return exchange->fail(std::move(model).error());
        try {
            Reply<AnswerExchange::Start> start = prepare(*shared, client, std::move(*model));
            if (!start) return exchange->fail(std::move(start).error());
            exchange->start(std::move(*shared), std::move(*start));
        } catch (const std::exception& error) {  // no memory, most likely
            exchange->fail({.status = 500, .type = "server_error", .message = error.what(), .code = "internal_error"});
        }
    });
}

}  // namespace tandem::server
