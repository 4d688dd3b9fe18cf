// Worker: every rank but the first: does what rank 0 orders, with its part of the model on its own device.
#pragma once

#include <functional>

#include "device/backend.h"
#include "device/rates.h"
#include "ranks/post.h"

namespace tandem::ranks {

struct WorkerOptions {
    const graph::Program& program;  // of the whole model
    const graph::Weights& weights;
    device::Backend& backend;
    std::function<Result<device::Rates>()> measure_rates = {};
};

// Until rank 0 ends the job, or is lost.
Status work(Post& post, const WorkerOptions& options);

}  // namespace tandem::ranks
