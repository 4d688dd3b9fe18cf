// Chat: a loaded model, the conversation with it so far, and the answers it gives.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/conversation.h"
#include "cli/engine_options.h"
#include "cli/rank_job.h"
#include "engine/bundle.h"
#include "engine/generate.h"
#include "user/settings.h"

namespace tandem::cli {

struct ChatOptions {
    std::string model;  // empty: the default
    bool raw = false;   // complete the text as it is, without the chat template
    EngineChoice engine;
    RankJob* job = nullptr;  // of the ranks that run the model together; null: this process alone
};

struct Answer {
    engine::Generation generation;
    uint64_t seed = 0;
    int forgotten = 0;  // messages dropped from the start of the conversation to make room
};

class Chat {
  public:
    static Result<std::unique_ptr<Chat>> open(const ChatOptions& options);

    // Adds the user's text and what the model says to it. When that fails the conversation is as it was before. The
    // interrupt flag ends an answer early; what was said until then stays.
    Result<Answer> ask(std::string_view text, const user::Settings& settings,
                       const std::function<void(std::string_view)>& on_text);

    // Draws the last answer anew. When that fails, or there is none, the conversation is as it was before.
    Result<Answer> retry(const user::Settings& settings, const std::function<void(std::string_view)>& on_text);

    std::vector<Message> messages;

    // Goes on with another model, as `run` names them, on the same device and with the same messages. When that fails
    // the model is the one from before; only if that does not load any more either, there is none.
    Status load(const std::string& model);
    bool loaded() const { return engine_ != nullptr; }

    // Of the context, by the conversation as it stands.
    Result<int> used_tokens(const user::Settings& settings) const;

    // Texts are completed as they are, each by itself: asked for, or because the model has no chat template.
    bool raw() const { return raw_; }
    // Whether the model's template lets one choose.
    bool can_switch_thinking() const;
    const std::string& source() const { return source_; }  // what the model was opened by; empty: the default
    const models::Model& model() const { return bundle_.model; }
    device::Description device() const { return backend_->describe(); }
    int context() const { return engine_->context(); }

  private:
    Chat(engine::Bundle bundle, ChatOptions options)
        : bundle_(std::move(bundle)), source_(options.model), options_(std::move(options)) {}

    Status open_engine();

    text::Made<text::Prompt> prompt(const user::Settings& settings) const;
    text::PromptInput conversation(const user::Settings& settings) const;
    Result<int> make_room(const user::Settings& settings);
    Result<std::shared_ptr<const text::TokenMasks>> masks_of(const text::CompiledGrammarPtr& grammar);

    engine::Bundle bundle_;
    std::optional<engine::Bundle> draft_;
    std::unique_ptr<user::Devices> devices_;
    std::unique_ptr<device::Backend> backend_;
    std::unique_ptr<engine::Engine> engine_;
    text::CompiledGrammarPtr grammar_;               // of the last answer
    std::shared_ptr<const text::TokenMasks> masks_;  // of it: what was found for one answer serves the next
    std::string source_;
    ChatOptions options_;
    bool raw_ = false;
};

}  // namespace tandem::cli
