// Estimate: how long a Design takes on the array, from what it makes the array do. Nothing here was measured on one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "npu/activity.h"
#include "npu/array.h"
#include "npu/design.h"

namespace tandem::npu {

// What the objects of a FIFO hold, where a kernel reads its sizes from them.
struct Sample {
    std::string fifo;
    std::vector<std::byte> object;
};

// Of a core's calls of a kernel, those that do what the samples say; the others find nothing to do and return.
struct Share {
    Tile tile;
    std::string kernel;
    uint64_t calls = 0;
};

// What a run of the Design will do, without its data: each kernel is called once for each list of sizes it is used
// with, on zeros or on samples. It is what the emulator counts, unless a kernel's work depends on its data.
Result<Activity> foresee(const Design& design, std::span<const Sample> samples = {},
                         std::span<const Share> shares = {});

enum class Bound : uint8_t { compute, local_loads, streams, ddr };
std::string_view name(Bound bound);

struct EstimateOptions {
    double clock_mhz = 0;  // 0: the array's
    bool batched = true;   // one of several runs that are started together
};

// The parts run side by side, each is what it would take alone.
struct Estimate {
    double compute_s = 0;      // the busiest core
    double local_loads_s = 0;  // the core that loads most
    double streams_s = 0;      // the busiest stream
    double ddr_s = 0;          // the busiest channel of a shim, or all together
    double ends_s = 0;         // until the first objects are there, and the last on their way out
    double dispatch_s = 0;
    uint64_t macs = 0;
    double utilization = 0;  // share of the products that all cores could do in the time

    Bound bound() const;
    double seconds() const;  // the longest of the first four, and the ends and the dispatch
    double tops() const;     // 2 * macs
};

Estimate estimate(const Activity& activity, const Array& array, const EstimateOptions& options = {});

}  // namespace tandem::npu
