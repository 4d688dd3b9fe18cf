#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "unit/npu/kernel_call.h"

namespace tandem::npu {
namespace {

using testing::HasSubstr;

struct Shape {
    int m, k, n;
};

TEST(MatmulI8, IsExactAndAddsToWhatIsThere) {
    std::mt19937 random(1);
    for (const auto& [m, k, n] : {Shape{8, 8, 16}, Shape{16, 24, 48}, Shape{64, 128, 64}, Shape{8, 512, 16}}) {
        TileBuffer<int8_t> a = random_bytes(random, m * k);
        TileBuffer<int8_t> b = random_bytes(random, k * n);
        TileBuffer<int32_t> c(m * n, 7);
        const Counts counts = call("matmul_i8", a, b, c, m, k, n);
        EXPECT_EQ(counts.macs, static_cast<uint64_t>(m) * k * n);
        for (int row = 0; row < m; ++row) {
            for (int col = 0; col < n; ++col) {
                int64_t sum = 7;
                for (int i = 0; i < k; ++i) sum += a[tiled(4, 8, k, row, i)] * b[tiled(8, 8, n, i, col)];
                ASSERT_EQ(c[tiled(4, 8, n, row, col)], sum) << row << ", " << col;
            }
        }
    }
}

TEST(MatmulI8, TheLargestProductsDoNotOverflow) {
    TileBuffer<int8_t> a(8 * 1024, -128);
    TileBuffer<int8_t> b(1024 * 16, -128);
    TileBuffer<int32_t> c(8 * 16);
    call("zero_i32", c, 8 * 16);
    call("matmul_i8", a, b, c, 8, 1024, 16);
    EXPECT_TRUE(std::ranges::all_of(c, [](int32_t sum) { return sum == 1024 * 128 * 128; }));
}

TEST(MatmulI8, TheModelOfTheCoreAllowsNoMoreThanItsPeak) {
    TileBuffer<int8_t> a(64 * 64);
    TileBuffer<int8_t> b(64 * 64);
    TileBuffer<int32_t> c(64 * 64);
    const Counts counts = call("matmul_i8", a, b, c, 64, 64, 64);
    EXPECT_EQ(counts.matrix_cycles, 64U * 64 * 64 / 256);
    EXPECT_GT(counts.cycles(), counts.matrix_cycles);
    EXPECT_EQ(counts.store_bytes, 4U * 64 * 64);
}

TEST(ZeroI32, Clears) {
    TileBuffer<int32_t> c(48, -1);
    call("zero_i32", c, 32);
    EXPECT_EQ(std::ranges::count(c, 0), 32);
    EXPECT_EQ(c[32], -1);
}

TEST(ScaleI32, ScalesRowsAndColumns) {
    std::mt19937 random(2);
    for (const auto& [m, k, n] : {Shape{4, 0, 8}, Shape{12, 0, 40}}) {
        TileBuffer<int32_t> c(m * n);
        for (int32_t& value : c) value = static_cast<int32_t>(random()) >> 7;
        TileBuffer<float> rows = random_floats(random, m, 1e-2F);
        TileBuffer<float> cols = random_floats(random, n, 1e-3F);
        TileBuffer<float> y(m * n);
        call("scale_i32_f32", c, rows, cols, y, m, n);
        for (int row = 0; row < m; ++row) {
            for (int col = 0; col < n; ++col) {
                const size_t at = tiled(4, 8, n, row, col);
                const double exact = static_cast<double>(c[at]) * rows[row] * cols[col];
                EXPECT_NEAR(y[at], exact, std::abs(exact) * std::ldexp(1.0, -20));  // two products of 2^-21
            }
        }
    }
}

TEST(RequantizeI32, RoundsHalvesToEvenAndSaturates) {
    TileBuffer<int32_t> c = {0, 8, -8, 7, 9, 24, -24, 23, 25, 40, 2000, 2047, 2048, -2048, -2064, -9999};
    c.resize(32);
    TileBuffer<int8_t> y(32);
    call("requantize_i32_i8", c, y, 32, 4);
    const std::vector<int8_t> expected = {0, 0, 0, 0, 1, 2, -2, 1, 2, 2, 125, 127, 127, -128, -128, -128};
    EXPECT_EQ(std::vector<int8_t>(y.begin(), y.begin() + 16), expected);
}

// The int8 of the nearest, and a scale that gives the float back: x within half a step.
void expect_quantized(const TileBuffer<float>& x, const TileBuffer<int8_t>& q, const TileBuffer<float>& scale,
                      int cols) {
    for (size_t row = 0; row < scale.size(); ++row) {
        double largest = 0;
        for (int i = 0; i < cols; ++i) largest = std::max(largest, std::abs(static_cast<double>(x[row * cols + i])));
        EXPECT_NEAR(scale[row], largest / 127, largest / 127 * 1e-6);
        for (int i = 0; i < cols; ++i) {
            const double exact = largest == 0 ? 0 : x[row * cols + i] / largest * 127;
            // The product is off by 127 * 2^-21 at the most, beside the half that rounding takes.
            EXPECT_NEAR(q[row * cols + i], exact, 0.5 + 127 * std::ldexp(1.0, -20));
        }
    }
}

TEST(QuantizeF32, TakesTheNearestOf127Steps) {
    std::mt19937 random(3);
    for (int cols : {16, 48, 256}) {
        TileBuffer<float> x = random_floats(random, 5 * cols, 3.0F);
        std::fill_n(x.begin(), cols, 0.0F);                                               // nothing but zeros
        for (int i = 0; i < cols; ++i) x[cols + i] *= 1e-30F;                             // tiny
        for (int i = 0; i < cols; ++i) x[2 * cols + i] = static_cast<float>(i) - 127.0F;  // many are exact
        TileBuffer<int8_t> q(5 * cols);
        TileBuffer<float> scale(5);
        call("quantize_f32_i8", x, q, scale, 5, cols);
        expect_quantized(x, q, scale, cols);
        EXPECT_EQ(scale[0], 0.0F);
    }
}

TEST(QuantizeF32, BlocksAreRowsOf32) {
    std::mt19937 random(4);
    TileBuffer<float> x = random_floats(random, 7 * 32);
    TileBuffer<int8_t> q(7 * 32);
    TileBuffer<float> scale(7);
    call("quantize_blocks_f32_i8", x, q, scale, 7);
    expect_quantized(x, q, scale, 32);
}

TEST(Kernels, AreFoundByName) {
    EXPECT_EQ(find_kernel("matmul_i9"), nullptr);
    const Kernel* kernel = find_kernel("matmul_i8");
    ASSERT_NE(kernel, nullptr);
    EXPECT_EQ(kernel->source, "matmul_i8.cc");
    EXPECT_EQ(kernel->mmul, "4x8x8 i8");
    EXPECT_EQ(kernel->parameters[0], (KernelParameter{.kind = ArgumentKind::input, .element = Element::i8}));
    EXPECT_EQ(kernel->parameters[2], (KernelParameter{.kind = ArgumentKind::output, .element = Element::i32}));
    EXPECT_EQ(kernel->parameters[3].kind, ArgumentKind::number);
}

std::string refusal(std::string_view name, const std::vector<KernelArgument>& arguments) {
    const Status allowed = check_call(*find_kernel(name), arguments);
    return allowed ? "" : allowed.error().message;
}

TEST(Kernels, RefuseWhatTheyCannotDo) {
    TileBuffer<int32_t> c(64);
    EXPECT_THAT(refusal("zero_i32", {argument(c)}), HasSubstr("1 arguments given, 2 needed"));
    EXPECT_THAT(refusal("zero_i32", {argument(c), argument(c)}), HasSubstr("argument 1 must be a number"));
    EXPECT_THAT(refusal("zero_i32", {argument(c), argument(17)}), HasSubstr("count is 17: a multiple of 16"));
    EXPECT_THAT(refusal("zero_i32", {argument(c), argument(-16)}), HasSubstr("count is -16"));
    EXPECT_THAT(refusal("zero_i32", {argument(c), argument(80)}), HasSubstr("has 256 bytes: 320 are needed"));
    KernelArgument crooked = argument(c);
    crooked.data = c.data() + 1;
    EXPECT_THAT(refusal("zero_i32", {crooked, argument(16)}), HasSubstr("multiple of 64 bytes"));
    EXPECT_EQ(refusal("zero_i32", {argument(c), argument(64)}), "");
}

}  // namespace
}  // namespace tandem::npu
