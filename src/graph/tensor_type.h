// The type of a value in a Program: element type and shape, whose row count may be known only at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace tandem::graph {

// A fixed extent, or one of the two that each step brings: its token rows and the rows whose logits are wanted.
struct Dim {
    enum class Kind : uint8_t { fixed, tokens, outputs };

    Kind kind = Kind::fixed;
    int64_t count = 0;  // of a fixed extent

    static Dim tokens() { return {.kind = Kind::tokens}; }
    static Dim outputs() { return {.kind = Kind::outputs}; }
    static Dim of(int64_t count) { return {.kind = Kind::fixed, .count = count}; }

    bool operator==(const Dim&) const = default;
};

// What the symbolic extents stand for: the most a compiled Program must hold, or what a step has.
struct Extents {
    int64_t tokens = 0;
    int64_t outputs = 0;
};

int64_t extent(Dim dim, const Extents& extents);

// Outermost first, so {rows, cols}; one dimension is a row of numbers.
using Shape = std::vector<Dim>;

struct TensorType {
    DType dtype = DType::f32;
    Shape shape;

    int64_t cols() const { return shape.back().count; }
    int64_t rows(const Extents& extents) const;
    size_t size_bytes(const Extents& extents) const;

    bool operator==(const TensorType&) const = default;
};

TensorType vector_type(DType dtype, int64_t cols);
TensorType matrix_type(DType dtype, Dim rows, int64_t cols);

// "f32[tokens, 256]"
std::string to_string(const TensorType& type);

}  // namespace tandem::graph
