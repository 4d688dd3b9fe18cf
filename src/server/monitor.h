// Monitor: looks at the models and devices once a second, for the live view and the metrics.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "server/exchange.h"
#include "server/metrics.h"
#include "server/model_pool.h"

namespace tandem::server {

// From any thread.
class Monitor {
  public:
    // Both must outlive it.
    Monitor(ModelPool& pool, Metrics& metrics);
    Monitor(const Monitor&) = delete;
    Monitor& operator=(const Monitor&) = delete;
    ~Monitor();

    // An answer's first token took so long.
    void first_token(double seconds);

    // The last look, as one JSON object.
    std::string latest();
    // Brings the engines' own numbers into the metrics.
    void sample_engines();

  private:
    using Clock = std::chrono::steady_clock;

    // What a model's engine had counted at the last look.
    struct Counted {
        uint64_t generated = 0;
        uint64_t prompt = 0;
        double device_seconds = 0;
    };
    struct Look;

    void run();
    void look();
    void look_at(const std::string& name, LoadedModel& model, double elapsed, Look& look);

    ModelPool& pool_;
    Metrics& metrics_;
    std::map<std::string, Counted> counted_;  // of the thread
    Clock::time_point last_look_ = Clock::now();

    std::mutex mutex_;  // of what follows
    std::condition_variable wake_;
    std::deque<std::pair<Clock::time_point, double>> first_tokens_;
    std::string latest_;
    bool stopping_ = false;
    std::thread thread_;
};

// A stream of what a Monitor sees, once a second.
class LiveExchange final : public Exchange {
  public:
    explicit LiveExchange(Monitor& monitor) : monitor_(monitor) {}

    Output take(bool ticked) override;
    std::chrono::milliseconds tick() const override { return std::chrono::seconds(1); }
    // The first take() needs no tick.
    void begin() { wake(); }

  private:
    Monitor& monitor_;
    bool begun_ = false;
};

}  // namespace tandem::server
