#include "graph/tensor_type.h"

#include <fmt/format.h>

#include "base/check.h"

namespace tandem::graph {

int64_t extent(Dim dim, const Extents& extents) {
    switch (dim.kind) {
        case Dim::Kind::fixed:
            return dim.count;
        case Dim::Kind::tokens:
            return extents.tokens;
        case Dim::Kind::outputs:
            return extents.outputs;
    }
    CHECK(false, "unknown kind of extent");
}

int64_t TensorType::rows(const Extents& extents) const {
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= extent(shape[i], extents);
    return rows;
}

size_t TensorType::size_bytes(const Extents& extents) const {
    // A row of token ids has no fixed last dimension, but then its type is plain.
    return static_cast<size_t>(rows(extents)) * row_bytes(dtype, extent(shape.back(), extents));
}

TensorType vector_type(DType dtype, int64_t cols) {
    return {dtype, {Dim::of(cols)}};
}
TensorType matrix_type(DType dtype, Dim rows, int64_t cols) {
    return {dtype, {rows, Dim::of(cols)}};
}

std::string to_string(const TensorType& type) {
    std::string text = fmt::format("{}[", name(type.dtype));
    for (size_t i = 0; i < type.shape.size(); ++i) {
        if (i > 0) text += ", ";
        switch (type.shape[i].kind) {
            case Dim::Kind::fixed:
                text += std::to_string(type.shape[i].count);
                break;
            case Dim::Kind::tokens:
                text += "tokens";
                break;
            case Dim::Kind::outputs:
                text += "outputs";
                break;
        }
    }
    return text + "]";
}

}  // namespace tandem::graph
