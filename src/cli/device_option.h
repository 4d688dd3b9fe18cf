// --device: the only place that names concrete backends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
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
};

// Adds --device, --threads and --strict.
void add_device_options(CLI::App& app, DeviceOptions& options);

Result<std::unique_ptr<device::Backend>> open_device(const DeviceOptions& options);

// What the device does at best, measured now; takes up to a few seconds.
Result<device::Rates> measure_rates(const DeviceOptions& options);

// What this machine has, as `tandem devices` lists it.
Result<std::vector<device::Description>> list_devices();

}  // namespace tandem::cli
