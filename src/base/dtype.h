// The element types of tensors: plain numbers and the quantized blocks of GGUF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

enum class DType : uint8_t { f32, f16, bf16, i32, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k };

inline constexpr DType kAllDTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::i32,  DType::q8_0, DType::q4_0,
                                       DType::q4_1, DType::q5_0, DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};

// A row is stored as blocks of `block` elements taking `block_bytes` each; plain types have block 1.
struct DTypeInfo {
    std::string_view name;
    int block;
    int block_bytes;

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
