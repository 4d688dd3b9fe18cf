// The options of commands that open a device.
#pragma once

#include "user/devices.h"

namespace CLI {
class App;
}

namespace tandem::cli {

// Adds --device, --split, --threads, --strict, --exact and the options of the NPU.
void add_device_options(CLI::App& app, user::DeviceOptions& options);

}  // namespace tandem::cli
