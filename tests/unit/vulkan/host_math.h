// What kernels are compared with: the same computations on the host, in double precision.
#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "graph/ops.h"
#include "vulkan/weights.h"

namespace tandem::vulkan {

struct HostMatrix {
    DType dtype = DType::f32;
    uint32_t rows = 0;
    uint32_t cols = 0;
    std::vector<std::byte> blocks;  // as in a file
    std::vector<float> values;      // [rows][cols], decoded
};

// The types that matrices come in on the device, with f16 and bf16 or without.
std::vector<DType> block_types();
std::vector<DType> matrix_types();

std::vector<float> random_floats(std::mt19937& rng, size_t count, float magnitude = 1.0F);
HostMatrix random_matrix(std::mt19937& rng, DType dtype, uint32_t rows, uint32_t cols, float magnitude = 1.0F);
// The matrix repacked into planes on the device of gpu().
DeviceWeight upload_planes(const HostMatrix& matrix);

// A row as q8 activations (vulkan/activations.h), and the numbers it then stands for.
struct Q8Row {
    std::vector<std::byte> bytes;
    std::vector<float> values;
};
Q8Row quantize_row(std::span<const float> row);
std::vector<float> dequantize_row(std::span<const std::byte> bytes, size_t cols);

// x [rows][w.cols] times w transposed: [rows][w.rows].
std::vector<double> host_product(const HostMatrix& w, std::span<const float> x, size_t rows);
// The largest sum of absolute products of a row of w and of x: rounding errors are a share of it.
double product_magnitude(const HostMatrix& w, std::span<const float> x);

double host_activate(op::Activation activation, double x);

void expect_near(std::span<const float> actual, std::span<const double> expected, double tolerance);

}  // namespace tandem::vulkan
