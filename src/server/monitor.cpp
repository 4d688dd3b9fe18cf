#include "server/monitor.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/sse.h"

namespace tandem::server {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kEach{1};
constexpr std::chrono::seconds kFirstTokenWindow{60};
constexpr size_t kMostFirstTokens = 1024;

double quantile(const std::vector<double>& sorted, double share) {
    if (sorted.empty()) return 0;
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

// As the page knows it.
std::string_view name_of(device::Kind kind) {
    switch (kind) {
        case device::Kind::cpu:
            return "cpu";
        case device::Kind::npu:
            return "npu";
        case device::Kind::gpu:
        case device::Kind::integrated_gpu:
        case device::Kind::software_gpu:
            return "gpu";
    }
    return "";
}

DeviceSample sample_of(const device::Description& device, double utilisation) {
    DeviceSample sample{
        .kind = device.kind, .name = device.name, .utilisation = std::clamp(utilisation, 0.0, 1.0), .pools = {}};
    sample.pools.reserve(device.pools.size());
    for (const device::MemoryPool& pool : device.pools) {
        sample.pools.push_back({.name = pool.name,
                                .bytes = pool.size_bytes,
                                .used_bytes = pool.size_bytes - std::min(pool.size_bytes, pool.free_bytes)});
    }
    return sample;
}

Json to_json(const DeviceSample& device) {
    Json pools = Json::array();
    for (const PoolSample& pool : device.pools) {
        pools.push_back({{"name", pool.name}, {"bytes", pool.bytes}, {"used", pool.used_bytes}});
    }
    return {{"name", device.name},
            {"kind", name_of(device.kind)},
            {"utilisation", device.utilisation},
            {"pools", std::move(pools)}};
}

// "blk.12.ffn_up.weight" -> "12"
std::string layer_of(const std::string& weight) {
    if (weight.starts_with("blk.")) return weight.substr(4, weight.find('.', 4) - 4);
    return weight.starts_with("token_embd") ? "embed" : "output";
}

void add_memory_map(const std::string& name, const LoadedModel& model, Json& map) {
    std::map<std::string, uint64_t> layers;
    for (const auto& [weight, view] : model.bundle().model.weights.all()) layers[layer_of(weight)] += view.data.size();
    layers["cache"] = model.engine().cache_bytes();
    const device::Description device = model.backend().describe();
    const std::string pool = device.pools.empty() ? "" : device.pools.front().name;
    for (const auto& [layer, bytes] : layers) {
        map.push_back({{"model", name}, {"layer", layer}, {"device", device.name}, {"pool", pool}, {"bytes", bytes}});
    }
}

Json to_json(const ModelCard& card) {
    return {{"name", card.name},
            {"state", name(card.state)},
            {"progress", card.progress},
            {"context", card.context},
            {"cache_usage", card.cache_usage},
            {"cache_blocks", card.cache_blocks},
            {"cached_share", card.cached_share}};
}

}  // namespace

struct Monitor::Look {
    double tokens_per_second = 0;
    double prompt_tokens_per_second = 0;
    int running = 0;
    int waiting = 0;
    std::map<std::string, DeviceSample> devices;
    Json memory_map = Json::array();
};

Monitor::Monitor(ModelPool& pool, Metrics& metrics) : pool_(pool), metrics_(metrics) {
    look();
    thread_ = std::thread([this] { run(); });
}

Monitor::~Monitor() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
    }
    thread_.join();
}

void Monitor::first_token(double seconds) {
    const std::lock_guard lock(mutex_);
    first_tokens_.emplace_back(Clock::now(), seconds);
    if (first_tokens_.size() > kMostFirstTokens) first_tokens_.pop_front();
}

std::string Monitor::latest() {
    const std::lock_guard lock(mutex_);
    return latest_;
}

void Monitor::run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kEach, [&] { return stopping_; })) {
        lock.unlock();
        look();
        lock.lock();
    }
}

void Monitor::sample_engines() {
    for (const ModelCard& card : pool_.list()) metrics_.model(card.name).set_loaded(card.state == ModelState::ready);
    pool_.for_each([&](const std::string& name, LoadedModel& model) {
        metrics_.model(name).set_cache(model.block_tokens(), model.engine().cache_blocks());
        metrics_.model(name).sample(model.engine().stats());
    });
}

void Monitor::look_at(const std::string& name, LoadedModel& model, double elapsed, Look& look) {
    const engine::EngineStats stats = model.engine().stats();
    Counted& before = counted_[name];
    if (stats.generated_tokens < before.generated) before = {};  // it was loaded again
    look.tokens_per_second += static_cast<double>(stats.generated_tokens - before.generated) / elapsed;
    look.prompt_tokens_per_second += static_cast<double>(stats.prompt_tokens - before.prompt) / elapsed;
    look.running += stats.running;
    look.waiting += stats.waiting;
    const device::Description device = model.backend().describe();
    const double utilisation = (stats.device_seconds - before.device_seconds) / elapsed;
    DeviceSample sample = sample_of(device, utilisation);
    const auto same = look.devices.find(device.name);
    if (same != look.devices.end()) sample.utilisation = std::min(1.0, sample.utilisation + same->second.utilisation);
    look.devices[device.name] = std::move(sample);
    add_memory_map(name, model, look.memory_map);
    before = {
        .generated = stats.generated_tokens, .prompt = stats.prompt_tokens, .device_seconds = stats.device_seconds};
}

void Monitor::look() {
    const Clock::time_point now = Clock::now();
    const double elapsed = std::max(1e-3, std::chrono::duration<double>(now - last_look_).count());
    last_look_ = now;
    Look look;
    pool_.for_each([&](const std::string& name, LoadedModel& model) { look_at(name, model, elapsed, look); });
    std::vector<DeviceSample> devices;
    Json device_list = Json::array();
    devices.reserve(look.devices.size());
    for (const auto& [name, device] : look.devices) {
        devices.push_back(device);
        device_list.push_back(to_json(device));
    }
    metrics_.sample(devices);
    sample_engines();
    Json models = Json::array();
    for (const ModelCard& card : pool_.list()) models.push_back(to_json(card));

    const std::lock_guard lock(mutex_);
    while (!first_tokens_.empty() && now - first_tokens_.front().first > kFirstTokenWindow) first_tokens_.pop_front();
    std::vector<double> waits;
    waits.reserve(first_tokens_.size());
    for (const auto& first : first_tokens_) waits.push_back(first.second);
    std::sort(waits.begin(), waits.end());
    const double unix_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    latest_ = dump({{"time", unix_s},
                    {"tokens_per_second", look.tokens_per_second},
                    {"prompt_tokens_per_second", look.prompt_tokens_per_second},
                    {"time_to_first_token", {{"p50", quantile(waits, 0.5)}, {"p95", quantile(waits, 0.95)}}},
                    {"requests", {{"running", look.running}, {"waiting", look.waiting}}},
                    {"models", std::move(models)},
                    {"devices", std::move(device_list)},
                    {"memory_map", std::move(look.memory_map)}});
}

Output LiveExchange::take(bool ticked) {
    taken();
    Output output;
    if (!std::exchange(begun_, true)) {
        output.head = Response{.content_type = "text/event-stream"};
        output.streams = true;
    } else if (!ticked) {
        return output;
    }
    output.bytes = "data: " + monitor_.latest() + "\n\n";
    return output;
}

}  // namespace tandem::server
