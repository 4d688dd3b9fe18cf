// Metrics: what the server counts and measures, in the text form of Prometheus, under our own names and those of vLLM.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/delta.h"

namespace tandem::server {

// Of one model. All functions from any thread.
class ModelMetrics {
  public:
    struct Series;
    explicit ModelMetrics(std::unique_ptr<Series> series);
    ~ModelMetrics();

    // A choice has ended.
    void ended(const Ending& ending);
    // This many tokens came so long after those before them.
    void tokens_after(double seconds, int tokens);
    // What the engine says of itself; a number that is smaller than before comes from a new engine.
    void sample(const engine::EngineStats& stats);
    // Of the engine's cache.
    void set_cache(int block_tokens, int blocks);
    void set_loaded(bool loaded);

  private:
    std::unique_ptr<Series> series_;
};

struct PoolSample {
    std::string name;
    uint64_t bytes = 0;
    uint64_t used_bytes = 0;
};

struct DeviceSample {
    device::Kind kind = device::Kind::cpu;
    std::string name;
    double utilisation = 0;  // 0 to 1, since the last one
    std::vector<PoolSample> pools;
};

// Of a rank that runs a part of a model, since its start.
struct StageSample {
    int rank = 0;
    std::string host;
    int next_rank = 0;  // that gets what it makes
    double busy_s = 0;
    double waiting_s = 0;     // for what ranks before it make
    double hop_s = 0;         // of the last small message to the next
    uint64_t sent_bytes = 0;  // to the next
};

// From any thread.
class Metrics {
  public:
    explicit Metrics(std::string_view version);
    ~Metrics();

    // Of any name; the same object each time, for as long as the Metrics lives. Only for models that there are: names
    // that clients make up would fill the memory.
    ModelMetrics& model(const std::string& name);
    // A request was answered. `route` is one of the server's, not what the client wrote.
    void request(std::string_view route, int status);
    // Tokens were written to a client so long after the engine had made the first of them.
    void sent_after(double seconds);
    void sample(const std::vector<DeviceSample>& devices);
    void sample(const std::vector<StageSample>& stages);

    // The body of /metrics, and its type.
    std::string text() const;
    static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

  private:
    struct Families;
    std::unique_ptr<Families> families_;
};

// For Envoy (ORCA): the header `endpoint-load-metrics` of an answer to a request with `endpoint-load-metrics-format`,
// which is TEXT or JSON. Nothing for other formats.
std::optional<std::string> load_report(std::string_view format, const engine::EngineStats& stats);

}  // namespace tandem::server
