// The element types of tensors: plain numbers and the quantized blocks of GGUF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

enum class DType : uint8_t {
#define TANDEM_DTYPE(name, ...) name,
#include "base/dtypes.inc"
#undef TANDEM_DTYPE
};

inline constexpr DType kAllDTypes[] = {
#define TANDEM_DTYPE(name, ...) DType::name,
#include "base/dtypes.inc"
#undef TANDEM_DTYPE
};

// Bytes that a GPU keeps of a type: for each 32 elements, and of deltas for each 256.
struct PlaneSizes {
    int quants, scales, high, deltas;
};

// A row is stored as blocks of `block` elements taking `block_bytes` each; plain types have block 1.
struct DTypeInfo {
    std::string_view name;
    uint32_t gguf;  // GGUF's number for it
    int file_type;  // of general.file_type, for files that are mostly of it; -1: none
    int block;
    int block_bytes;
    DType spare;  // for rows that are no multiple of the block
    PlaneSizes planes;

    double bits_per_element() const { return 8.0 * block_bytes / block; }
};

const DTypeInfo& info(DType dtype);
inline std::string_view name(DType dtype) {
    return info(dtype).name;
}
inline bool is_quantized(DType dtype) {
    return info(dtype).block > 1;
}

// "q4_0", "Q4_0" -> DType::q4_0; nothing for an unknown name.
std::optional<DType> parse_dtype(std::string_view name);

// Bytes of a row of `cols` elements; `cols` must be a multiple of the block.
inline size_t row_bytes(DType dtype, int64_t cols) {
    return static_cast<size_t>(cols / info(dtype).block) * static_cast<size_t>(info(dtype).block_bytes);
}

}  // namespace tandem
