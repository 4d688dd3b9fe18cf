#include "cli/chat.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/interrupt.h"
#include "cli/text_output.h"
#include "text/harmony_reader.h"
#include "user/models.h"
#include "user/parse.h"

namespace tandem::cli {

namespace {

Result<text::Prompt> result_of(text::Made<text::Prompt> made) {
    if (!made) return Error{std::move(made).error().message};
    return std::move(*made);
}

// An answer in messages with channels, shown as text: the reasoning, an empty line, the rest.
class ChannelText {
  public:
    explicit ChannelText(const std::function<void(std::string_view)>& on_text) : on_text_(on_text) {}

    void push(std::string_view text) { show(reader_.push(text)); }
    // Returns what is left of the answer in a conversation: its content.
    std::string finish() {
        show(reader_.finish(false));
        return std::move(content_);
    }

  private:
    void show(const std::vector<text::AnswerPart>& parts) {
        for (const text::AnswerPart& part : parts) {
            const bool is_content = part.kind == text::AnswerPart::Kind::content;
            if (is_content && content_.empty() && reasoned_ && on_text_) on_text_("\n\n");
            if (is_content) content_ += part.text;
            reasoned_ |= !is_content;
            if (on_text_) on_text_(part.text);
        }
    }

    const std::function<void(std::string_view)>& on_text_;
    text::HarmonyReader reader_{false};
    std::string content_;
    bool reasoned_ = false;
};

}  // namespace

Result<std::unique_ptr<Chat>> Chat::open(const ChatOptions& options) {
    auto devices = std::make_unique<user::Devices>(options.engine.device, note);
    TRY(devices->check());  // a wrong name should not cost the loading of a model
    engine::Bundle bundle =
        TRY(user::open_bundle(options.model));  // not inside of new: TRY would leave with its memory
    std::unique_ptr<Chat> chat(new Chat(std::move(bundle), options));
    chat->devices_ = std::move(devices);
    if (options.job != nullptr && !options.engine.draft.empty())
        return fail("--draft does not go with ranks: use --lookup, or a model on one machine");
    if (!options.engine.draft.empty()) chat->draft_ = TRY(user::open_bundle(options.engine.draft));
    TRY(chat->open_engine());
    return chat;
}

// For the model in bundle_. The one before must be gone: both together may not fit.
Status Chat::open_engine() {
    engine::EngineOptions engine = engine_options(options_.engine);
    if (draft_) engine.draft_model = &draft_->model;
    const uint64_t bytes = bundle_.model.weights.size_bytes();
    backend_ = TRY(open_device(*devices_, options_.job, bytes));
    Progress progress("loading", Progress::Unit::bytes);
    engine.progress = [&](double done) -> Status {
        progress.show(done * static_cast<double>(bytes), static_cast<double>(bytes));
        return Ok{};
    };
    engine_ = TRY(engine::Engine::open(bundle_.model, bundle_.tokenizer, *backend_, engine));
    raw_ = options_.raw || !bundle_.prompts.chat_template();
    return Ok{};
}

Status Chat::load(const std::string& model) {
    if (options_.job != nullptr) return fail("another model cannot be loaded: the ranks of a job have one model");
    engine::Bundle other = TRY(user::open_bundle(model));
    masks_.reset();
    grammar_.reset();
    engine_.reset();
    std::swap(bundle_, other);
    const Status opened = open_engine();
    if (opened) {
        source_ = model;
        return Ok{};
    }
    std::swap(bundle_, other);
    if (const Status again = open_engine(); !again) {
        return fail("{}; and the model from before does not load any more: {}", opened.error().message,
                    again.error().message);
    }
    return opened;
}

bool Chat::can_switch_thinking() const {
    if (raw_) return false;
    const text::FittedTemplate& chat_template = *bundle_.prompts.chat_template();
    // what templates have come to call it; a block of reasoning can be closed without it
    return chat_template.answer_format().reasons() ||
           chat_template.source().find("enable_thinking") != std::string::npos;
}

text::PromptInput Chat::conversation(const user::Settings& settings) const {
    text::PromptInput input;
    input.constrained = settings.grammar != nullptr;
    input.thinking = settings.thinking;
    if (!settings.system.empty()) input.messages.push_back({{"role", "system"}, {"content", settings.system}});
    for (const Message& message : messages) {
        input.messages.push_back({{"role", message.role}, {"content", message.content}});
    }
    return input;
}

text::Made<text::Prompt> Chat::prompt(const user::Settings& settings) const {
    const text::PromptLimits limits = {.context = context(), .vocab = model().vocab};
    if (raw_) return bundle_.prompts.text(messages.empty() ? "" : messages.back().content, limits);
    return bundle_.prompts.chat(conversation(settings), limits);
}

// Drops the oldest messages until the prompt leaves room for an answer; returns how many went.
Result<int> Chat::make_room(const user::Settings& settings) {
    const int room = std::min(context() / 4, settings.max_tokens > 0 ? settings.max_tokens : 256);
    int forgotten = 0;
    for (;;) {
        text::Made<text::Prompt> made = prompt(settings);
        const bool too_long = !made && made.error().kind == text::PromptError::Kind::too_long;
        if (!made && !too_long) return Error{std::move(made).error().message};
        const bool fits = made && std::ssize(made->tokens) + room <= context();
        if (fits || messages.size() < 3) return forgotten;
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

Result<Answer> Chat::ask(std::string_view text, const user::Settings& settings,
                         const std::function<void(std::string_view)>& on_text) {
    const std::vector<Message> before = messages;
    messages.push_back({"user", std::string(text)});
    auto attempt = [&]() -> Result<Answer> {
        Answer answer;
        if (!raw_) answer.forgotten = TRY(make_room(settings));
        engine::Request request;
        text::Prompt made = TRY(result_of(prompt(settings)));
        request.prompt = std::move(made.tokens);
        request.sampling = user::next_sampling(settings);
        request.max_tokens = settings.max_tokens;
        request.stop = settings.stop;
        if (settings.grammar) request.grammar = TRY(masks_of(settings.grammar));
        request.continues_text = raw_;
        for (const auto& bias : request.sampling.logit_bias) TRY(user::check_vocabulary({bias.first}, model().vocab));
        answer.seed = request.sampling.seed;
        if (made.format.calls != text::CallStyle::harmony) {
            answer.generation = TRY(
                engine::generate(*engine_, std::move(request), {.on_text = on_text, .cancelled = &interrupt_flag()}));
            return answer;
        }
        request.shown = std::move(made.shown);
        ChannelText channels(on_text);
        answer.generation =
            TRY(engine::generate(*engine_, std::move(request),
                                 {.on_text = [&channels](std::string_view piece) { channels.push(piece); },
                                  .cancelled = &interrupt_flag()}));
        answer.generation.text = channels.finish();
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

Result<Answer> Chat::retry(const user::Settings& settings, const std::function<void(std::string_view)>& on_text) {
    const std::vector<Message> before = messages;
    if (!messages.empty() && messages.back().role == "assistant") messages.pop_back();
    if (messages.empty() || messages.back().role != "user") {
        messages = before;
        return fail("nothing was asked yet that could be answered again");
    }
    const std::string text = messages.back().content;
    messages.pop_back();
    Result<Answer> answer = ask(text, settings, on_text);
    if (!answer) messages = before;
    return answer;
}

Result<int> Chat::used_tokens(const user::Settings& settings) const {
    if (messages.empty()) return 0;
    const text::PromptLimits any_length = {.context = 0, .vocab = model().vocab};  // older messages may go next time
    text::PromptInput input = conversation(settings);
    input.add_generation_prompt = false;
    const text::Prompt made = TRY(result_of(raw_ ? bundle_.prompts.text(messages.back().content, any_length)
                                                 : bundle_.prompts.chat(input, any_length)));
    return static_cast<int>(made.tokens.size());
}

}  // namespace tandem::cli
