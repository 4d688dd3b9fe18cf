// Cluster: what machines of one kind would do together, each with some of a model's layers, over a network.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plan/forecast.h"
#include "plan/machines.h"
#include "plan/parts.h"

namespace tandem::plan {

struct Link {
    std::string_view name;  // "2.5gbe"
    std::string_view title;
    Figure mb_per_s;  // that programs get of it
    Figure hop_us;    // of a small message from one rank to the next
};

std::span<const Link> known_links();
// Fails with the names that there are.
Result<const Link*> find_link(std::string_view name);

// What a device would take for each part, when so many sequences draw together: with one row the head of a mixture is
// worth many of its layers, with many few. Its name and memory are left to the caller.
SplitDevice forecast_device(const Parts& parts, const Speeds& speeds, DType kv_dtype, int sequences);

// What a step, or a prompt, takes on all machines.
struct ClusterForecast {
    double seconds = 0;
    int tokens = 0;
    int micro_batches = 1;       // groups of sequences, or pieces of a prompt's step, that are under way at once
    std::vector<double> busy_s;  // of each machine
    double wire_bytes = 0;       // over the wire that carries most
    double tokens_per_s() const { return tokens / seconds; }
    // The share of the machines' time in which they have nothing to do.
    double bubble() const;
};

struct ClusterShape {
    const graph::Program& program;
    int machines = 1;
    const Speeds& speeds;
    uint64_t memory_bytes = 0;  // of each, for weights and cache
    uint64_t work_bytes = 0;    // that a step needs besides
    device::CacheShape cache;   // of the whole model
    int sequences = 1;          // for which the layers are balanced
    Link link = {};             // to the next one, and from the last to the first
};

class Cluster {
  public:
    // Fails when the layers do not fit.
    static Result<Cluster> plan(const ClusterShape& shape);

    const std::vector<SplitStage>& stages() const { return stages_; }
    // All sequences draw a token, with so many positions behind them: in one group, or in one for each machine, what is
    // faster.
    ClusterForecast decode(int sequences, int context) const;
    // As the engine runs it: in steps, each in micro-batches that follow one another.
    ClusterForecast prompt(int tokens) const;

  private:
    struct Piece {
        graph::StepShape shape;
        int rows = 0;
    };

    Cluster() = default;
    ClusterForecast run(const std::vector<Piece>& pieces, int rounds) const;
    ClusterForecast decode_in(int sequences, int context, int rows) const;

    std::vector<SplitStage> stages_;
    std::vector<graph::Program> programs_;  // of each machine
    std::vector<double> row_bytes_;         // that each hands over for a row
    Speeds speeds_;
    Link link_;
    DType kv_dtype_ = DType::f16;
};

}  // namespace tandem::plan
