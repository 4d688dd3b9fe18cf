// How tandem_open() opens a model, from texts "name=value".
#pragma once

#include <string_view>

#include "base/result.h"
#include "engine/engine.h"
#include "user/devices.h"

namespace tandem::lib {

struct OpenOptions {
    user::DeviceOptions device;
    engine::EngineOptions engine = {.sequences = 1};
};

// Null: none; else texts with a null behind the last.
Result<OpenOptions> read_options(const char* const* texts);

}  // namespace tandem::lib
