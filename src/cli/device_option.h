// --device: the only place that names concrete backends.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/npu_option.h"
#include "device/backend.h"
#include "device/rates.h"

namespace CLI {
class App;
}

namespace tandem::cli {

struct DeviceOptions {
    std::string device;  // empty: what suits this machine best
    int threads = 0;     // of the CPU; 0: one per core
    bool strict = false;
    bool exact = false;  // every op by itself in f32
    NpuChoice npu;
};

// Adds --device, --threads, --strict, --exact and the options of the NPU.
void add_device_options(CLI::App& app, DeviceOptions& options);

Result<std::unique_ptr<device::Backend>> open_device(const DeviceOptions& options);

// What the device does at best, measured now; takes up to a few seconds.
Result<device::Rates> measure_rates(const DeviceOptions& options);

// Searches what the device's kernels run fastest with, and keeps it for all later runs; returns the file it is kept in.
// The measurements give the seconds of a step on `backend`, one of open_device().
struct TuneSteps {
    std::function<Result<double>(int sequences, int context)> decode_seconds;
    std::function<Result<double>(int tokens)> prompt_seconds;
};
Result<std::string> tune(const DeviceOptions& options, device::Backend& backend, const TuneSteps& steps);

// What this machine has, as `tandem devices` lists it.
Result<std::vector<device::Description>> list_devices();

}  // namespace tandem::cli
