// Split: which of a model's layers each of several stages runs, so that no stage is slower than it has to be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::plan {

// What a part of a model takes on one device.
struct PartSeconds {
    double decode = 0;  // a step of one row
    double prompt = 0;  // a step of a prompt's rows
};

// What a part of a model occupies, whatever the device: weights and cache.
struct PartBytes {
    std::vector<uint64_t> layers;
    uint64_t first = 0;   // with the first layer: the embedding
    uint64_t last = 0;    // with the last layer: norm and head
    uint64_t shared = 0;  // of `first` and `last`, what is there once where both are: a tied embedding
};

// A device, or a rank of a cluster, that may run a stage.
struct SplitDevice {
    std::string name;
    std::vector<PartSeconds> layers = {};
    PartSeconds first = {};
    PartSeconds last = {};
    PartSeconds hand_over = {};  // of its rows to the stage after it
    uint64_t memory_bytes = 0;   // that the parts may occupy
    uint64_t work_bytes = 0;     // what a stage needs besides
};

// What the balance is for. Micro-batches follow one another through the stages: the first takes the sum of all, each
// further one the slowest. So one alone is fastest where it is handed over least, many where the slowest is fastest.
struct SplitGoal {
    double decode_steps = 128;  // for each prompt
    int micro_batches = 4;      // or groups of sequences, that are under way at once; at least 1
    bool all_devices = false;   // none is left out
};

struct SplitStage {
    int device = 0;  // number in the list
    int first_layer = 0;
    int end_layer = 0;  // one past its last
    PartSeconds seconds = {};
    uint64_t bytes = 0;
};

// Contiguous layers for the devices in their order, one that makes it slower left out. Fails when no split fits.
Result<std::vector<SplitStage>> split_layers(const PartBytes& bytes, const std::vector<SplitDevice>& devices,
                                             const SplitGoal& goal);

// The same by hand: device i has the layers [cuts[i - 1], cuts[i]), all devices some. Fails when that does not fit.
Result<std::vector<SplitStage>> split_at(const PartBytes& bytes, const std::vector<SplitDevice>& devices,
                                         const std::vector<int>& cuts);

// "20,42" of so many devices and layers: ascending numbers of the layers with which the second and later stages begin.
Result<std::vector<int>> parse_cuts(std::string_view text, int devices, int layers);

// What `micro_batches` of them take through all stages.
double pipelined_seconds(const std::vector<double>& stages, int micro_batches);

}  // namespace tandem::plan
