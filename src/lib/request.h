// Request: a conversation or a text, how it is to be answered, and the last answer.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model.h"
#include "text/answer_part.h"
#include "text/prompt.h"
#include "user/settings.h"

namespace tandem::lib {

struct Answer {
    std::string text = {};
    std::string reasoning = {};
    std::vector<text::AnswerPart> calls = {};
    std::string calls_json = "[]";
    std::string finish = {};  // "stop", "length", "tool_calls", "cancelled"; empty: there was none
    engine::Usage usage = {};
    engine::Timings timing = {};
    uint64_t seed = 0;
};

class Request {
  public:
    explicit Request(std::shared_ptr<Model> model) : model_(std::move(model)) {}

    Status add_message(std::string role, std::string content);
    Status keep_answer();  // as a message
    Status set_tools(std::string_view json);
    Status set_text(std::string text);
    void clear();
    Status set(std::string_view name, std::string_view value);
    Result<text::Prompt> prompt() const;

    // Null: nobody listens. False ends the answer.
    using OnText = std::function<bool(std::string_view piece)>;
    void set_on_reasoning(OnText on_reasoning) { on_reasoning_ = std::move(on_reasoning); }
    Status generate(const OnText& on_text);
    bool cancel();  // from any thread; whether there was an answer under way
    const Answer& answer() const { return answer_; }

  private:
    text::PromptInput conversation() const;
    Result<engine::Request> prepare(text::Prompt& prompt);

    std::shared_ptr<Model> model_;
    nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();  // as text::PromptInput has them
    std::vector<std::string> open_calls_;                                // ids of those without a result, first to last
    int calls_ = 0;                                                      // in messages_
    std::optional<std::string> text_;
    nlohmann::ordered_json tools_;
    OnText on_reasoning_;
    user::Settings settings_;
    text::CompiledGrammarPtr masked_;                // that `masks_` were made of
    std::shared_ptr<const text::TokenMasks> masks_;  // kept: what was found for one answer serves the next
    Answer answer_;

    std::mutex mutex_;  // of what follows
    std::optional<engine::RequestId> under_way_;
};

}  // namespace tandem::lib
