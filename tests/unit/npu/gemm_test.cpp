// The product of the whole array against three plain loops.
#include "npu/designs/gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "npu/array.h"
#include "npu/designs/quantize_row.h"
#include "npu/emulator.h"
#include "npu/memory_map.h"
#include "npu/mlir.h"
#include "npu/tile_use.h"

namespace tandem::npu {
namespace {

struct Problem {
    std::vector<int8_t> x, w;
    std::vector<float> x_scales, w_scales;
};

Problem random_problem(const GemmShape& shape, uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> value(-128, 127);
    std::uniform_real_distribution<float> scale(0.001F, 0.1F);
    Problem problem;
    problem.x.resize(static_cast<size_t>(shape.m * shape.k));
    problem.w.resize(static_cast<size_t>(shape.n * shape.k));
    problem.x_scales.resize(static_cast<size_t>(shape.m));
    problem.w_scales.resize(static_cast<size_t>(shape.n));
    for (int8_t& v : problem.x) v = static_cast<int8_t>(value(random));
    for (int8_t& v : problem.w) v = static_cast<int8_t>(value(random));
    for (float& v : problem.x_scales) v = scale(random);
    for (float& v : problem.w_scales) v = scale(random);
    return problem;
}

struct Outcome {
    GemmLayout layout;
    std::vector<float> y;
    Activity activity;
};

Result<Outcome> multiply(const GemmShape& shape, const Problem& problem) {
    Outcome outcome;
    outcome.layout = TRY(gemm_layout(shape));
    const GemmLayout& layout = outcome.layout;
    std::vector<std::byte> x(static_cast<size_t>(layout.x_bytes()));
    std::vector<std::byte> w(static_cast<size_t>(layout.w_bytes()));
    outcome.y.assign(static_cast<size_t>(layout.m * layout.n), NAN);
    pack_x(layout, {problem.x, problem.x_scales, shape.k}, x);
    pack_w(layout, {problem.w, problem.w_scales, shape.k}, w);
    const Design design = TRY(gemm_i8(layout));
    Emulator emulator = TRY(Emulator::make(design));
    const std::array<std::span<std::byte>, 3> arguments{x, w, std::as_writable_bytes(std::span(outcome.y))};
    outcome.activity = TRY(emulator.run(arguments));
    return outcome;
}

int64_t dot(const Problem& problem, int64_t i, int64_t j, int64_t k) {
    int64_t sum = 0;
    for (int64_t l = 0; l < k; ++l)
        sum += problem.x[static_cast<size_t>(i * k + l)] * problem.w[static_cast<size_t>(j * k + l)];
    return sum;
}

// Sums are exact in int32; float(sum) * row * column rounds three times, and the array multiplies floats with two more
// roundings each: within 6 half units of the last place, so 6 * 2^-24 of the value.
TEST(Gemm, AgreesWithPlainLoops) {
    for (const GemmShape& shape :
         {GemmShape{1, 8, 16, "npu1"}, GemmShape{33, 100, 70, "npu1"}, GemmShape{64, 256, 192, "npu1"},
          GemmShape{300, 130, 260, "npu1"}, GemmShape{40, 64, 300, "npu2"}}) {
        const Problem problem = random_problem(shape, 3);
        const Result<Outcome> outcome = multiply(shape, problem);
        ASSERT_TRUE(outcome) << outcome.error().message;
        const GemmLayout& layout = outcome->layout;
        for (int64_t i = 0; i < layout.m; ++i) {
            for (int64_t j = 0; j < layout.n; ++j) {
                const float got = outcome->y[static_cast<size_t>(i * layout.n + j)];
                if (i >= shape.m || j >= shape.n) {
                    ASSERT_EQ(got, 0.0F);
                    continue;
                }
                const double wanted = static_cast<double>(dot(problem, i, j, shape.k)) *
                                      problem.x_scales[static_cast<size_t>(i)] *
                                      problem.w_scales[static_cast<size_t>(j)];
                ASSERT_NEAR(got, wanted, std::abs(wanted) * 6 * std::ldexp(1.0, -24)) << i << ", " << j;
            }
        }
    }
}

// With scales of one and sums below 2^24 nothing is rounded.
TEST(Gemm, SumsAreExact) {
    const GemmShape shape{64, 240, 256, "npu1"};
    Problem problem = random_problem(shape, 5);
    std::fill(problem.x_scales.begin(), problem.x_scales.end(), 1.0F);
    std::fill(problem.w_scales.begin(), problem.w_scales.end(), 1.0F);
    const Result<Outcome> outcome = multiply(shape, problem);
    ASSERT_TRUE(outcome) << outcome.error().message;
    for (int64_t i = 0; i < shape.m; ++i) {
        for (int64_t j = 0; j < shape.n; ++j)
            ASSERT_EQ(outcome->y[static_cast<size_t>(i * outcome->layout.n + j)],
                      static_cast<float>(dot(problem, i, j, shape.k)));
    }
}

TEST(Gemm, DoesAsMuchAsTheShapeSays) {
    const GemmShape shape{256, 224, 512, "npu1"};
    const Result<Outcome> outcome = multiply(shape, random_problem(shape, 9));
    ASSERT_TRUE(outcome) << outcome.error().message;
    const GemmLayout& layout = outcome->layout;
    EXPECT_EQ(layout.m, 256);
    EXPECT_EQ(layout.n, 512);
    EXPECT_EQ(outcome->activity.total().macs, static_cast<uint64_t>(layout.m * layout.k * layout.n));
    const int64_t steps_m = layout.blocks_m() / layout.rows;
    const int64_t steps_n = layout.blocks_n() / layout.columns;
    uint64_t read = 0;
    uint64_t written = 0;
    for (const HostActivity& channel : outcome->activity.host)
        (channel.to_array ? read : written) += channel.size_bytes;
    EXPECT_EQ(read, static_cast<uint64_t>(layout.x_bytes() * steps_n + layout.w_bytes() * steps_m));
    EXPECT_EQ(written, static_cast<uint64_t>(layout.y_bytes()));
}

// Only rows that are there are multiplied, 16 at a time.
TEST(Gemm, SkipsRowsThatAreNotThere) {
    const GemmShape shape{20, 112, 256, "npu1"};
    const Result<Outcome> outcome = multiply(shape, random_problem(shape, 9));
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->activity.total().macs, 32U * 112 * 256);
}

TEST(Gemm, WeightsArePackedOnceForAllM) {
    for (const int64_t k : {64, 640, 1024, 4096, 5376, 21504}) {
        for (const int64_t n : {64, 640, 4096, 5376, 21504}) {
            const GemmLayout one = *gemm_layout({1, k, n, "npu1"});
            const GemmLayout many = *gemm_layout({1024, k, n, "npu1"});
            EXPECT_EQ(one.w_bytes(), many.w_bytes());
            EXPECT_LE(gemm_i8(many)->sequence.transfers.size(), 100U);
        }
    }
    EXPECT_FALSE(gemm_layout({0, 64, 64, "npu1"}));
    EXPECT_FALSE(gemm_layout({64, 64, 64, "npu9"}));
}

// What the array is loaded with does not depend on the product: only the sequence does.
TEST(Gemm, OneDesignServesEveryProduct) {
    for (const char* array : {"npu1", "npu2"}) {
        const Design small = *gemm_i8(*gemm_layout({8, 64, 64, array}));
        const Design large = *gemm_i8(*gemm_layout({1024, 5376, 21504, array}));
        EXPECT_EQ(small.name, large.name);
        EXPECT_NE(small.shape, large.shape);
        EXPECT_EQ(to_mlir(small, MlirPart::array), to_mlir(large, MlirPart::array));
        EXPECT_NE(to_mlir(small), to_mlir(large));
    }
}

// The blocks of npu2 are those that its cores multiply in one cycle.
TEST(Gemm, MultipliesInTheShapeOfTheCores) {
    EXPECT_EQ(gemm_i8(*gemm_layout({8, 64, 64, "npu1"}))->kernels[1].mmul, "4x8x8 i8");
    EXPECT_EQ(gemm_i8(*gemm_layout({8, 64, 64, "npu2"}))->kernels[1].mmul, "8x8x8 i8");
}

// A core loads from x and w in one cycle: they must not be in one bank.
TEST(Gemm, OperandsLieInDifferentBanks) {
    for (const char* name : {"npu1", "npu2"}) {
        const Array& array = *find_array(name);
        const Design design = *gemm_i8(*gemm_layout({256, 5376, 4096, name}));
        for (const Worker& worker : design.workers) {
            const std::vector<PlacedBuffer> map = memory_map(design, array, worker.tile);
            const auto x = fmt::format("x{}", worker.tile.row - 2);
            const auto w = fmt::format("w{}", worker.tile.column);
            EXPECT_FALSE(share_a_bank(map, array, x, w));
            EXPECT_LE(map.back().end, array.compute.memory_bytes - kLinkerBytes);
        }
    }
}

std::vector<float> random_rows(int64_t count) {
    std::mt19937 random(5);
    std::normal_distribution<float> value(0, 3);
    std::vector<float> rows(static_cast<size_t>(count));
    for (float& v : rows) v = value(random);
    return rows;
}

// Of every length, as its last elements come singly.
TEST(QuantizeRow, RoundsEachElementToTheNearestHalfToEven) {
    for (int64_t length = 1; length < 70; ++length) {
        std::vector<float> row = random_rows(length);
        row[0] = 127;  // a scale of 1, so that halves are halves
        for (size_t i = 1; i < row.size(); i += 2) row[i] = std::nearbyint(row[i]) + 0.5F;
        std::vector<int8_t> rounded(row.size());
        EXPECT_EQ(quantize_row(row, rounded), 1.0F);
        for (size_t i = 0; i < row.size(); ++i)
            EXPECT_EQ(rounded[i], static_cast<int8_t>(std::nearbyint(row[i]))) << row[i];
    }
}

TEST(QuantizeRow, OfWhatIsNoNumberNothingIsLeft) {
    for (const float value : {NAN, INFINITY, -INFINITY}) {
        std::vector<float> row(40, 1.0F);
        row[37] = value;
        std::vector<int8_t> rounded(row.size(), 1);
        EXPECT_TRUE(std::isnan(quantize_row(row, rounded)));
        EXPECT_EQ(rounded, std::vector<int8_t>(row.size(), 0));
    }
}

// In whole tiles and in parts of them, by several threads: as when the rows are rounded first and packed then.
TEST(Gemm, RoundsAndPacksAtOnce) {
    ThreadPool threads(3);
    for (const GemmShape& shape : {GemmShape{128, 240, 64, "npu1"}, GemmShape{61, 100, 64, "npu1"}}) {
        const GemmLayout layout = *gemm_layout(shape);
        const std::vector<float> x = random_rows(shape.m * shape.k);
        std::vector<int8_t> values(x.size());
        std::vector<float> scales(static_cast<size_t>(shape.m));
        const auto columns = static_cast<size_t>(shape.k);
        for (size_t i = 0; i < scales.size(); ++i)
            scales[i] = quantize_row({x.data() + i * columns, columns}, {values.data() + i * columns, columns});
        std::vector<std::byte> expected(static_cast<size_t>(layout.x_bytes()));
        pack_x(layout, {.values = values, .scales = scales, .columns = shape.k}, expected);
        std::vector<std::byte> packed(expected.size());
        quantize_x(layout, {.values = x.data(), .rows = shape.m, .columns = shape.k, .stride = shape.k}, threads,
                   packed);
        EXPECT_EQ(packed, expected);
    }
}

TEST(Gemm, RowsAreRoundedByTheirLargestMagnitude) {
    const GemmLayout layout = *gemm_layout({3, 8, 16, "npu1"});
    const std::vector<float> x{12.7F, -6.3F, 0.05F, 0.15F, 0, 0, 0, 0,   // scale 0.1
                               0,     0,     0,     0,     0, 0, 0, 0,   // of zeros
                               1,     2,     NAN,   4,     5, 6, 7, 8};  // of none
    std::vector<std::byte> packed(static_cast<size_t>(layout.x_bytes()));
    ThreadPool threads(2);
    quantize_x(layout, {.values = x.data(), .rows = 3, .columns = 8, .stride = 8}, threads, packed);
    const std::vector<int8_t> wanted{127, -63, 0, 2};
    constexpr size_t kFirstObject = size_t{kGemmRows} * kGemmInner;
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(static_cast<int8_t>(packed[kFirstObject + i]), wanted[i]) << i;
    std::array<float, 3> scales{};
    std::memcpy(scales.data(), packed.data() + sizeof(GemmHeader), sizeof scales);
    GemmHeader header;
    std::memcpy(&header, packed.data(), sizeof header);
    EXPECT_EQ(header.objects, 1);
    EXPECT_EQ(header.rows, 16);
    EXPECT_FLOAT_EQ(scales[0], 0.1F);
    EXPECT_EQ(scales[1], 0.0F);
    EXPECT_TRUE(std::isnan(scales[2]));
}

}  // namespace
}  // namespace tandem::npu
