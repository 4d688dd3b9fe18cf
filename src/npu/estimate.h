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

// What the objects of a FIFO or a buffer of the cores hold, where a kernel reads its sizes from them.
struct Sample {
    std::string name;
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

// How kindly the array is taken, where nobody has measured it: what the compiler makes of the kernels, what is left of
// the memory beside a GPU and its arbitration, and what it takes to change from one design to another.
struct Outlook {
    std::string_view name;
    double compute = 1;       // times the modelled cycles
    double ddr = 1;           // share of the array's rate
    double change_s = 79e-6;  // of design; published for Strix: 79 to 192 us
};
inline constexpr Outlook kLow{.name = "low", .compute = 2.0, .ddr = 0.6, .change_s = 192e-6};
inline constexpr Outlook kMiddle{.name = "middle", .compute = 1.15, .ddr = 0.8, .change_s = 135e-6};
inline constexpr Outlook kHigh{.name = "high", .compute = 1.0, .ddr = 1.0, .change_s = 79e-6};

struct EstimateOptions {
    double clock_mhz = 0;  // 0: the array's
    bool batched = true;   // one of several runs that are started together
    Outlook outlook = kHigh;
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
