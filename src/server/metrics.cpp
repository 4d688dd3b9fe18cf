#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <sstream>

namespace tandem::server {

namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::MetricFamily;

// What gateways and dashboards look for. A series may have several other names.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kAliases = {{
    {"tandem_requests_running", "vllm:num_requests_running"},
    {"tandem_requests_waiting", "vllm:num_requests_waiting"},
    {"tandem_kv_cache_usage_ratio", "vllm:kv_cache_usage_perc"},
    {"tandem_cache_config_info", "vllm:cache_config_info"},
    {"tandem_lora_requests_info", "vllm:lora_requests_info"},
    {"tandem_prompt_tokens_total", "vllm:prompt_tokens_total"},
    {"tandem_generation_tokens_total", "vllm:generation_tokens_total"},
    {"tandem_prompt_tokens_total", "vllm:prefix_cache_queries_total"},
    {"tandem_cached_prompt_tokens_total", "vllm:prefix_cache_hits_total"},
    {"tandem_preemptions_total", "vllm:num_preemptions_total"},
    {"tandem_time_to_first_token_seconds", "vllm:time_to_first_token_seconds"},
    {"tandem_inter_token_latency_seconds", "vllm:inter_token_latency_seconds"},
    {"tandem_e2e_request_latency_seconds", "vllm:e2e_request_latency_seconds"},
    {"tandem_request_queue_time_seconds", "vllm:request_queue_time_seconds"},
    {"tandem_drafted_tokens_total", "vllm:spec_decode_num_draft_tokens_total"},
    {"tandem_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"},
}};

const Histogram::BucketBoundaries& request_buckets() {
    static const Histogram::BucketBoundaries buckets = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                        2.5,   5,    10,    20,   40,  80,   160, 640};
    return buckets;
}

const Histogram::BucketBoundaries& delay_buckets() {
    static const Histogram::BucketBoundaries buckets = {0.00005, 0.0001, 0.00025, 0.0005, 0.00075, 0.001, 0.0015, 0.002,
                                                        0.0025,  0.005,  0.01,    0.025,  0.05,    0.1,   0.5,    1};
    return buckets;
}

const Histogram::BucketBoundaries& token_buckets() {
    static const Histogram::BucketBoundaries buckets = {0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05,
                                                        0.075, 0.1,    0.15,  0.2,  0.3,   0.5,  1,    2.5};
    return buckets;
}

}  // namespace

struct Metrics::Families {
    prometheus::Registry registry;

    Family<Counter>& counter(const char* name, const char* help) {
        return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
    }
    Family<Gauge>& gauge(const char* name, const char* help) {
        return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
    }
    Family<Histogram>& histogram(const char* name, const char* help) {
        return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
    }

    Family<Counter>& requests =
        counter("tandem_requests_total", "Requests that were answered, by route and HTTP status.");
    Family<Counter>& answers = counter("tandem_answers_total", "Answers that ended, by the reason.");
    Family<Gauge>& running = gauge("tandem_requests_running", "Requests that the engine works on.");
    Family<Gauge>& waiting = gauge("tandem_requests_waiting", "Requests that wait for the engine.");
    Family<Gauge>& loaded = gauge("tandem_model_loaded", "Whether the model is in memory.");
    Family<Gauge>& cache_usage = gauge("tandem_kv_cache_usage_ratio", "Share of the cache's blocks that is held.");
    Family<Gauge>& cache_info = gauge("tandem_cache_config_info", "Tokens of a cache block, and number of blocks.");
    Family<Gauge>& lora_info = gauge("tandem_lora_requests_info", "Adapters in use: there are none.");
    Family<Counter>& prompt = counter("tandem_prompt_tokens_total", "Tokens of prompts.");
    Family<Counter>& cached = counter("tandem_cached_prompt_tokens_total", "Tokens of prompts that were in the cache.");
    Family<Counter>& generated = counter("tandem_generation_tokens_total", "Tokens that were generated.");
    Family<Counter>& drafted = counter("tandem_drafted_tokens_total", "Tokens that were guessed ahead.");
    Family<Counter>& accepted = counter("tandem_accepted_tokens_total", "Tokens that were guessed right.");
    Family<Counter>& preemptions = counter("tandem_preemptions_total", "Requests that lost their place in the cache.");
    Family<Counter>& steps = counter("tandem_engine_steps_total", "Steps of the engine.");
    Family<Counter>& device_time = counter("tandem_device_seconds_total", "Time that steps took on the device.");
    Family<Counter>& host_time = counter("tandem_host_seconds_total", "Processor time of the engine around the steps.");
    Family<Histogram>& first_token =
        histogram("tandem_time_to_first_token_seconds", "From the request to the first token of its answer.");
    Family<Histogram>& inter_token =
        histogram("tandem_inter_token_latency_seconds", "From one token of an answer to the next.");
    Family<Histogram>& whole =
        histogram("tandem_e2e_request_latency_seconds", "From the request to the end of its answer.");
    Family<Histogram>& queue =
        histogram("tandem_request_queue_time_seconds", "From the request until the engine began to work on it.");
    Histogram& delay = histogram("tandem_stream_delay_seconds",
                                 "From the engine's making of tokens to the end of writing them to the client.")
                           .Add({}, delay_buckets());
    Family<Gauge>& utilisation =
        gauge("tandem_device_utilization_ratio", "Share of the time that the device was busy.");
    Family<Gauge>& pool_size = gauge("tandem_device_memory_bytes", "Size of a pool of the device's memory.");
    Family<Gauge>& pool_used = gauge("tandem_device_memory_used_bytes", "What is used of it.");
    Family<Counter>& stage_busy = counter("tandem_stage_seconds_total", "Time that a rank ran its part of steps.");
    Family<Counter>& stage_waiting =
        counter("tandem_stage_waiting_seconds_total", "Time in steps that a rank waited for what others hand over.");
    Family<Gauge>& hop = gauge("tandem_hop_seconds", "What a small message to the next rank took last.");
    Family<Counter>& hop_bytes = counter("tandem_hop_bytes_total", "Bytes that a rank sent to the next.");
    Family<Gauge>& build = gauge("tandem_build_info", "The version of the server.");

    std::mutex mutex;
    std::map<std::string, std::unique_ptr<ModelMetrics>> models;
    std::map<int, StageSample> stages;  // as they were last
};

struct ModelMetrics::Series {
    Gauge& running;
    Gauge& waiting;
    Gauge& loaded;
    Gauge& cache_usage;
    Counter& prompt;
    Counter& cached;
    Counter& generated;
    Counter& drafted;
    Counter& accepted;
    Counter& preemptions;
    Counter& steps;
    Counter& device_time;
    Counter& host_time;
    Histogram& first_token;
    Histogram& inter_token;
    Histogram& whole;
    Histogram& queue;
    Family<Counter>& answers;
    Family<Gauge>& cache_info;
    std::string name;

    std::mutex mutex = {};
    engine::EngineStats last = {};
    Gauge* cache_shape = nullptr;

    // Counts what came since the last sample.
    template <typename T>
    static void advance(Counter& counter, T now, T before) {
        counter.Increment(static_cast<double>(now >= before ? now - before : now));
    }
};

ModelMetrics::ModelMetrics(std::unique_ptr<Series> series) : series_(std::move(series)) {}
ModelMetrics::~ModelMetrics() = default;

void ModelMetrics::ended(const Ending& ending) {
    series_->answers.Add({{"model_name", series_->name}, {"finish", std::string(name(ending.reason))}}).Increment();
    series_->queue.Observe(ending.timing.queue);
    if (ending.usage.generated_tokens > 0) series_->first_token.Observe(ending.timing.first_token);
    series_->whole.Observe(ending.timing.queue + ending.timing.prefill + ending.timing.decode);
}

void ModelMetrics::tokens_after(double seconds, int tokens) {
    for (int i = 0; i < tokens; ++i) series_->inter_token.Observe(seconds / tokens);
}

void ModelMetrics::sample(const engine::EngineStats& stats) {
    const std::lock_guard lock(series_->mutex);
    const engine::EngineStats& last = series_->last;
    series_->running.Set(stats.running);
    series_->waiting.Set(stats.waiting);
    series_->cache_usage.Set(stats.cache_usage);
    Series::advance(series_->prompt, stats.prompt_tokens, last.prompt_tokens);
    Series::advance(series_->cached, stats.cached_tokens, last.cached_tokens);
    Series::advance(series_->generated, stats.generated_tokens, last.generated_tokens);
    Series::advance(series_->drafted, stats.drafted_tokens, last.drafted_tokens);
    Series::advance(series_->accepted, stats.accepted_tokens, last.accepted_tokens);
    Series::advance(series_->preemptions, stats.preemptions, last.preemptions);
    Series::advance(series_->steps, stats.steps, last.steps);
    Series::advance(series_->device_time, stats.device_seconds, last.device_seconds);
    Series::advance(series_->host_time, stats.host_seconds, last.host_seconds);
    series_->last = stats;
}

void ModelMetrics::set_cache(int block_tokens, int blocks) {
    const std::lock_guard lock(series_->mutex);
    if (series_->cache_shape != nullptr) series_->cache_info.Remove(series_->cache_shape);
    series_->cache_shape = &series_->cache_info.Add({{"model_name", series_->name},
                                                     {"block_size", std::to_string(block_tokens)},
                                                     {"num_gpu_blocks", std::to_string(blocks)}});
    series_->cache_shape->Set(1);
}

void ModelMetrics::set_loaded(bool loaded) {
    series_->loaded.Set(loaded ? 1 : 0);
    if (!loaded) sample({});  // nothing runs, and the next engine counts from zero
}

Metrics::Metrics(std::string_view version) : families_(std::make_unique<Families>()) {
    families_->build.Add({{"version", std::string(version)}}).Set(1);
}

Metrics::~Metrics() = default;

ModelMetrics& Metrics::model(const std::string& name) {
    const std::lock_guard lock(families_->mutex);
    std::unique_ptr<ModelMetrics>& entry = families_->models[name];
    if (entry) return *entry;
    Families& of = *families_;
    const prometheus::Labels labels = {{"model_name", name}};
    of.lora_info
        .Add({{"model_name", name}, {"max_lora", "0"}, {"running_lora_adapters", ""}, {"waiting_lora_adapters", ""}})
        .Set(1);
    // NOLINTNEXTLINE(modernize-make-unique): there is none for members by name
    auto series = std::unique_ptr<ModelMetrics::Series>(new ModelMetrics::Series{
        .running = of.running.Add(labels),
        .waiting = of.waiting.Add(labels),
        .loaded = of.loaded.Add(labels),
        .cache_usage = of.cache_usage.Add(labels),
        .prompt = of.prompt.Add(labels),
        .cached = of.cached.Add(labels),
        .generated = of.generated.Add(labels),
        .drafted = of.drafted.Add(labels),
        .accepted = of.accepted.Add(labels),
        .preemptions = of.preemptions.Add(labels),
        .steps = of.steps.Add(labels),
        .device_time = of.device_time.Add(labels),
        .host_time = of.host_time.Add(labels),
        .first_token = of.first_token.Add(labels, request_buckets()),
        .inter_token = of.inter_token.Add(labels, token_buckets()),
        .whole = of.whole.Add(labels, request_buckets()),
        .queue = of.queue.Add(labels, request_buckets()),
        .answers = of.answers,
        .cache_info = of.cache_info,
        .name = name,
    });
    entry = std::make_unique<ModelMetrics>(std::move(series));
    return *entry;
}

void Metrics::request(std::string_view route, int status) {
    families_->requests.Add({{"route", std::string(route)}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::sent_after(double seconds) {
    families_->delay.Observe(seconds);
}

void Metrics::sample(const std::vector<DeviceSample>& devices) {
    for (const DeviceSample& device : devices) {
        families_->utilisation.Add({{"device", device.name}}).Set(std::clamp(device.utilisation, 0.0, 1.0));
        for (const PoolSample& pool : device.pools) {
            const prometheus::Labels labels = {{"device", device.name}, {"pool", pool.name}};
            families_->pool_size.Add(labels).Set(static_cast<double>(pool.bytes));
            families_->pool_used.Add(labels).Set(static_cast<double>(pool.used_bytes));
        }
    }
}

void Metrics::sample(const std::vector<StageSample>& stages) {
    Families& of = *families_;
    const std::lock_guard lock(of.mutex);
    for (const StageSample& stage : stages) {
        StageSample& last = of.stages[stage.rank];
        const prometheus::Labels rank = {{"rank", std::to_string(stage.rank)}, {"host", stage.host}};
        const prometheus::Labels hop = {{"from", std::to_string(stage.rank)}, {"to", std::to_string(stage.next_rank)}};
        ModelMetrics::Series::advance(of.stage_busy.Add(rank), stage.busy_s, last.busy_s);
        ModelMetrics::Series::advance(of.stage_waiting.Add(rank), stage.waiting_s, last.waiting_s);
        ModelMetrics::Series::advance(of.hop_bytes.Add(hop), stage.sent_bytes, last.sent_bytes);
        of.hop.Add(hop).Set(stage.hop_s);
        last = stage;
    }
}

std::string Metrics::text() const {
    std::vector<MetricFamily> families = families_->registry.Collect();
    const size_t own = families.size();
    for (const auto& [name, alias] : kAliases) {
        for (size_t i = 0; i < own; ++i) {
            if (families[i].name != name) continue;
            MetricFamily copy = families[i];
            copy.name = alias;
            families.push_back(std::move(copy));
        }
    }
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, families);
    return out.str();
}

std::optional<std::string> load_report(std::string_view format, const engine::EngineStats& stats) {
    if (format == "TEXT") {
        return fmt::format(
            "TEXT named_metrics.kv_cache_usage_perc={}, named_metrics.num_requests_waiting={}, "
            "named_metrics.num_requests_running={}",
            stats.cache_usage, stats.waiting, stats.running);
    }
    if (format == "JSON") {
        return fmt::format(
            R"(JSON {{"named_metrics": {{"kv_cache_usage_perc": {}, "num_requests_waiting": {}, "num_requests_running": {}}}}})",
            stats.cache_usage, stats.waiting, stats.running);
    }
    return std::nullopt;
}

}  // namespace tandem::server
