// Cost: what a prompt's step takes by the rates of the main device and the NPU's own cost model, for each placement.
#pragma once

#include "device/backend.h"
#include "device/rates.h"
#include "plan/placement.h"

namespace tandem::plan {

// What a dispatch that depends on the one before costs on a GPU whatever it does: docs/experiments.md, an NVIDIA H200.
inline constexpr double kDispatchSeconds = 2e-6;

// Nothing else is known of a device than these. What the model leaves out makes it faster than the device can be:
// matrices too small to fill it, the activations' way through memory, and what the host does between steps.
struct Machine {
    device::Rates main;
    const device::Backend* npu = nullptr;  // whose predict() is asked
};

// A chunk of a prompt: `rows` after `past` positions, in micro-batches.
struct ChunkShape {
    int rows = 0;
    int past = 0;
    int micro_rows = 512;
    DType kv_dtype = DType::q8_0;
};

struct Prediction {
    Placement placement;
    double seconds = 0;
    double main_busy_s = 0;
    double npu_busy_s = 0;
    double memory_bytes = 0;  // of both: they take at least memory_bytes / main.read_bytes_per_s together
};

Prediction predict(const graph::Program& program, const Placement& placement, const ChunkShape& chunk,
                   const Machine& machine);

// npu_prefill with as many layers as make it fastest, at least one.
Prediction best_npu_prefill(const graph::Program& program, const ChunkShape& chunk, const Machine& machine);

// The fastest placement of all.
Prediction best_placement(const graph::Program& program, const ChunkShape& chunk, const Machine& machine);

}  // namespace tandem::plan
