#include "server/service.h"

#include <chrono>

#include "server/chat_prompt.h"
#include "server/sse.h"

namespace tandem::server {

namespace {

// Prompts are told by both kinds of client from these words.
ApiError context_exceeded(size_t tokens, int context, AskKind kind) {
    const char* const field = kind == AskKind::chat ? "messages" : kind == AskKind::embedding ? "input" : "prompt";
    return {.type = "exceed_context_size_error",
            .message = fmt::format("the prompt of {} tokens exceeds the available context size of {} tokens. This "
                                   "model's maximum context length is {} tokens: shorten the prompt, or start the "
                                   "server with a larger --context",
                                   tokens, context, context),
            .code = "context_length_exceeded",
            .param = field,
            .extra = {{"n_prompt_tokens", static_cast<int64_t>(tokens)}, {"n_ctx", context}}};
}

std::vector<text::TokenId> tokens_of_prompt(const Prompt& prompt, const text::Tokenizer& tokenizer) {
    if (const auto* const text = std::get_if<std::string>(&prompt)) return tokenizer.encode(*text);
    return std::get<std::vector<text::TokenId>>(prompt);
}

Reply<Ok> check_tokens(const std::vector<text::TokenId>& tokens, const Ask& ask, const LoadedModel& model) {
    if (tokens.empty()) return bad_request("prompt", "the prompt is empty: the model has nothing to go on");
    if (std::ssize(tokens) > model.engine().context()) {
        return context_exceeded(tokens.size(), model.engine().context(), ask.kind);
    }
    const int vocab = model.bundle().model.vocab;
    for (const text::TokenId token : tokens) {
        if (token < 0 || token >= vocab) {
            return bad_request("prompt", "token id {} is not in the model's vocabulary of {}", token, vocab);
        }
    }
    for (const auto& bias : ask.sampling.logit_bias) {
        if (bias.first < 0 || bias.first >= vocab) {
            return bad_request("logit_bias", "logit_bias: the model has {} tokens, and none with id {}", vocab,
                               bias.first);
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

Reply<std::vector<text::TokenId>> Service::tokens_of(const Ask& ask, const LoadedModel& model) {
    if (ask.kind == AskKind::chat) {
        ChatPrompt prompt = TRY(render_chat(ask, model.bundle()));
        return std::move(prompt.tokens);
    }
    std::vector<text::TokenId> all;
    for (const Prompt& prompt : ask.prompts) {
        const std::vector<text::TokenId> tokens = tokens_of_prompt(prompt, model.bundle().tokenizer);
        all.insert(all.end(), tokens.begin(), tokens.end());
    }
    return all;
}

Reply<AnswerExchange::Start> Service::prepare(const Ask& ask, const std::string& salt, ModelPool::Use model) const {
    AnswerExchange::Start start;
    engine::Request request;
    request.sampling = ask.sampling;
    request.sampling.seed = ask.seed ? *ask.seed : random_seed();
    request.max_tokens = ask.max_tokens;
    request.n = ask.n;
    request.stop = ask.stop;
    request.ignore_end = ask.ignore_end;
    request.logprobs = ask.logprobs;
    request.salt = salt;
    if (options_.answer_seconds > 0) {
        request.deadline = std::chrono::steady_clock::now() +
                           std::chrono::milliseconds(static_cast<int64_t>(options_.answer_seconds * 1000));
    }
    std::vector<std::vector<text::TokenId>> prompts;
    ResponseFormat format = ask.format;
    if (ask.kind == AskKind::chat) {
        ChatPrompt prompt = TRY(render_chat(ask, model->bundle()));
        prompts.push_back(std::move(prompt.tokens));
        start.reader = std::move(prompt.reader);
        request.shown = std::move(prompt.marks);
        format = std::move(prompt.format);
    } else {
        request.continues_text = true;
        request.echo = ask.echo;
        request.prompt_only = ask.prompt_only;
        if (ask.kind == AskKind::embedding) request.embed = engine::Pooling::mean;
        prompts.reserve(ask.prompts.size());
        for (const Prompt& prompt : ask.prompts) {
            std::vector<text::TokenId> tokens = tokens_of_prompt(prompt, model->bundle().tokenizer);
            const auto most = static_cast<size_t>(model->engine().context());
            if (ask.truncates && tokens.size() > most) tokens.resize(most);
            prompts.push_back(std::move(tokens));
        }
    }
    request.grammar = TRY(model->grammars().find(format));
    start.head = {.id = random_id(),
                  .created_s = std::chrono::duration_cast<std::chrono::seconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count(),
                  .model = model.name(),
                  .prompt_tokens = 0,
                  .load_seconds = model.load_seconds()};
    start.requests.reserve(prompts.size());
    for (std::vector<text::TokenId>& tokens : prompts) {
        TRY(check_tokens(tokens, ask, *model));
        start.head.prompt_tokens += static_cast<int>(tokens.size());
        start.requests.push_back(request);
        start.requests.back().prompt = std::move(tokens);
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

void Service::answer(Ask ask, std::string salt, const std::shared_ptr<AnswerExchange>& exchange) {
    const Reply<Ok> checked = check(ask, options_.limits);
    if (!checked) return exchange->fail(checked.error());
    const std::string name = ask.model;
    const std::optional<double> keep_alive_s = ask.keep_alive_s;
    const auto shared = std::make_shared<Ask>(std::move(ask));
    with_model(name, keep_alive_s, [this, shared, exchange, salt = std::move(salt)](Reply<ModelPool::Use> model) {
        if (!model) return exchange->fail(std::move(model).error());
        try {
            Reply<AnswerExchange::Start> start = prepare(*shared, salt, std::move(*model));
            if (!start) return exchange->fail(std::move(start).error());
            exchange->start(std::move(*shared), std::move(*start));
        } catch (const std::exception& error) {  // no memory, most likely
            exchange->fail({.status = 500, .type = "server_error", .message = error.what(), .code = "internal_error"});
        }
    });
}

}  // namespace tandem::server
