// Watch: what a running server does, by its /metrics and /health, from one look to the next.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "measure/endpoint.h"
#include "measure/metrics_text.h"

namespace tandem::measure {

// What the counters of a model say at a moment.
struct ModelCounters {
    double running = 0;
    double waiting = 0;
    double cache_usage = 0;
    double prompt_tokens = 0;
    double cached_tokens = 0;
    double generated_tokens = 0;
    HistogramCounts first_token;
    HistogramCounts inter_token;
};

struct DeviceLoad {
    std::string name;
    double busy = 0;  // 0 to 1
    double memory_bytes = 0;
    double used_bytes = 0;
};

struct ServerLook {
    double at_s = 0;
    std::string health;  // "ok", "loading", "draining"
    double load_progress = 1;
    std::map<std::string, ModelCounters> models;
    std::vector<DeviceLoad> devices;
};

// Of the counters of Tandem, or else of those of vLLM.
ServerLook parse_look(std::string_view metrics, std::string_view health, double at_s);

// An error: it does not answer, or wants a key.
Result<ServerLook> look_at(const Endpoint& endpoint, double at_s);

// From one look to the next.
struct ModelActivity {
    std::string name;
    double running = 0;
    double waiting = 0;
    double cache_usage = 0;
    double tokens_per_s = 0;
    double prompt_tokens_per_s = 0;
    double cached_share = 0;                      // of prompts, found in the cache
    double first_p50_s = 0, first_p99_s = 0;      // 0: nothing came
    double between_p50_s = 0, between_p99_s = 0;  //
};

std::vector<ModelActivity> activity_between(const ServerLook& before, const ServerLook& now);

}  // namespace tandem::measure
