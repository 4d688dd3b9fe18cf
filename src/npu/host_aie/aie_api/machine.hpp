// The state of a core that the API shows or that we want to know: rounding and saturation modes, and what it did.
// Our own implementation of the public aie_api for the host, as all files of this folder.
#pragma once

#include <stdint.h>  // NOLINT(modernize-deprecated-headers): what the compiler of the array has

// NOLINTBEGIN(readability-identifier-naming): the names are those of the public API
namespace aie {

enum class rounding_mode : uint8_t {
    floor,            // towards minus infinity: how a core starts
    ceil,             // towards plus infinity
    symmetric_floor,  // towards zero
    symmetric_ceil,   // away from zero
    negative_inf,     // to the nearest, halves towards minus infinity
    positive_inf,     // to the nearest, halves towards plus infinity
    symmetric_zero,   // to the nearest, halves towards zero
    symmetric_inf,    // to the nearest, halves away from zero
    conv_even,        // to the nearest, halves to even
    conv_odd,         // to the nearest, halves to odd
};

enum class saturation_mode : uint8_t {
    none,  // what does not fit wraps: how a core starts
    truncate = none,
    saturate,   // to the range of the type
    symmetric,  // to the range of the type without its lowest value
};

namespace host {

// What a core was asked to do. One vector operation works on a register of 64 bytes.
struct Work {
    uint64_t macs = 0;           // multiplications of matrix blocks
    uint64_t matrix_cycles = 0;  // what they take at the full rate of their types
    uint64_t vector_ops = 0;     // everything else of the vector unit
    uint64_t scalar_ops = 0;
    uint64_t load_bytes = 0;
    uint64_t store_bytes = 0;
};

struct Core {
    Work work;
    rounding_mode rounding = rounding_mode::floor;
    saturation_mode saturation = saturation_mode::none;
};

// Every thread of the host is a core of its own.
inline constinit thread_local Core core;

inline void count_vector(unsigned size_bytes, unsigned times = 1) {
    core.work.vector_ops += times * ((size_bytes + 63) / 64);
}

}  // namespace host

inline void set_rounding(rounding_mode mode) {
    host::core.rounding = mode;
}
inline rounding_mode get_rounding() {
    return host::core.rounding;
}
inline void set_saturation(saturation_mode mode) {
    host::core.saturation = mode;
}

}  // namespace aie
// NOLINTEND(readability-identifier-naming)
