// A Runtime over the emulator: computes what the array would compute, and says how long it is estimated to take.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "npu/runtime.h"

namespace tandem::npu {

struct EmulatorOptions {
    std::string array = "npu1";
    double clock_mhz = 0;      // 0: the array's
    int64_t fails_after = -1;  // runs; from then on every run fails as if the device had gone. -1: never
};

Result<std::unique_ptr<Runtime>> make_emulator_runtime(EmulatorOptions options = {});

}  // namespace tandem::npu
