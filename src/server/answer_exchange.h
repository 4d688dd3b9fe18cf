// AnswerExchange: takes a model's events on the engine's thread and makes an API's bytes of them on the connection's.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "server/answer_reader.h"
#include "server/ask.h"
#include "server/delta.h"
#include "server/dialect.h"
#include "server/exchange.h"
#include "server/model_pool.h"

namespace tandem::server {

// How an answer ended, for the log and the metrics.
struct AnswerRecord {
    std::string model;
    int status = 200;
    std::string error;
    engine::Usage usage;
    std::vector<Ending> endings;  // by choice
};

class AnswerExchange final : public Exchange, public std::enable_shared_from_this<AnswerExchange> {
  public:
    using OnEnd = std::function<void(const AnswerRecord&)>;

    AnswerExchange(const Dialect& dialect, OnEnd on_end) : dialect_(dialect), on_end_(std::move(on_end)) {}
    ~AnswerExchange() override;

    // ---- Of who makes the answer.

    struct Start {
        ModelPool::Use model;
        AnswerHead head;
        AnswerReaderOptions reader;
        std::vector<engine::Request> requests;  // their on_event is set here
    };
    // Submits the requests; nothing when the client has gone meanwhile.
    void start(Ask ask, Start start);
    // Instead of, or after, start().
    void fail(ApiError error);

    // ---- Of the connection.

    Output take(bool ticked) override;
    void cancel() override;

  private:
    struct Choice {
        // Written by the engine's thread.
        std::string text;
        std::vector<engine::TokenLogprobs> logprobs;
        std::optional<engine::Finish> finish;
        // Of the connection's thread.
        std::optional<AnswerReader> reader;
        int calls = 0;
        bool ended = false;
    };

    void on_event(const engine::Event& event, int first_choice);
    void cancel_requests();
    std::optional<ApiError> error_of(const engine::Finish& finish) const;
    Delta delta_of(Choice& news, int index);
    std::vector<TokenDetail> details_of(const std::vector<engine::TokenLogprobs>& logprobs) const;
    Output fail_now(const ApiError& error);
    std::optional<ApiError> write(std::vector<Choice>& news, Output& output);
    Output end(Output output);
    Response whole();
    void begin(Output& output);
    void release();
    void record(int status, const std::string& error);

    const Dialect& dialect_;
    OnEnd on_end_;

    std::mutex mutex_;
    bool cancelled_ = false;
    bool started_ = false;
    std::optional<ApiError> error_;
    std::vector<engine::RequestId> ids_;
    std::vector<Choice> pending_;  // what the connection has not taken
    size_t backlog_bytes_ = 0;

    // Set by start(), before anything can be taken.
    Ask ask_;
    ModelPool::Use model_;
    AnswerHead head_;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();

    // Of the connection's thread.
    std::vector<Choice> choices_;
    std::unique_ptr<Writer> writer_;
    std::optional<WholeAnswer> whole_;
    std::vector<std::vector<float>> embeddings_;
    std::vector<Ending> endings_;
    int open_choices_ = 0;
    bool begun_ = false;
    bool recorded_ = false;
};

}  // namespace tandem::server
