// Service: turns what a client asks into requests of a model's engine.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/answer_exchange.h"
#include "server/ask.h"
#include "server/metrics.h"
#include "server/model_pool.h"
#include "server/workers.h"

namespace tandem::server {

struct ServiceOptions {
    AskLimits limits;
    double answer_seconds = 0;  // that an answer may take; 0: any time
};

// Who asks.
struct Client {
    std::string salt;   // of the cached prompts, which it shares with nobody else: the name of its key
    std::string owner;  // whose share of a model it uses: its key, or its address where there are no keys
};

// From any thread; nothing here waits.
class Service {
  public:
    // All of them must outlive it.
    Service(ModelPool& pool, Workers& workers, Metrics& metrics, ServiceOptions options)
        : pool_(pool), workers_(workers), metrics_(metrics), options_(options) {}

    void answer(Ask ask, Client client, const std::shared_ptr<AnswerExchange>& exchange);

    // Calls `then` on a worker's thread once the model is loaded.
    void with_model(const std::string& name, std::optional<double> keep_alive_s,
                    std::function<void(Reply<ModelPool::Use>)> then);

    // Of a chat, however long.
    static Reply<std::vector<text::TokenId>> tokens_of_chat(const Ask& ask, const LoadedModel& model);

  private:
    Reply<AnswerExchange::Start> prepare(const Ask& ask, const Client& client, ModelPool::Use model) const;

    ModelPool& pool_;
    Workers& workers_;
    Metrics& metrics_;
    ServiceOptions options_;
};

}  // namespace tandem::server
