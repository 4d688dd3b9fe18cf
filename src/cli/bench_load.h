// `tandem bench --load`: how fast a model becomes ready, as a share of the slower of its disk and its device.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "user/devices.h"

namespace tandem::cli {

struct BenchLoadOptions {
    std::string model;
    int repetitions = 0;  // 0: kLoadRepetitions
    std::optional<DType> kv_dtype;
    user::DeviceOptions device;
    bool json = false;
};

Result<int> bench_load(const BenchLoadOptions& options);

}  // namespace tandem::cli
