// Machines that are not at hand: what is known of them, number by number, and the Speeds that follow from it.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "plan/speeds.h"

namespace tandem::plan {

// Where a number comes from.
enum class Origin : uint8_t { measured, published, reckoned };  // by Tandem on such a machine; by others; neither
std::string_view name(Origin origin);

struct Figure {
    double value = 0;
    Origin origin = Origin::reckoned;
    std::string_view source;
};

struct KnownMachine {
    std::string_view name;   // "780m"
    std::string_view title;  // "AMD Ryzen 7040, 8040: Radeon 780M, DDR5-5600"
    std::string_view npu;    // its array; empty: none
    Figure memory_gb;        // that models can have, in 10^9 bytes
    Figure read_gb_per_s;
    Figure read_share;     // of that, in products of one row
    Figure matrix_tflops;  // f16 with f32 sums
    Figure matrix_share;   // of that, in products of many rows
    Figure dispatch_us;    // of a part that waits for the one before
    Figure growth_us;      // that it grows by with each doubling of the rows
    Figure attention_us;   // of attention, beside that
};

std::span<const KnownMachine> known_machines();
// Fails with the names that there are.
Result<const KnownMachine*> find_machine(std::string_view name);

Speeds speeds_of(const KnownMachine& machine);

}  // namespace tandem::plan
