#include "npu/runtime.h"

#include <algorithm>

namespace tandem::npu {

Result<RunReport> Runtime::run_all(std::span<const Launch> launches, std::chrono::milliseconds timeout) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + timeout;
    RunReport sum;
    for (const Launch& launch : launches) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
        const RunReport report =
            TRY(launch.design->run(launch.arguments, std::max(left, std::chrono::milliseconds{1})));
        sum.seconds += report.seconds;
        sum.copied_bytes += report.copied_bytes;
        sum.flushed_bytes += report.flushed_bytes;
        sum.estimated = sum.estimated || report.estimated;
    }
    return sum;
}

}  // namespace tandem::npu
