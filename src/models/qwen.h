// What Qwen's families with and without experts share.
#pragma once

#include <vector>

#include "models/settings.h"

namespace tandem::models {

// Which layers attend within a window; 0: to everything.
std::vector<int> read_qwen_windows(Settings& settings, int layers);

}  // namespace tandem::models
