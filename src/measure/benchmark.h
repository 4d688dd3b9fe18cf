// Benchmark: how fast a model runs on a device, in steps as the engine makes them.
#pragma once

#include <limits>
#include <memory>
#include <optional>

#include "base/statistics.h"
#include "measure/energy.h"
#include "measure/stage.h"

namespace tandem::measure {

struct BenchmarkOptions {
    int repetitions = 80;  // after a warm-up
    // Past which a measurement has no more repetitions, if it has had ten.
    double most_seconds = std::numeric_limits<double>::infinity();
    int chunk = 2048;  // tokens of a prompt that are run at once
    std::optional<DType> kv_dtype;
    bool profile = false;           // where the time of a step goes, where the device can tell
    bool engine = false;            // through an Engine, with all it does on the host, instead of bare steps
    EnergyMeter* energy = nullptr;  // that outlives it; null: none
};

struct BenchmarkRow {
    enum class Kind : uint8_t { decode, prompt };

    Kind kind = Kind::decode;
    int sequences = 1;
    int context = 0;                              // positions before the measured ones; of a prompt: its tokens
    int tokens = 0;                               // made by a decode step, or read by a prompt
    Summary seconds;                              // of that
    std::vector<double> samples_s = {};           // what it sums up, in order
    plan::Work work;                              // of that
    double pass_bytes = 0;                        // that a step of it reads, and the next one again
    double cpu_s = 0;                             // processor time of the whole process for one token
    std::vector<EnergyUse> energy = {};           // for one token
    std::vector<device::StageTime> profile = {};  // of a decode step, or of the last chunk of a prompt

    double tokens_per_s() const { return tokens / seconds.median; }
};

class Benchmark {
  public:
    // Brings the weights to the device, where they stay. `model` and `backend` must outlive it.
    static Result<std::unique_ptr<Benchmark>> open(const models::Model& model, device::Backend& backend,
                                                   const BenchmarkOptions& options);

    // Sequences that all have `context` positions behind them draw a token each, again and again.
    Result<BenchmarkRow> decode(int sequences, int context);
    // A prompt from its first token to the first token drawn after it.
    Result<BenchmarkRow> prompt(int tokens);

  private:
    Result<BenchmarkRow> decode_by_engine(int sequences, int context);
    Result<BenchmarkRow> prompt_by_engine(int tokens);

    Benchmark(const models::Model& model, device::Backend& backend, const BenchmarkOptions& options)
        : model_(model), backend_(backend), options_(options) {}

    Result<std::vector<device::StageTime>> profile_of(Stage& stage) const;

    const models::Model& model_;
    device::Backend& backend_;
    BenchmarkOptions options_;
    std::unique_ptr<Stage> smallest_;  // keeps the weights where they are between measurements
};

}  // namespace tandem::measure
