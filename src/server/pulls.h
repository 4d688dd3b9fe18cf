// Pulls: models that are fetched for clients, each on a thread of its own, with progress as Ollama streams it.
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>

#include "hub/places.h"
#include "hub/pull.h"
#include "hub/reference.h"
#include "server/exchange.h"
#include "server/reply.h"

namespace tandem::server {

// The answer to a pull: lines of JSON, or its end alone when the client does not stream. From any thread.
class PullExchange final : public Exchange {
  public:
    // `path` is for the shape of errors.
    explicit PullExchange(std::string path) : path_(std::move(path)) {}

    void set_streaming(bool streams);
    void say(const nlohmann::ordered_json& line);
    void succeed();
    void fail(const ApiError& error);

    Output take(bool ticked) override;
    void cancel() override { is_cancelled_ = true; }
    bool is_cancelled() const { return is_cancelled_; }

  private:
    std::string path_;
    std::atomic<bool> is_cancelled_ = false;
    std::mutex mutex_;  // of what follows
    bool streams_ = true;
    bool is_begun_ = false;
    bool is_ended_ = false;
    std::string bytes_;
    std::optional<Response> whole_;
};

class Pulls {
  public:
    Pulls() = default;
    Pulls(const Pulls&) = delete;
    Pulls& operator=(const Pulls&) = delete;
    ~Pulls();  // ends them all; what has arrived is kept

    // Fetches the model and tells the exchange; ends when the client goes.
    void start(std::shared_ptr<PullExchange> exchange, hub::Places places, hub::Reference reference);

  private:
    struct Job {
        std::thread thread;
        std::atomic<bool> is_done = false;
    };
    void run(PullExchange& exchange, const hub::Places& places, const hub::Reference& reference) const;

    std::atomic<bool> stopping_ = false;
    std::mutex mutex_;
    std::list<Job> jobs_;
};

// What a client calls a model: one of the Hub, an address, or a name of the catalog.
Reply<hub::Reference> find_remote_model(const std::string& name, const hub::Places& places);

}  // namespace tandem::server
