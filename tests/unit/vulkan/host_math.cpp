#include "unit/vulkan/host_math.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/float16.h"
#include "format/quant.h"
#include "unit/vulkan/gpu.h"

namespace tandem::vulkan {

std::vector<float> random_floats(std::mt19937& rng, size_t count, float magnitude) {
    std::uniform_real_distribution<float> uniform(-magnitude, magnitude);
    std::vector<float> values(count);
    std::generate(values.begin(), values.end(), [&] { return uniform(rng); });
    return values;
}

std::vector<DType> block_types() {
    std::vector<DType> types;
    std::copy_if(std::begin(kAllDTypes), std::end(kAllDTypes), std::back_inserter(types),
                 [](DType dtype) { return is_quantized(dtype) && format::has_encoder(dtype); });
    return types;
}

std::vector<DType> matrix_types() {
    std::vector<DType> types = block_types();
    types.insert(types.end(), {DType::f16, DType::bf16});
    return types;
}

HostMatrix random_matrix(std::mt19937& rng, DType dtype, uint32_t rows, uint32_t cols, float magnitude) {
    HostMatrix matrix{.dtype = dtype, .rows = rows, .cols = cols, .blocks = {}, .values = {}};
    const std::vector<float> values = random_floats(rng, size_t{rows} * cols, magnitude);
    matrix.blocks.resize(row_bytes(dtype, static_cast<int64_t>(values.size())));
    format::encode_row(dtype, values.data(), matrix.blocks.data(), static_cast<int64_t>(values.size()));
    matrix.values.resize(values.size());
    format::decode_row(dtype, matrix.blocks.data(), matrix.values.data(), static_cast<int64_t>(values.size()));
    return matrix;
}

DeviceWeight upload_planes(const HostMatrix& matrix) {
    const auto sizes = plane_bytes(matrix.dtype, int64_t{matrix.rows} * matrix.cols);
    DeviceWeight weight{.planes = {}, .tiled = is_tiled(matrix.dtype, matrix.rows, matrix.cols)};
    PlaneTargets targets;
    for (size_t plane = 0; plane < Planes::count; ++plane) {
        if (sizes[plane] == 0) continue;
        const Buffer buffer = gpu().buffer(sizes[plane]);
        weight.planes[plane] = buffer.address;
        targets.begin[plane] = buffer.mapped;
    }
    repack(matrix.dtype, matrix.blocks, targets, weight.tiled ? matrix.cols : 0);
    const std::vector<uint32_t> book = code_book(matrix.dtype);
    if (!book.empty()) weight.planes[Planes::book] = gpu().upload(book).address;
    return weight;
}

Q8Row quantize_row(std::span<const float> row) {
    const size_t blocks = row.size() / 32;
    Q8Row made{.bytes = std::vector<std::byte>(blocks * 40), .values = std::vector<float>(row.size())};
    for (size_t b = 0; b < blocks; ++b) {
        float largest = 0;
        for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(row[b * 32 + i]));
        const float scale = largest / 127;
        int sums[2] = {0, 0};
        for (size_t i = 0; i < 32; ++i) {
            const int q = largest == 0 ? 0 : static_cast<int>(std::nearbyint(row[b * 32 + i] * (127 / largest)));
            sums[i / 16] += q;
            made.bytes[((i / 16) * blocks + b) * 16 + i % 16] = static_cast<std::byte>(q);
            made.values[b * 32 + i] = static_cast<float>(q) * scale;
        }
        std::byte* const at = made.bytes.data() + blocks * 32 + b * 8;
        const uint16_t halves[] = {f32_to_f16(static_cast<float>(sums[0])), f32_to_f16(static_cast<float>(sums[1]))};
        std::memcpy(at, &scale, 4);
        std::memcpy(at + 4, halves, 4);
    }
    return made;
}

std::vector<float> dequantize_row(std::span<const std::byte> bytes, size_t cols) {
    const size_t blocks = cols / 32;
    std::vector<float> values(cols);
    for (size_t i = 0; i < cols; ++i) {
        const size_t b = i / 32;
        float scale = 0;
        std::memcpy(&scale, bytes.data() + blocks * 32 + b * 8, 4);
        const auto q = static_cast<int8_t>(bytes[((i % 32 / 16) * blocks + b) * 16 + i % 16]);
        values[i] = static_cast<float>(q) * scale;
    }
    return values;
}

std::vector<double> host_product(const HostMatrix& w, std::span<const float> x, size_t rows) {
    std::vector<double> y(rows * w.rows);
    for (size_t r = 0; r < rows; ++r) {
        for (size_t o = 0; o < w.rows; ++o) {
            for (size_t i = 0; i < w.cols; ++i) {
                y[r * w.rows + o] += static_cast<double>(w.values[o * w.cols + i]) * x[r * w.cols + i];
            }
        }
    }
    return y;
}

double product_magnitude(const HostMatrix& w, std::span<const float> x) {
    HostMatrix magnitudes = w;
    std::vector<float> row(x.begin(), x.end());
    for (float& value : magnitudes.values) value = std::abs(value);
    for (float& value : row) value = std::abs(value);
    const std::vector<double> sums = host_product(magnitudes, row, row.size() / w.cols);
    return *std::max_element(sums.begin(), sums.end());
}

double host_activate(op::Activation activation, double x) {
    switch (activation) {
        case op::Activation::silu:
            return x / (1 + std::exp(-x));
        case op::Activation::gelu_tanh:
            return 0.5 * x * (1 + std::tanh(0.797884560802865 * (x + 0.044715 * x * x * x)));
        case op::Activation::gelu_erf:
            return 0.5 * x * (1 + std::erf(x * 0.707106781186548));
        case op::Activation::clamped:
            break;  // no function of the gate alone: tests/ops has it
    }
    return 0;
}

void expect_near(std::span<const float> actual, std::span<const double> expected, double tolerance) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}

}  // namespace tandem::vulkan
