// Traffic: requests to a server as many users would make them, and what they saw of it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "measure/endpoint.h"

namespace tandem::measure {

struct TrafficOptions {
    Endpoint endpoint;
    std::string model;
    int requests = 50;
    // Requests a second, at random moments (Poisson); 0: each of `concurrency` users asks again when it has its answer.
    double rate = 0;
    int concurrency = 1;  // with a rate: the most at once; those that come meanwhile wait, and their time counts
    int prompt_words = 128;
    int tokens = 64;  // of an answer, at most
    std::chrono::seconds patience{300};
    uint64_t seed = 1;
    std::function<void(int done, int all)> progress = {};
};

// One request; times are from the moment it came, whether it had to wait or not.
struct Visit {
    double first_s = 0;  // to the first piece of the answer
    double total_s = 0;
    double between_s = 0;  // of one token to the next; 0: there was one
    int tokens = 0;
    bool has_usage = false;
    bool usage_is_right = true;  // adds up, and is within what was asked for
    std::string error;           // empty: a whole answer
};

struct TrafficTargets {
    double first_s = 0;    // 0: none
    double between_s = 0;  // likewise

    bool any() const { return first_s > 0 || between_s > 0; }
    bool holds(const Visit& visit) const;
};

struct Percentiles {
    double p50 = 0;
    double p90 = 0;
    double p99 = 0;
};

struct TrafficReport {
    double rate = 0;
    int concurrency = 0;
    int requests = 0;
    int answered = 0;  // in whole
    double seconds = 0;
    int64_t tokens = 0;
    int without_usage = 0;  // of those answered: their tokens are counted as the pieces that came
    int wrong_usage = 0;
    int good = 0;  // within the targets
    Percentiles first;
    Percentiles between;
    Percentiles total;
    std::map<std::string, int> errors;
};

// A server that answers nothing at all is an error; one that fails some requests is a finding.
Result<TrafficReport> send_traffic(const TrafficOptions& options, const TrafficTargets& targets);

TrafficReport summarize_visits(const std::vector<Visit>& visits, const TrafficTargets& targets);

}  // namespace tandem::measure
