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

// From any thread; nothing here waits.
class Service {
  public:
    // All of them must outlive it.
    Service(ModelPool& pool, Workers& workers, Metrics& metrics, ServiceOptions options)
        : pool_(pool), workers_(workers), metrics_(metrics), options_(options) {}

    // `salt` keeps the cached prompts of one client from the others.
    void answer(Ask ask, std::string salt, const std::shared_ptr<AnswerExchange>& exchange);

    // Calls `then` on a worker's thread once the model is loaded.
    void with_model(const std::string& name, std::optional<double> keep_alive_s,
                    std::function<void(Reply<ModelPool::Use>)> then);

    // Of a chat, or of all prompts one after the other.
    static Reply<std::vector<text::TokenId>> tokens_of(const Ask& ask, const LoadedModel& model);

  private:
    Reply<AnswerExchange::Start> prepare(const Ask& ask, const std::string& salt, ModelPool::Use model) const;

    ModelPool& pool_;
    Workers& workers_;
    Metrics& metrics_;
    ServiceOptions options_;
};

}  // namespace tandem::server
