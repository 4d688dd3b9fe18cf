#include "plan/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace tandem::plan {

namespace {

constexpr Origin kMeasured = Origin::measured;
constexpr Origin kPublished = Origin::published;
constexpr Origin kReckoned = Origin::reckoned;

constexpr const char* kAsH200 = "as measured on an H200 (docs/experiments.md)";
constexpr const char* kTuned = "tuned 4-bit kernels of others reach 69 to 82 % there; ours were compiled, never run";
constexpr const char* kNoTime = "no time was measured on this GPU";

constexpr KnownMachine kMachines[] = {
    {.name = "780m",
     .title = "AMD Ryzen 7040 and 8040 (Phoenix, Hawk Point): Radeon 780M, DDR5-5600, 32 GB",
     .npu = "npu1",
     .memory_gb = {28, kReckoned, "32 GB less 4 for the system, with ttm.pages_limit raised: Linux lends the GPU half"},
     .read_gb_per_s = {86.7, kPublished, "read rate measured by others on a 780M with DDR5-5600 (89.6 by the bus)"},
     .read_share = {0.92, kReckoned, "large single-row products of others reach 91 to 100 %, small ones 29 to 74 %"},
     .matrix_tflops = {14.8, kPublished, "f16 matrix products with f32 sums measured by others (16.6 by the clock)"},
     .matrix_share = {11 / 14.8, kReckoned, kTuned},
     .dispatch_us = {4, kReckoned, kNoTime},
     .growth_us = {0.5, kReckoned, kAsH200},
     .attention_us = {10, kReckoned, kNoTime}},
    {.name = "890m",
     .title = "AMD Ryzen AI 300 (Strix Point): Radeon 890M, LPDDR5X-7500, 32 GB",
     .npu = "npu2",
     .memory_gb = {28, kReckoned, "32 GB less 4 for the system, with ttm.pages_limit raised"},
     .read_gb_per_s = {99, kReckoned, "120 GB/s by the bus, of which Strix Halo reads 83 %"},
     .read_share = {0.92, kReckoned, "as the 780M"},
     .matrix_tflops = {21.1, kReckoned, "16 units of 512 a clock at 2.9 GHz, 89 % of it as the 780M reaches"},
     .matrix_share = {0.74, kReckoned, kTuned},
     .dispatch_us = {4, kReckoned, kNoTime},
     .growth_us = {0.5, kReckoned, kAsH200},
     .attention_us = {10, kReckoned, kNoTime}},
    {.name = "8060s",
     .title = "AMD Ryzen AI Max+ 395 (Strix Halo): Radeon 8060S, LPDDR5X-8000, 128 GB",
     .npu = "npu2",
     .memory_gb = {118, kReckoned, "110 GiB with ttm.pages_limit raised, as owners set it"},
     .read_gb_per_s = {212, kPublished, "rocm_bandwidth_test, llm-tracker.info/_TOORG/Strix-Halo (256 by the bus)"},
     .read_share = {0.9, kReckoned, "as the 780M, with more units to fill"},
     .matrix_tflops = {36.9, kPublished, "hipBLASLt, llm-tracker.info/_TOORG/Strix-Halo (59.4 by the clock)"},
     .matrix_share = {0.74, kReckoned, kTuned},
     .dispatch_us = {4, kReckoned, kNoTime},
     .growth_us = {0.5, kReckoned, kAsH200},
     .attention_us = {10, kReckoned, kNoTime}},
    {.name = "7900xtx",
     .title = "AMD Radeon RX 7900 XTX, 24 GB",
     .npu = "",
     .memory_gb = {24, kPublished, "AMD's data sheet"},
     .read_gb_per_s = {960, kPublished, "AMD's data sheet; what kernels read was not found"},
     .read_share = {0.8, kReckoned, kAsH200},
     .matrix_tflops = {122.8, kPublished, "AMD's data sheet"},
     .matrix_share = {0.5, kReckoned, "halfway between what others reach and the data sheet"},
     .dispatch_us = {4, kReckoned, kNoTime},
     .growth_us = {0.5, kReckoned, kAsH200},
     .attention_us = {10, kReckoned, kNoTime}},
    {.name = "9070xt",
     .title = "AMD Radeon RX 9070 XT, 16 GB",
     .npu = "",
     .memory_gb = {16, kPublished, "AMD's data sheet"},
     .read_gb_per_s = {640, kPublished, "AMD's data sheet; what kernels read was not found"},
     .read_share = {0.8, kReckoned, kAsH200},
     .matrix_tflops = {194.6, kReckoned, "64 units of 1024 a clock at 2.97 GHz"},
     .matrix_share = {0.5, kReckoned, "as the RX 7900 XTX"},
     .dispatch_us = {4, kReckoned, kNoTime},
     .growth_us = {0.5, kReckoned, kAsH200},
     .attention_us = {10, kReckoned, kNoTime}},
    {.name = "4090",
     .title = "NVIDIA GeForce RTX 4090, 24 GB",
     .npu = "",
     .memory_gb = {24, kPublished, "NVIDIA's data sheet"},
     .read_gb_per_s = {1008, kPublished, "NVIDIA's data sheet; what kernels read was not found"},
     .read_share = {0.8, kReckoned, kAsH200},
     .matrix_tflops = {165.2, kPublished, "NVIDIA's data sheet, f16 with f32 sums, dense"},
     .matrix_share = {0.61, kReckoned, kAsH200},
     .dispatch_us = {2.8, kReckoned, kAsH200},
     .growth_us = {0.5, kReckoned, kAsH200},
     .attention_us = {6.6, kReckoned, kAsH200}},
    {.name = "h200",
     .title = "NVIDIA H200, 141 GB",
     .npu = "",
     .memory_gb = {141, kPublished, "NVIDIA's data sheet"},
     .read_gb_per_s = {4550, kMeasured, "docs/experiments.md"},
     .read_share = {0.8, kMeasured, "slope of a product's time over its bytes, docs/experiments.md"},
     .matrix_tflops = {628, kMeasured, "docs/experiments.md"},
     .matrix_share = {0.61, kMeasured, "gate and up of 512 and 2048 rows, docs/experiments.md"},
     .dispatch_us = {2.8, kReckoned, "about 2 us were measured; fitted to the decode of 4B and 27B together"},
     .growth_us = {0.5, kReckoned, "fitted to 8 and 32 sequences and prompts of 4B and 27B together"},
     .attention_us = {6.6, kReckoned,
                      "what is left of 12.3 us beside the dispatch and the clock, docs/experiments.md"}},
};

}  // namespace

std::string_view name(Origin origin) {
    switch (origin) {
        case Origin::measured:
            return "measured";
        case Origin::published:
            return "published";
        case Origin::reckoned:
            return "reckoned";
    }
    return "";
}

std::span<const KnownMachine> known_machines() {
    return kMachines;
}

Result<const KnownMachine*> find_machine(std::string_view name) {
    const auto* const found = std::find_if(std::begin(kMachines), std::end(kMachines),
                                           [&](const KnownMachine& machine) { return machine.name == name; });
    if (found != std::end(kMachines)) return found;
    std::string names;
    for (const KnownMachine& machine : kMachines) names += fmt::format("{}, ", machine.name);
    return fail("--machine {}: there is no such machine; there are {}and 'here', or `--machine list`", name, names);
}

Speeds speeds_of(const KnownMachine& machine) {
    return {.rates = {.read_bytes_per_s = machine.read_gb_per_s.value * 1e9,
                      .matrix_flops_per_s = machine.matrix_tflops.value * 1e12},
            .read_share = machine.read_share.value,
            .matrix_share = machine.matrix_share.value,
            .dispatch_s = machine.dispatch_us.value * 1e-6,
            .dispatch_growth_s = machine.growth_us.value * 1e-6,
            .attention_s = machine.attention_us.value * 1e-6,
            .attention_bytes_per_s = machine.read_gb_per_s.value * 1e9 * machine.read_share.value,
            // a quarter of what matrices reach, as on an H200: 189 of 628 TFLOP/s at best, less for short prompts
            .attention_flops_per_s = machine.matrix_tflops.value * 1e12 / 4};
}

}  // namespace tandem::plan
