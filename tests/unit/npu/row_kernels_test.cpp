#include <algorithm>
#include <cmath>

#include "unit/npu/kernel_call.h"

namespace tandem::npu {
namespace {

constexpr double kProduct = 0x1p-21;       // of two floats, relative
constexpr double kShortProduct = 0x1p-14;  // of their first 16 bits
constexpr double kPower = 0x1p-14;         // of two

TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
    std::mt19937 random(1);
    for (int cols : {16, 80, 1152}) {
        TileBuffer<float> x = random_floats(random, 3 * cols, 5.0F);
        TileBuffer<float> weight = random_floats(random, cols);
        TileBuffer<float> y(3 * cols);
        call("rms_norm_f32", x, weight, y, 3, cols, 1e-6F);
        for (int row = 0; row < 3; ++row) {
            double squares = 0;
            for (int i = 0; i < cols; ++i) squares += std::pow(static_cast<double>(x[row * cols + i]), 2);
            const double factor = 1 / std::sqrt(squares / cols + 1e-6);
            for (int i = 0; i < cols; ++i) {
                const double exact = x[row * cols + i] * factor * weight[i];
                // Two products, and half of what the sum is off: each of its additions rounds by 2^-24.
                const double error = 3 * kProduct + (cols / 16.0 * 6 + 4) * 0x1p-25;
                ASSERT_NEAR(y[row * cols + i], exact, std::abs(exact) * error);
            }
        }
    }
}

TEST(Rope, TurnsPairsOfBothLayouts) {
    std::mt19937 random(2);
    for (int head_dim : {32, 96, 256}) {
        for (int layout : {0, 1}) {
            const int pairs = head_dim / 2;
            TileBuffer<float> x = random_floats(random, 3 * head_dim);
            TileBuffer<float> cos_sin(head_dim);
            for (int i = 0; i < pairs; ++i) {
                const double angle = 7 * std::pow(10000.0, -static_cast<double>(i) / pairs);
                cos_sin[i] = static_cast<float>(std::cos(angle));
                cos_sin[pairs + i] = static_cast<float>(std::sin(angle));
            }
            TileBuffer<float> y(3 * head_dim);
            call("rope_f32", x, cos_sin, y, 3, head_dim, layout);
            for (int i = 0; i < 3 * pairs; ++i) {
                const int base = i / pairs * head_dim;
                const int a = base + (layout == 0 ? i % pairs : 2 * (i % pairs));
                const int b = layout == 0 ? a + pairs : a + 1;
                const double cos = cos_sin[i % pairs];
                const double sin = cos_sin[pairs + i % pairs];
                const double size = std::abs(x[a]) + std::abs(x[b]);
                EXPECT_NEAR(y[a], x[a] * cos - x[b] * sin, size * 2 * kProduct);
                EXPECT_NEAR(y[b], x[a] * sin + x[b] * cos, size * 2 * kProduct);
            }
        }
    }
}

double active(int activation, double x) {
    if (activation == 0) return x / (1 + std::exp(-x));
    if (activation == 1) return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

TEST(Glu, EveryActivation) {
    std::mt19937 random(3);
    TileBuffer<float> gate = random_floats(random, 512, 3.0F);
    TileBuffer<float> up = random_floats(random, 512, 3.0F);
    const std::vector<float> special = {0.0F, -0.0F, 1e-20F, -1e-20F, 30.0F, -30.0F, 1000.0F, -1000.0F};
    std::ranges::copy(special, gate.begin());
    TileBuffer<float> y(512);
    for (int activation : {0, 1, 2}) {
        call("glu_f32", gate, up, y, 512, activation);
        for (int i = 0; i < 512; ++i) {
            const double exact = active(activation, gate[i]) * up[i];
            // Powers of two of arguments as large as 1.6 x^3 (or x^2), which are off by three products themselves; far
            // out the result is 0 or the gate. The series of erf is off by 1.5e-7.
            const double size = std::min(std::abs(static_cast<double>(gate[i])), 9.0);
            const double argument =
                activation == 1 ? 2.4 * (size + 0.05 * size * size * size) : 1.5 * (size + size * size);
            const double error = 8 * kShortProduct + kPower + argument * 3 * kShortProduct;
            EXPECT_NEAR(y[i], exact, std::abs(gate[i] * up[i]) * (error + 1.5e-7) + 1e-30)
                << activation << " of " << gate[i];
        }
    }
}

TEST(Add, IsTheSumOfFloatsAndMayWriteOverItsInput) {
    std::mt19937 random(4);
    TileBuffer<float> a = random_floats(random, 48);
    TileBuffer<float> b = random_floats(random, 48);
    const TileBuffer<float> before = a;
    call("add_f32", a, b, a, 48);
    for (int i = 0; i < 48; ++i) EXPECT_EQ(a[i], before[i] + b[i]);
}

TEST(Softmax, RowsThatSumToOne) {
    std::mt19937 random(5);
    for (int cols : {16, 112}) {
        TileBuffer<float> x = random_floats(random, 4 * cols, 6.0F);
        x[0] = 90.0F;                                           // one that outweighs all others
        for (int i = cols; i < 2 * cols; ++i) x[i] = -1000.0F;  // all alike
        TileBuffer<float> y(4 * cols);
        call("softmax_f32", x, y, 4, cols);
        for (int row = 0; row < 4; ++row) {
            const float* in = x.data() + row * cols;
            const double largest = *std::max_element(in, in + cols);
            double sum = 0;
            for (int i = 0; i < cols; ++i) sum += std::exp(in[i] - largest);
            for (int i = 0; i < cols; ++i) {
                const double exact = std::exp(in[i] - largest) / sum;
                const double distance = largest - in[i];
                EXPECT_NEAR(y[row * cols + i], exact,
                            exact * (4 * kPower + distance * 2 * kShortProduct + cols * 0x1p-24) + 1e-37);
            }
        }
    }
}

}  // namespace
}  // namespace tandem::npu
