// The products of every weight type, compiled for ARM: against sums in double of what the types' own decoders say. A
// program without a library, so that a cross compiler is all it takes; it runs under qemu-user.
#include "cpu/simd/linear.h"

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "format/quant.h"

namespace tandem::cpu::simd {

namespace {

constexpr int64_t kOutputs = 21;  // streams of four and one more, and more than a panel
constexpr int64_t kMostRows = 9;

uint64_t next_random() {
    static uint64_t state = 1;
    state = state * 6364136223846793005U + 1442695040888963407U;
    return state >> 33;
}

float uniform() {
    return static_cast<float>(next_random() % 4001) / 2000.0F - 1.0F;
}

// Numbers that 8 bits hold exactly: whole multiples of a power of two with a 127 in every 16.
float whole_number(size_t i) {
    const int whole = i % 16 == 7 ? 127 : static_cast<int>(next_random() % 255) - 127;
    return static_cast<float>(whole) * 0x1p-6F;
}

// An f32 sum of n products: see Tolerance::reduction of tests/ops.
double bound(int64_t n, double magnitudes) {
    return (8 * std::sqrt(static_cast<double>(n) / 3) + 8) * 0x1p-24 * magnitudes;
}

std::byte* aligned(std::vector<std::byte>& memory) {
    return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
}

struct Matrices {
    std::vector<std::byte> weights;
    std::vector<float> decoded;
    std::vector<float> x;
};

Matrices random_matrices(DType dtype, int64_t cols) {
    Matrices made{.weights = std::vector<std::byte>(static_cast<size_t>(kOutputs) * row_bytes(dtype, cols)),
                  .decoded = std::vector<float>(static_cast<size_t>(kOutputs * cols)),
                  .x = std::vector<float>(static_cast<size_t>(kMostRows * cols))};
    for (float& value : made.decoded) value = uniform();
    for (int64_t o = 0; o < kOutputs; ++o) {
        std::byte* row = made.weights.data() + static_cast<size_t>(o) * row_bytes(dtype, cols);
        format::encode_row(dtype, made.decoded.data() + o * cols, row, cols);
        format::decode_row(dtype, row, made.decoded.data() + o * cols, cols);
    }
    for (size_t i = 0; i < made.x.size(); ++i) made.x[i] = whole_number(i);
    return made;
}

// Whether all outputs of `rows` rows are as they should be.
bool check(DType dtype, int64_t cols, int64_t rows, const Matrices& in) {
    const LinearKernels* const int8 = find_int8_kernels(dtype);
    const LinearKernels& kernels = int8 != nullptr ? *int8 : *find_f32_kernels(dtype);
    std::vector<std::byte> rounded(QuantizedRows::size_bytes(rows, cols) + 64);
    std::vector<std::byte> tile(kernels.tile_bytes + 64);
    std::vector<float> out(static_cast<size_t>(rows * kOutputs));
    const Product product{.weight = {.dtype = dtype, .rows = kOutputs, .cols = cols, .data = in.weights.data()},
                          .x = {.rows = rows, .cols = cols, .data = reinterpret_cast<const std::byte*>(in.x.data())},
                          .rounded = {aligned(rounded), cols},
                          .out = {.rows = rows, .cols = kOutputs, .data = reinterpret_cast<std::byte*>(out.data())}};
    const bool many = rows > kFewRows || kernels.multiply_few == nullptr;
    if (kernels.quantize != nullptr) kernels.quantize(product.x, many, product.rounded, {0, rows});
    if (many) {
        kernels.multiply_many(product, aligned(tile), {0, kOutputs});
    } else {
        kernels.multiply_few(product, {0, kOutputs});
    }
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t o = 0; o < kOutputs; ++o) {
            double sum = 0;
            double magnitudes = 0;
            for (int64_t i = 0; i < cols; ++i) {
                const double term =
                    double{in.decoded[static_cast<size_t>(o * cols + i)]} * in.x[static_cast<size_t>(r * cols + i)];
                sum += term;
                magnitudes += std::abs(term);
            }
            const double is = out[static_cast<size_t>(r * kOutputs + o)];
            if (std::abs(is - sum) <= bound(cols, magnitudes)) continue;
            std::printf("%s, %ld columns, row %ld of %ld, output %ld: %g, but should be %g\n",
                        std::string(name(dtype)).c_str(), static_cast<long>(cols), static_cast<long>(r),
                        static_cast<long>(rows), static_cast<long>(o), is, sum);
            return false;
        }
    }
    return true;
}

int check_all() {
    int checked = 0;
    int wrong = 0;
    int with_dot_product = 0;
    for (DType dtype : kAllDTypes) {
        if (!format::has_encoder(dtype)) continue;
        if (find_int8_kernels(dtype) != nullptr) ++with_dot_product;
        const int64_t block = info(dtype).block;
        for (int64_t cols : {block == 1 ? 31 : block, block == 1 ? 300 : 5 * block}) {
            const Matrices matrices = random_matrices(dtype, cols);
            for (int64_t rows : {int64_t{1}, int64_t{2}, int64_t{4}, kMostRows}) {
                ++checked;
                if (!check(dtype, cols, rows, matrices)) ++wrong;
            }
        }
    }
    std::printf("%d products, %d wrong; %d types by dot products of bytes\n", checked, wrong, with_dot_product);
    return wrong == 0 && with_dot_product >= 13 ? 0 : 1;
}

}  // namespace

}  // namespace tandem::cpu::simd

int main() {
    return tandem::cpu::simd::check_all();
}
