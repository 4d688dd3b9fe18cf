// The hybrid device: a main device and an NPU that run one Program together, a long step's micro-batches overlapping.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "device/backend.h"
#include "device/rates.h"
#include "plan/learned.h"
#include "plan/micro_batch.h"
#include "plan/placement.h"
#include "plan/timeline.h"

namespace tandem::plan {

struct HybridOptions {
    Policy policy = Policy::automatic;
    int npu_layers = 0;           // of npu_prefill; 0: what the cost model finds
    int min_rows = 0;             // steps with fewer rows run on the main device alone; 0: what the cost model finds
    int micro_rows = kMicroRows;  // of a micro-batch
    bool strict = false;          // a step whose NPU part fails, fails
    // What the main device does at best, for the cost model; asked for when a placement has to be found.
    std::function<device::Rates()> main_rates = {};
    // Why the NPU leaves a node to the main device, for the note about it.
    Obstacle obstacle = {};
    // Told once, when the NPU has failed and the main device goes on alone, and once what a placement leaves to the
    // main device for want of a design.
    std::function<void(std::string_view)> note = {};
    std::shared_ptr<Timeline> timeline = nullptr;  // where spans go, if wanted
    // Of `auto`: measured times decide, not the prediction that it began with. None: the prediction alone.
    std::shared_ptr<Learned> learned = nullptr;
};

// Caches and long-lived weights are the main device's. An NPU that fails is not asked again.
std::unique_ptr<device::Backend> make_hybrid(std::unique_ptr<device::Backend> main,
                                             std::unique_ptr<device::Backend> npu, HybridOptions options);

}  // namespace tandem::plan
