// Limits: how many requests each client may make, and have under way at once.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "server/reply.h"

namespace tandem::server {

struct LimitRules {
    double requests_per_minute = 0;  // all of them may come at once, and come back evenly; 0: any number
    int concurrent = 0;              // under way at once; 0: any number
};

// From any thread.
class Limits {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    explicit Limits(LimitRules rules);

    // A request that is under way, until it is destroyed.
    using Ticket = std::shared_ptr<void>;
    // `who` is the name of a key. What is too much becomes a 429 that says when to come back.
    Reply<Ticket> enter(const std::string& who, TimePoint now);

  private:
    struct Bucket {
        double tokens = 0;  // requests that may come at once
        TimePoint filled = {};
        int under_way = 0;
    };
    struct State {
        std::mutex mutex;
        std::map<std::string, Bucket> buckets;
    };

    void refill(Bucket& bucket, TimePoint now) const;
    void forget_idle(TimePoint now);

    LimitRules rules_;
    double most_tokens_;                                        // of a bucket
    std::shared_ptr<State> state_ = std::make_shared<State>();  // tickets may outlive the Limits
};

}  // namespace tandem::server
