#include "lib/request.h"

#include "user/nearest.h"
#include "user/parse.h"

namespace tandem::lib {

namespace {

Result<text::Prompt> result_of(text::Made<text::Prompt> made) {
    if (!made) return Error{std::move(made).error().message};
    return std::move(*made);
}

std::string name_of(engine::FinishReason reason) {
    switch (reason) {
        case engine::FinishReason::stop:
            return "stop";
        case engine::FinishReason::length:
            return "length";
        default:
            return "cancelled";
    }
}

}  // namespace

Status Request::add_message(std::string role, std::string content) {
    if (role != "system" && role != "user" && role != "assistant")
        return fail("role '{}': a message is of system, user or assistant", role.substr(0, 40));
    if (text_) return fail("a request has messages or a text, not both: clear it first");
    if (role == "system" && !messages_.empty())
        return fail("a system message comes first: set \"system\", or clear the request");
    messages_.push_back({std::move(role), std::move(content)});
    return Ok{};
}

Status Request::set_text(std::string text) {
    if (!messages_.empty()) return fail("a request has messages or a text, not both: clear it first");
    text_ = std::move(text);
    return Ok{};
}

void Request::clear() {
    messages_.clear();
    text_.reset();
}

Status Request::set(std::string_view name, std::string_view value) {
    const user::Parameter* const parameter = user::find_parameter(name);
    if (parameter != nullptr) return parameter->set(settings_, value);
    std::vector<std::string_view> names;
    for (const user::Parameter& known : user::parameters()) names.push_back(known.name);
    return fail("setting '{}' is unknown; there are {}{}", name.substr(0, 40), fmt::join(names, ", "),
                user::suggestion(name, names));
}

text::PromptInput Request::conversation() const {
    text::PromptInput input;
    input.constrained = settings_.grammar != nullptr;
    input.thinking = settings_.thinking;
    const bool has_system = !messages_.empty() && messages_.front().role == "system";
    if (!settings_.system.empty() && !has_system)
        input.messages.push_back({{"role", "system"}, {"content", settings_.system}});
    for (const Message& message : messages_)
        input.messages.push_back({{"role", message.role}, {"content", message.content}});
    return input;
}

Result<text::Prompt> Request::prompt() const {
    const engine::Bundle& bundle = model_->bundle();
    const text::PromptLimits limits = {.context = model_->engine().context(), .vocab = bundle.model.vocab};
    if (text_) return result_of(bundle.prompts.text(*text_, limits));
    if (messages_.empty()) return fail("the request is empty: give it a message or a text");
    return result_of(bundle.prompts.chat(conversation(), limits));
}

Result<engine::Request> Request::prepare(text::Prompt& prompt) {
    engine::Request request;
    request.prompt = std::move(prompt.tokens);
    request.sampling = user::next_sampling(settings_);
    request.max_tokens = settings_.max_tokens;
    request.stop = settings_.stop;
    request.continues_text = text_.has_value();
    for (const auto& bias : request.sampling.logit_bias)
        TRY(user::check_vocabulary({bias.first}, model_->bundle().model.vocab));
    if (masked_ != settings_.grammar) {
        masks_ = settings_.grammar ? TRY(model_->engine().masks_for(settings_.grammar)) : nullptr;
        masked_ = settings_.grammar;
    }
    request.grammar = masks_;
    return request;
}

Status Request::generate(const OnText& on_text) {
    text::Prompt made = TRY(prompt());
    engine::Request request = TRY(prepare(made));
    Answer answer{.seed = request.sampling.seed};
    const Model::Listener listener = {.on_id =
                                          [&](engine::RequestId id) {
                                              const std::lock_guard lock(mutex_);
                                              under_way_ = id;
                                          },
                                      .on_text =
                                          [&](std::string_view piece) {
                                              answer.text += piece;
                                              return !on_text || on_text(piece);
                                          }};
    const Result<engine::Finish> finish = model_->run(std::move(request), listener);
    {
        const std::lock_guard lock(mutex_);
        under_way_.reset();
    }
    if (!finish) return finish.error();
    answer.finish = name_of(finish->reason);
    answer.usage = finish->usage;
    answer.timing = finish->timing;
    answer_ = std::move(answer);
    return Ok{};
}

bool Request::cancel() {
    const std::lock_guard lock(mutex_);
    if (under_way_) model_->engine().cancel(*under_way_);
    return under_way_.has_value();
}

}  // namespace tandem::lib
