// tandem npu selftest: what the owner of an NPU runs first. Every step says what it saw or what is missing, and the
// whole is one report to paste.
#pragma once

#include <optional>

#include "base/result.h"

namespace tandem::cli {

struct SelftestOptions {
    bool emulator = false;
    std::optional<double> minutes = {};  // of load; none: ten on a device, and no load for the emulator
    bool json = false;
};

// 0 when every step was done and found right.
Result<int> npu_selftest(const SelftestOptions& options);

}  // namespace tandem::cli
