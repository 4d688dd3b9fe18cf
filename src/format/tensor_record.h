// TensorRecord: a tensor as it lies in a model file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace tandem::format {

// The reader has checked that `data` has exactly the bytes that `dtype` and `shape` ask for, and that rows are whole
// blocks. `data` is a view into the file and may be unaligned: read it with decode_row() or memcpy.
struct TensorRecord {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> shape;  // row-major, outermost first: the reverse of GGUF's order; {} is a scalar
    std::span<const std::byte> data;

    // Elements of a row, the innermost dimension.
    int64_t cols() const { return shape.empty() ? 1 : shape.back(); }

    int64_t elements() const {
        int64_t count = 1;
        for (int64_t dim : shape) count *= dim;
        return count;
    }
};

// A tensor of a type that Tandem has no use for: what the headers say of it.
struct ForeignTensor {
    std::string name;
    std::string type;                 // "q8_k", "f8_e4m3", or "type 77" where it has no name
    std::vector<int64_t> shape;       // as in TensorRecord, and its elements can be counted
    std::span<const std::byte> data;  // in GGUF all up to the next tensor

    int64_t elements() const;
};

// Says that a model cannot be used because of the tensor.
Error cannot_read(const ForeignTensor& tensor);

// An error when 63 bits cannot count the elements.
Result<int64_t> tensor_elements(std::string_view name, std::span<const int64_t> shape);

// The bytes of a tensor; an error when a row is no whole number of blocks or the size does not fit 63 bits.
Result<uint64_t> tensor_bytes(std::string_view name, DType dtype, std::span<const int64_t> shape);

}  // namespace tandem::format
