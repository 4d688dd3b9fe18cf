// What the product of the array is told with its data, so that one program of a core serves every product.
#pragma once

#include <stdint.h>  // NOLINT(modernize-deprecated-headers): what the compiler of the array has

namespace tandem::npu {

// A core multiplies blocks of these sizes: known when the kernel is compiled, so that its loops overlap their rounds.
// With two objects of x and of w, two results and the stack they leave the linker 1 KB of a tile's 64 KB, and lie such
// that x and w are in different banks (npu/memory_map.h).
inline constexpr int32_t kGemmRows = 64;     // of x
inline constexpr int32_t kGemmInner = 112;   // columns of an object of x and of w
inline constexpr int32_t kGemmColumns = 64;  // rows of w, columns of the result

// In front of the scales in the first object of a block of x, and of w where it says nothing.
struct GemmHeader {
    int32_t objects = 0;      // of numbers that follow this one
    int32_t rows = 0;         // of the block that are there: a multiple of 8
    int32_t unused[14] = {};  // to 64 bytes
};

// What a core remembers of a block from its first object to its last.
struct GemmBlock {
    GemmHeader header;
    float row_scales[kGemmRows];
    float column_scales[kGemmColumns];
    float bias[kGemmColumns];
};

}  // namespace tandem::npu
