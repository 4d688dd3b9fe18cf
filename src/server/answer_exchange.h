// AnswerExchange: takes a model's events on the engine's thread and makes an API's bytes of them on the connection's.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/ask.h"
#include "server/delta.h"
#include "server/dialect.h"
#include "server/exchange.h"
#include "server/metrics.h"
#include "server/model_pool.h"
#include "text/answer_reader.h"

namespace tandem::server {

// How an answer ended, for the log and the metrics.
struct AnswerRecord {
    std::string model;
    int status = 200;
    std::string error;
    engine::Usage usage;
    std::vector<Ending> endings;  // of the choices that have ended
};

class AnswerExchange final : public Exchange, public std::enable_shared_from_this<AnswerExchange> {
  public:
    using OnEnd = std::function<void(const AnswerRecord&)>;

    // A stream that has nothing to say for `heartbeat` says that it is alive.
    AnswerExchange(const Dialect& dialect, std::chrono::milliseconds heartbeat, OnEnd on_end)
        : dialect_(dialect), heartbeat_(heartbeat), on_end_(std::move(on_end)) {}
    ~AnswerExchange() override;

    // ---- Of who makes the answer.

    struct Start {
        ModelPool::Use model;
        AnswerHead head;
        ModelMetrics* metrics = nullptr;
        text::AnswerReaderOptions reader;
        std::vector<engine::Request> requests;  // their on_event is set here
    };
    // Submits the requests; nothing when the client has gone meanwhile.
    void start(Ask ask, Start start);
    // Instead of, or after, start().
    void fail(ApiError error);
    // Instead of both: there is nothing to generate.
    void respond(std::string body);

    // ---- Of the connection.

    Output take(bool ticked) override;
    std::chrono::milliseconds tick() const override { return heartbeat_; }
    void cancel() override;

  private:
    using Clock = std::chrono::steady_clock;

    // Of a choice, what the engine has said and the connection has not taken.
    struct News {
        std::string text;
        std::vector<std::pair<size_t, int>> pieces;  // of the text: where each ends, and its tokens
        std::vector<engine::TokenLogprobs> logprobs;
        std::optional<engine::Finish> finish;
    };

    struct Choice {
        std::optional<text::AnswerReader> reader;
        int calls = 0;
        int reasoning_tokens = 0;
        std::vector<float> embedding;
        std::optional<Ending> ending;
    };

    void on_event(const engine::Event& event, int first_choice, WakeBatch& wakes);
    void measure(size_t choice, int tokens);
    void cancel_requests();
    std::optional<ApiError> error_of(const engine::Finish& finish) const;
    Delta delta_of(News& news, int index);
    std::vector<text::AnswerPart> parts_of(const News& news, Choice& choice) const;
    std::vector<TokenDetail> details_of(const std::vector<engine::TokenLogprobs>& logprobs) const;
    Output fail_now(const ApiError& error);
    std::optional<ApiError> write(std::vector<News>& news, Output& output);
    Output end(Output output);
    Response whole();
    void begin(Output& output);
    void release();
    void record(int status, const std::string& error);

    const Dialect& dialect_;
    const std::chrono::milliseconds heartbeat_;
    OnEnd on_end_;

    std::mutex mutex_;
    bool cancelled_ = false;
    bool started_ = false;
    std::optional<ApiError> error_;
    std::optional<std::string> body_;  // of respond()
    std::vector<engine::RequestId> ids_;
    std::vector<News> pending_;                             // by choice
    std::vector<std::optional<Clock::time_point>> latest_;  // tokens, by choice
    size_t backlog_bytes_ = 0;
    std::optional<Clock::time_point> oldest_;  // event that is pending

    // Set by start(), before anything can be taken.
    Ask ask_;
    ModelPool::Use model_;
    ModelMetrics* metrics_ = nullptr;
    AnswerHead head_;
    Clock::time_point began_ = Clock::now();

    // Of the connection's thread.
    std::vector<Choice> choices_;
    std::unique_ptr<Writer> writer_;
    std::optional<WholeAnswer> whole_;
    int open_choices_ = 0;
    bool begun_ = false;
    bool recorded_ = false;
};

}  // namespace tandem::server
