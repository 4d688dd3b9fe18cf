// Measures the Speeds of a device: products, attention and the rest, by Programs of a few ops with random weights.
#pragma once

#include <functional>
#include <vector>

#include "device/backend.h"
#include "plan/speeds.h"

namespace tandem::measure {

struct SpeedOptions {
    std::vector<DType> types = {DType::q4_0, DType::q4_k, DType::q6_k, DType::q8_0, DType::f16};  // of weights
    std::function<Status(double)> progress = {};  // is told how far it is, from 0 to 1, and ends it by an error
};

// `rates` are what the device does at best. Takes about a second for each type.
Result<plan::Speeds> measure_speeds(device::Backend& backend, const device::Rates& rates, const SpeedOptions& options);

}  // namespace tandem::measure
