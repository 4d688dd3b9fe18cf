// Product: a matrix product as a stage, by the kernel that the number of rows and the type of the weight call for.
#pragma once

#include <optional>

#include "graph/ops.h"
#include "vulkan/stage.h"

namespace tandem::vulkan {

// How a product with weights of that type reads so many rows of so many inputs.
ActivationFormat activation_format(const Tuning& tuning, DType weight, uint32_t rows, uint32_t cols);

struct Product {
    StageWeight matrix;  // several matrices that read the same input are one
    WeightIndex weight = kNone;
    WeightIndex bias = kNone;  // f32, one for each row of the matrix
    ValueIndex x = kNone;      // activations
    ValueIndex y = kNone;      // f32 [rows][outputs]; with `partial` [splits][rows][outputs]; with `glu` activations
    bool partial = false;      // the reader of y adds up the splits
    std::optional<op::Activation> glu = {};  // the matrix holds the gate's rows and then the up projection's
    ValueIndex scratch = kNone;              // with glu: f32 [rows][outputs]

    uint32_t outputs() const { return glu ? matrix.rows / 2 : matrix.rows; }
};

// The splits of a partial result, the same for every stage that touches it.
uint32_t product_splits(const Product& product, const Tuning& tuning, uint32_t rows);
// That the partial results take.
uint64_t partial_bytes(const Product& product, const Tuning& tuning, uint32_t rows);

Status record_product(Recorder& rec, const Product& product, uint32_t rows, const StageArgs& args);

}  // namespace tandem::vulkan
