#include "measure/watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tandem::measure {

namespace {

constexpr std::chrono::seconds kLookPatience{5};

struct CounterName {
    const char* own;
    const char* vllm;
    double ModelCounters::*counter;
};
constexpr CounterName kCounterNames[] = {
    {"tandem_requests_running", "vllm:num_requests_running", &ModelCounters::running},
    {"tandem_requests_waiting", "vllm:num_requests_waiting", &ModelCounters::waiting},
    {"tandem_kv_cache_usage_ratio", "vllm:kv_cache_usage_perc", &ModelCounters::cache_usage},
    {"tandem_prompt_tokens_total", "vllm:prompt_tokens_total", &ModelCounters::prompt_tokens},
    {"tandem_cached_prompt_tokens_total", "vllm:prefix_cache_hits_total", &ModelCounters::cached_tokens},
    {"tandem_generation_tokens_total", "vllm:generation_tokens_total", &ModelCounters::generated_tokens}};

void read_devices(const MetricsText& metrics, ServerLook& look) {
    for (const MetricSample& sample : metrics.all("tandem_device_utilization_ratio"))
        look.devices.push_back({.name = std::string(sample.label("device")), .busy = sample.value});
    for (DeviceLoad& device : look.devices) {
        for (const MetricSample& sample : metrics.all("tandem_device_memory_bytes"))
            device.memory_bytes += sample.label("device") == device.name ? sample.value : 0;
        for (const MetricSample& sample : metrics.all("tandem_device_memory_used_bytes"))
            device.used_bytes += sample.label("device") == device.name ? sample.value : 0;
    }
}

void read_health(std::string_view health, ServerLook& look) {
    const nlohmann::json json = nlohmann::json::parse(health, nullptr, false);
    look.health = "ok";  // others answer with nothing, and a status
    if (json.is_discarded() || !json.is_object()) return;
    const auto status = json.find("status");
    if (status != json.end() && status->is_string()) look.health = status->get<std::string>();
    const auto progress = json.find("progress");
    if (progress != json.end() && progress->is_number()) look.load_progress = progress->get<double>();
}

// What a counter grew by; all of it where the server began anew.
double growth(double before, double now) {
    return now >= before ? now - before : now;
}

}  // namespace

ServerLook parse_look(std::string_view metrics_text, std::string_view health, double at_s) {
    const MetricsText metrics = MetricsText::parse(metrics_text);
    ServerLook look{.at_s = at_s, .health = {}, .models = {}, .devices = {}};
    const bool is_own = !metrics.all(kCounterNames[0].own).empty();
    for (const CounterName& each : kCounterNames) {
        for (const MetricSample& sample : metrics.all(is_own ? each.own : each.vllm))
            look.models[std::string(sample.label("model_name"))].*each.counter += sample.value;
    }
    const std::string prefix = is_own ? "tandem_" : "vllm:";
    for (auto& [name, model] : look.models) {
        model.first_token = histogram_of(metrics, prefix + "time_to_first_token_seconds", "model_name", name);
        model.inter_token = histogram_of(metrics, prefix + "inter_token_latency_seconds", "model_name", name);
    }
    read_devices(metrics, look);
    read_health(health, look);
    return look;
}

Result<ServerLook> look_at(const Endpoint& endpoint, double at_s) {
    const EndpointReply metrics = get_from(endpoint, "/metrics", kLookPatience);
    if (metrics.status == 0) return fail("{}: does not answer: {}", endpoint.url, metrics.failure);
    if (metrics.status == 401 || metrics.status == 403) {
        return fail("{}/metrics: {} (or start the server with --open-metrics)", endpoint.url,
                    endpoint.key.empty() ? "wants a key: give a file with it by --key" : "does not accept the key");
    }
    if (metrics.status != 200) return fail("{}/metrics: status {}", endpoint.url, metrics.status);
    const EndpointReply health = get_from(endpoint, "/health", kLookPatience);
    return parse_look(metrics.body, health.body, at_s);
}

std::vector<ModelActivity> activity_between(const ServerLook& before, const ServerLook& now) {
    const double seconds = std::max(now.at_s - before.at_s, 1e-6);
    std::vector<ModelActivity> all;
    for (const auto& [name, model] : now.models) {
        const auto found = before.models.find(name);
        const ModelCounters last = found == before.models.end() ? model : found->second;
        const double prompt = growth(last.prompt_tokens, model.prompt_tokens);
        const double cached = growth(last.cached_tokens, model.cached_tokens);
        const HistogramCounts first = model.first_token.since(last.first_token);
        const HistogramCounts between = model.inter_token.since(last.inter_token);
        all.push_back({.name = name,
                       .running = model.running,
                       .waiting = model.waiting,
                       .cache_usage = model.cache_usage,
                       .tokens_per_s = growth(last.generated_tokens, model.generated_tokens) / seconds,
                       .prompt_tokens_per_s = prompt / seconds,
                       .cached_share = prompt > 0 ? cached / prompt : 0,
                       .first_p50_s = first.quantile(0.5),
                       .first_p99_s = first.quantile(0.99),
                       .between_p50_s = between.quantile(0.5),
                       .between_p99_s = between.quantile(0.99)});
    }
    return all;
}

}  // namespace tandem::measure
