// The designs of rows and elements: what the array makes of them is what one core would, row by row.
#include "npu/designs/rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "npu/check.h"
#include "npu/emulator.h"
#include "npu/estimate.h"

namespace tandem::npu {
namespace {

std::vector<float> random_floats(int64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> draw(-2.0F, 2.0F);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = draw(random);
    return values;
}

void run(const RowDesign& made, std::vector<std::span<std::byte>> arguments) {
    const Status status = check(made.design);
    ASSERT_TRUE(status) << status.error().message;
    Result<Emulator> emulator = Emulator::make(made.design);
    ASSERT_TRUE(emulator) << emulator.error().message;
    const Result<Activity> activity = emulator->run(arguments);
    ASSERT_TRUE(activity) << activity.error().message;
    const Result<Activity> foreseen = foresee(made.design);
    ASSERT_TRUE(foreseen) << foreseen.error().message;
    EXPECT_EQ(foreseen->streams, activity->streams);
    EXPECT_EQ(foreseen->host, activity->host);
}

std::span<std::byte> bytes(std::vector<float>& values) {
    return std::as_writable_bytes(std::span(values));
}

// Products of the array are within 2^-21; roots and powers within 2^-18.
constexpr double kRounding = 1.0 / (1 << 18);

TEST(RowDesigns, RmsNorm) {
    for (const char* array : {"npu1", "npu2"}) {
        const RowDesign made = *rms_norm_design({.rows = 21, .cols = 96, .eps = 1e-6F, .array = array});
        EXPECT_EQ(made.rows % 16, 0);
        std::vector<float> x = random_floats(made.rows * 96, 1);
        std::vector<float> weight = random_floats(96, 2);
        std::vector<float> y(x.size());
        run(made, {bytes(x), bytes(weight), bytes(y)});
        for (size_t row = 0; row < 21; ++row) {
            double squares = 0;
            for (size_t i = 0; i < 96; ++i) squares += static_cast<double>(x[row * 96 + i]) * x[row * 96 + i];
            const double root = std::sqrt(squares / 96 + 1e-6);
            for (size_t i = 0; i < 96; ++i)
                ASSERT_NEAR(y[row * 96 + i], x[row * 96 + i] / root * weight[i], 8 * kRounding) << row << ", " << i;
        }
    }
}

TEST(RowDesigns, Rope) {
    const RowDesign made = *rope_design({.tokens = 10, .heads = 3, .head_dim = 64});
    std::vector<float> x = random_floats(made.rows * 192, 3);
    std::vector<float> cos_sin(static_cast<size_t>(made.rows * 64));
    for (size_t token = 0; token < static_cast<size_t>(made.rows); ++token) {
        for (size_t i = 0; i < 32; ++i) {
            cos_sin[token * 64 + i] =
                static_cast<float>(std::cos(static_cast<double>(token) * 0.1 * static_cast<double>(i)));
            cos_sin[token * 64 + 32 + i] =
                static_cast<float>(std::sin(static_cast<double>(token) * 0.1 * static_cast<double>(i)));
        }
    }
    std::vector<float> y(x.size());
    run(made, {bytes(x), bytes(cos_sin), bytes(y)});
    for (size_t token = 0; token < 10; ++token) {
        for (size_t at = token * 192; at < (token + 1) * 192; at += 64) {
            for (size_t i = 0; i < 32; ++i) {
                const double cosine = cos_sin[token * 64 + i];
                const double sine = cos_sin[token * 64 + 32 + i];
                ASSERT_NEAR(y[at + i], x[at + i] * cosine - x[at + 32 + i] * sine, 4 * kRounding);
                ASSERT_NEAR(y[at + 32 + i], x[at + i] * sine + x[at + 32 + i] * cosine, 4 * kRounding);
            }
        }
    }
}

TEST(RowDesigns, AddAndGlu) {
    const RowDesign add = *add_design({.count = 20000});
    const RowDesign glu = *glu_design({.count = 20000}, 0);
    ASSERT_EQ(add.rows, glu.rows);
    std::vector<float> a = random_floats(add.rows, 4);
    std::vector<float> b = random_floats(add.rows, 5);
    std::vector<float> sum(a.size());
    std::vector<float> gated(a.size());
    run(add, {bytes(a), bytes(b), bytes(sum)});
    run(glu, {bytes(a), bytes(b), bytes(gated)});
    for (size_t i = 0; i < 20000; ++i) {
        ASSERT_EQ(sum[i], a[i] + b[i]);
        ASSERT_NEAR(gated[i], a[i] / (1 + std::exp(-static_cast<double>(a[i]))) * b[i], 16 * kRounding);
    }
}

TEST(RowDesigns, Quantize) {
    const RowDesign made = *quantize_design({.rows = 9, .cols = 64});
    std::vector<float> x = random_floats(made.rows * 64, 6);
    std::vector<int8_t> q(x.size());
    std::vector<float> scale(static_cast<size_t>(made.rows));
    run(made, {bytes(x), std::as_writable_bytes(std::span(q)), bytes(scale)});
    for (size_t i = 0; i < 9 * 64; ++i)
        ASSERT_NEAR(static_cast<float>(q[i]) * scale[i / 64], x[i], scale[i / 64] * 0.501F);
}

TEST(RowDesigns, FitTheWidthsOfModels) {
    for (const char* array : {"npu1", "npu2"}) {
        for (const int64_t cols : {64, 2048, 5376}) {
            const Result<RowDesign> made = rms_norm_design({.rows = 1024, .cols = cols, .array = array});
            ASSERT_TRUE(made) << made.error().message;
            const Status status = check(made->design);
            EXPECT_TRUE(status) << status.error().message;
        }
        const Result<RowDesign> rope = rope_design({.tokens = 1024, .heads = 32, .head_dim = 128, .array = array});
        ASSERT_TRUE(rope) << rope.error().message;
        EXPECT_TRUE(check(rope->design));
        EXPECT_TRUE(check(glu_design({.count = 1024 * 21504, .array = array}, 1)->design));
        EXPECT_TRUE(check(quantize_design({.rows = 1024, .cols = 5376, .array = array})->design));
    }
    EXPECT_FALSE(rms_norm_design({.rows = 4, .cols = 8192}));
    EXPECT_FALSE(rms_norm_design({.rows = 0, .cols = 64}));
    EXPECT_FALSE(add_design({.count = 16, .array = "npu9"}));
}

}  // namespace
}  // namespace tandem::npu
