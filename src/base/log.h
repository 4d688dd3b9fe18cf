// Logs go to stderr; stdout belongs to the user's data. log::info("loaded {} tensors", n).
#pragma once

#include <spdlog/spdlog.h>

namespace tandem::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

// Sends the default logger to stderr in the house format; `level` is spdlog's (trace ... off).
void init(spdlog::level::level_enum level);

}  // namespace tandem::log
