#include "cli/chat.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/parse.h"

namespace tandem::cli {

namespace {

std::string piece_of(const text::Tokenizer& tokenizer, std::optional<text::TokenId> id) {
    return id ? std::string(tokenizer.piece(*id)) : std::string();
}

}  // namespace

Result<std::unique_ptr<Chat>> Chat::open(const ChatOptions& options) {
    // The device first: a wrong name should not cost the loading of a model.
    std::unique_ptr<device::Backend> backend = TRY(open_device(options.engine.device));
    engine::Bundle bundle =
        TRY(engine::open_bundle(options.model));  // not inside of new: TRY would leave with its memory
    std::unique_ptr<Chat> chat(new Chat(std::move(bundle)));
    chat->backend_ = std::move(backend);
    engine::EngineOptions engine = engine_options(options.engine);
    if (!options.engine.draft.empty()) {
        chat->draft_ = TRY(engine::open_bundle(options.engine.draft));
        engine.draft_model = &chat->draft_->model;
    }
    chat->engine_ = TRY(engine::Engine::open(chat->bundle_.model, chat->bundle_.tokenizer, *chat->backend_, engine));
    chat->raw_ = options.raw || !chat->bundle_.chat_template;
    return chat;
}

Result<std::vector<text::TokenId>> Chat::prompt(const Settings& settings, bool add_generation_prompt) const {
    const text::Tokenizer& tokenizer = bundle_.tokenizer;
    if (raw_) return tokenizer.encode(messages.empty() ? "" : messages.back().content);

    text::ChatInput input;
    input.add_generation_prompt = add_generation_prompt;
    input.bos_token = piece_of(tokenizer, tokenizer.bos());
    input.eos_token = piece_of(tokenizer, tokenizer.eos());
    if (!settings.system.empty()) input.messages.push_back({{"role", "system"}, {"content", settings.system}});
    for (const Message& message : messages) {
        input.messages.push_back({{"role", message.role}, {"content", message.content}});
    }
    const std::string text = TRY(bundle_.chat_template->render(input));
    // Most templates write the first token themselves.
    const bool has_bos = !input.bos_token.empty() && text.starts_with(input.bos_token);
    return tokenizer.encode(text, {.add_special = !has_bos});
}

// Drops the oldest messages until the prompt leaves room for an answer; returns how many went.
Result<int> Chat::make_room(const Settings& settings) {
    const int room = std::min(context() / 4, settings.max_tokens > 0 ? settings.max_tokens : 256);
    int forgotten = 0;
    for (;;) {
        const auto tokens = TRY(prompt(settings, true));
        if (static_cast<int>(tokens.size()) + room <= context() || messages.size() < 3) return forgotten;
        messages.erase(messages.begin(), messages.begin() + 2);  // a question and its answer
        forgotten += 2;
    }
}

Result<std::shared_ptr<const text::TokenMasks>> Chat::masks_of(const text::CompiledGrammarPtr& grammar) {
    if (grammar_ != grammar) {
        masks_ = TRY(engine_->masks_for(grammar));
        grammar_ = grammar;
    }
    return masks_;
}

Result<Answer> Chat::ask(std::string_view text, const Settings& settings,
                         const std::function<void(std::string_view)>& on_text) {
    const std::vector<Message> before = messages;
    messages.push_back({"user", std::string(text)});
    auto attempt = [&]() -> Result<Answer> {
        Answer answer;
        if (!raw_) answer.forgotten = TRY(make_room(settings));
        engine::Request request;
        request.prompt = TRY(prompt(settings, true));
        request.sampling = next_sampling(settings);
        request.max_tokens = settings.max_tokens;
        request.stop = settings.stop;
        if (settings.grammar) request.grammar = TRY(masks_of(settings.grammar));
        request.continues_text = raw_;
        if (request.prompt.empty()) return fail("the prompt is empty: the model has nothing to go on");
        for (const auto& bias : request.sampling.logit_bias) TRY(check_vocabulary({bias.first}, model().vocab));
        answer.seed = request.sampling.seed;
        answer.generation =
            TRY(engine::generate(*engine_, std::move(request), {.on_text = on_text, .cancelled = &interrupt_flag()}));
        return answer;
    };
    Result<Answer> answer = attempt();
    if (answer) {
        messages.push_back({"assistant", answer->generation.text});
    } else {
        messages = before;
    }
    return answer;
}

Result<int> Chat::used_tokens(const Settings& settings) const {
    if (messages.empty()) return 0;
    return static_cast<int>(TRY(prompt(settings, false)).size());
}

}  // namespace tandem::cli
