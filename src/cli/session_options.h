// The options of commands that run a model: device, context, cache type.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "cli/device_option.h"
#include "engine/session.h"

namespace tandem::cli {

struct SessionChoice {
    DeviceOptions device;
    int context = 0;
    std::string kv;
};

// Adds --context and --kv to the options of add_device_options().
void add_session_options(CLI::App& app, SessionChoice& options);

Result<std::unique_ptr<engine::Session>> open_session(const models::Model& model, device::Backend& backend,
                                                      const SessionChoice& options);

}  // namespace tandem::cli
