#include "format/quant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/float16.h"

namespace tandem::format {
namespace {

std::vector<DType> block_types() {
    std::vector<DType> types;
    for (DType dtype : kAllDTypes) {
        if (is_quantized(dtype)) types.push_back(dtype);
    }
    return types;
}

template <typename Block>
std::vector<float> decoded(DType dtype, const Block& block) {
    std::vector<float> out(Block::kElements);
    decode_row(dtype, reinterpret_cast<const std::byte*>(&block), out.data(), Block::kElements);
    return out;
}

std::vector<float> round_trip(DType dtype, const std::vector<float>& x) {
    const auto cols = static_cast<int64_t>(x.size());
    std::vector<std::byte> row(row_bytes(dtype, cols));
    encode_row(dtype, x.data(), row.data(), cols);
    std::vector<float> out(x.size());
    decode_row(dtype, row.data(), out.data(), cols);
    return out;
}

std::vector<float> gaussian(size_t count, float mean = 0.0F, float deviation = 1.0F) {
    std::mt19937 rng(7);
    std::normal_distribution<float> normal(mean, deviation);
    std::vector<float> x(count);
    for (float& value : x) value = normal(rng);
    return x;
}

// Root of the mean square error, relative to that of x.
double relative_error(const std::vector<float>& x, const std::vector<float>& y) {
    double error = 0;
    double norm = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        error += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
        norm += double{x[i]} * x[i];
    }
    return std::sqrt(error / norm);
}

double gaussian_error(DType dtype) {
    const std::vector<float> x = gaussian(1 << 16);
    return relative_error(x, round_trip(dtype, x));
}

const uint16_t kHalf = f32_to_f16(0.5F);
const uint16_t kTwo = f32_to_f16(2.0F);

TEST(Quant, BlocksHaveTheSizesOfTheTypes) {
    for (DType dtype : block_types()) {
        with_block(dtype, [&]<typename Block>(std::type_identity<Block>) {
            EXPECT_EQ(info(dtype).block, Block::kElements) << name(dtype);
            EXPECT_EQ(info(dtype).block_bytes, static_cast<int>(sizeof(Block))) << name(dtype);
        });
    }
}

TEST(QuantDecode, Q8_0) {
    BlockQ8_0 b{.d = kHalf, .qs = {}};
    b.qs[0] = -128;
    b.qs[31] = 127;
    const auto x = decoded(DType::q8_0, b);
    EXPECT_EQ(x[0], -64.0F);
    EXPECT_EQ(x[1], 0.0F);
    EXPECT_EQ(x[31], 63.5F);
}

TEST(QuantDecode, Q4_0HasTheSecondHalfInTheHighNibbles) {
    BlockQ4_0 b{.d = kHalf, .qs = {}};
    b.qs[0] = 0x1f;
    b.qs[15] = 0x80;
    const auto x = decoded(DType::q4_0, b);
    EXPECT_EQ(x[0], 0.5F * (15 - 8));
    EXPECT_EQ(x[16], 0.5F * (1 - 8));
    EXPECT_EQ(x[15], 0.5F * (0 - 8));
    EXPECT_EQ(x[31], 0.5F * (8 - 8));
    EXPECT_EQ(x[1], -4.0F);
}

TEST(QuantDecode, Q4_1) {
    BlockQ4_1 b{.d = kHalf, .m = kTwo, .qs = {}};
    b.qs[3] = 0x2f;
    const auto x = decoded(DType::q4_1, b);
    EXPECT_EQ(x[3], 0.5F * 15 + 2);
    EXPECT_EQ(x[19], 0.5F * 2 + 2);
    EXPECT_EQ(x[0], 2.0F);
}

TEST(QuantDecode, Q5_0TakesTheFifthBitOfElementIFromBitI) {
    BlockQ5_0 b{.d = kHalf, .qh = {}, .qs = {}};
    b.qs[2] = 0x93;
    b.qh[0] = 1 << 2;  // element 2
    b.qh[2] = 1 << 2;  // element 18
    b.qh[3] = 1 << 7;  // element 31
    const auto x = decoded(DType::q5_0, b);
    EXPECT_EQ(x[2], 0.5F * (16 + 3 - 16));
    EXPECT_EQ(x[18], 0.5F * (16 + 9 - 16));
    EXPECT_EQ(x[31], 0.0F);
    EXPECT_EQ(x[0], -8.0F);
}

TEST(QuantDecode, Q5_1) {
    BlockQ5_1 b{.d = kHalf, .m = kTwo, .qh = {}, .qs = {}};
    b.qs[15] = 0xf0;
    b.qh[3] = 1 << 7;
    const auto x = decoded(DType::q5_1, b);
    EXPECT_EQ(x[31], 0.5F * 31 + 2);
    EXPECT_EQ(x[15], 2.0F);
}

// Sub-blocks 0..8 get scales 33..41 and minimums 60..53, all with bits in both places of the packing.
constexpr uint8_t kScales[12] = {33 | (2 << 6),
                                 34 | (2 << 6),
                                 35 | (2 << 6),
                                 36 | (2 << 6),  // scale s, top bits of scale s + 4
                                 60 | (3 << 6),
                                 59 | (3 << 6),
                                 58 | (3 << 6),
                                 57 | (3 << 6),  // minimum s, and of s + 4
                                 (37 & 15) | ((56 & 15) << 4),
                                 (38 & 15) | ((55 & 15) << 4),
                                 (39 & 15) | ((54 & 15) << 4),
                                 (40 & 15) | ((53 & 15) << 4)};  // low bits of scale and minimum s + 4

TEST(QuantDecode, KScalesUnpack) {
    for (int s = 0; s < 8; ++s) {
        EXPECT_EQ(k_scale_min(kScales, s).scale, 33 + s);
        EXPECT_EQ(k_scale_min(kScales, s).min, 60 - s);
    }
}

TEST(QuantDecode, Q4_K) {
    BlockQ4_K b{.d = kHalf, .dmin = kTwo, .scales = {}, .qs = {}};
    std::memcpy(b.scales, kScales, sizeof(kScales));
    b.qs[0] = 0x51;    // elements 0 and 32: sub-blocks 0 and 1
    b.qs[127] = 0xe9;  // elements 223 and 255: sub-blocks 6 and 7
    const auto x = decoded(DType::q4_k, b);
    EXPECT_EQ(x[0], 0.5F * 33 * 1 - 2.0F * 60);
    EXPECT_EQ(x[32], 0.5F * 34 * 5 - 2.0F * 59);
    EXPECT_EQ(x[223], 0.5F * 39 * 9 - 2.0F * 54);
    EXPECT_EQ(x[255], 0.5F * 40 * 14 - 2.0F * 53);
    EXPECT_EQ(x[64], -2.0F * 58);
}

TEST(QuantDecode, Q5_KTakesTheFifthBitOfASubBlockFromItsBit) {
    BlockQ5_K b{.d = kHalf, .dmin = kTwo, .scales = {}, .qh = {}, .qs = {}};
    std::memcpy(b.scales, kScales, sizeof(kScales));
    b.qs[1] = 0x51;
    b.qh[1] = 1 << 1;  // of sub-block 1: element 33
    b.qs[127] = 0xe9;
    b.qh[31] = (1 << 6) | (1 << 7);
    const auto x = decoded(DType::q5_k, b);
    EXPECT_EQ(x[1], 0.5F * 33 * 1 - 2.0F * 60);
    EXPECT_EQ(x[33], 0.5F * 34 * (5 + 16) - 2.0F * 59);
    EXPECT_EQ(x[223], 0.5F * 39 * (9 + 16) - 2.0F * 54);
    EXPECT_EQ(x[255], 0.5F * 40 * (14 + 16) - 2.0F * 53);
}

TEST(QuantDecode, Q6_KInterleavesGroupsOf32) {
    BlockQ6_K b{.ql = {}, .qh = {}, .scales = {}, .d = kHalf};
    for (int s = 0; s < 16; ++s) b.scales[s] = static_cast<int8_t>(s - 8);
    b.ql[5] = 0xa3;             // low bits of elements 5 and 69
    b.ql[37] = 0x7c;            // of 37 and 101
    b.qh[5] = 0b11100100;       // high bits 0, 1, 2, 3 of 5, 37, 69, 101
    b.ql[64 + 32 + 31] = 0xf0;  // elements 191 and 255
    b.qh[32 + 31] = 0b11000000;
    const auto x = decoded(DType::q6_k, b);
    EXPECT_EQ(x[5], 0.5F * -8 * (0x03 - 32));
    EXPECT_EQ(x[37], 0.5F * -6 * (0x1c - 32));
    EXPECT_EQ(x[69], 0.5F * -4 * (0x2a - 32));
    EXPECT_EQ(x[101], 0.5F * -2 * (0x37 - 32));
    EXPECT_EQ(x[191], 0.5F * 3 * (0 - 32));
    EXPECT_EQ(x[255], 0.5F * 7 * (63 - 32));
}

TEST(QuantDecode, PlainTypesNeedNoAlignment) {
    std::vector<std::byte> bytes(1 + 8);
    const float values[2] = {1.25F, -3.0F};
    std::memcpy(bytes.data() + 1, values, 8);
    float out[2];
    decode_row(DType::f32, bytes.data() + 1, out, 2);
    EXPECT_EQ(out[1], -3.0F);
    const int32_t ints[2] = {7, -9};
    std::memcpy(bytes.data() + 1, ints, 8);
    decode_row(DType::i32, bytes.data() + 1, out, 2);
    EXPECT_EQ(out[1], -9.0F);
}

// An empty tensor of a safetensors file has no bytes and nowhere to put its elements.
TEST(Quant, ARowMayBeEmpty) {
    for (DType dtype : kAllDTypes) {
        decode_row(dtype, nullptr, nullptr, 0);
        if (has_encoder(dtype)) encode_row(dtype, nullptr, nullptr, 0);
        EXPECT_EQ(row_bytes(dtype, 0), 0U);
    }
}

// About 3% above what the search reaches; mapping the range of a block onto the levels without one is well beyond.
TEST(QuantEncode, GaussianErrorStaysWithinTheTypesBound) {
    EXPECT_LT(gaussian_error(DType::f16), 0.0003);
    EXPECT_LT(gaussian_error(DType::bf16), 0.0025);
    EXPECT_LT(gaussian_error(DType::q8_0), 0.0060);
    EXPECT_LT(gaussian_error(DType::q6_k), 0.0180);
    EXPECT_LT(gaussian_error(DType::q5_0), 0.0415);
    EXPECT_LT(gaussian_error(DType::q5_1), 0.0350);
    EXPECT_LT(gaussian_error(DType::q5_k), 0.0370);
    EXPECT_LT(gaussian_error(DType::q4_0), 0.0840);
    EXPECT_LT(gaussian_error(DType::q4_1), 0.0725);
    EXPECT_LT(gaussian_error(DType::q4_k), 0.0740);
    EXPECT_LT(gaussian_error(DType::iq4_nl), 0.0760);
    EXPECT_LT(gaussian_error(DType::iq4_xs), 0.0765);
    EXPECT_LT(gaussian_error(DType::nvfp4), 0.0885);
    EXPECT_LT(gaussian_error(DType::mxfp4), 0.1145);
    EXPECT_LT(gaussian_error(DType::iq3_s), 0.1360);
    EXPECT_LT(gaussian_error(DType::q3_k), 0.1495);
    EXPECT_LT(gaussian_error(DType::iq3_xxs), 0.1865);
    EXPECT_LT(gaussian_error(DType::iq2_s), 0.2490);
    EXPECT_LT(gaussian_error(DType::q2_k), 0.2755);
    EXPECT_LT(gaussian_error(DType::iq2_xs), 0.2980);
    EXPECT_LT(gaussian_error(DType::iq2_xxs), 0.3460);
    EXPECT_LT(gaussian_error(DType::iq1_m), 0.4345);
    EXPECT_LT(gaussian_error(DType::tq1_0), 0.4590);
    EXPECT_LT(gaussian_error(DType::iq1_s), 0.4695);
    EXPECT_LT(gaussian_error(DType::q2_0), 0.3745);
    EXPECT_LT(gaussian_error(DType::q1_0), 0.6530);
    EXPECT_EQ(gaussian_error(DType::tq2_0), gaussian_error(DType::tq1_0));
}

TEST(QuantEncode, MoreBitsMeanLessError) {
    const DType ladder[] = {DType::q4_0, DType::q4_k, DType::q5_0, DType::q5_k, DType::q6_k,
                            DType::q8_0, DType::bf16, DType::f16,  DType::f32};
    double previous = 1.0;
    for (DType dtype : ladder) {
        const double error = gaussian_error(dtype);
        EXPECT_LT(error, previous) << name(dtype);
        previous = error;
    }
}

TEST(QuantEncode, DependsOnTheScaleOnlyByRounding) {
    for (DType dtype : block_types()) {
        if (dtype == DType::nvfp4) continue;  // its scales do not go below 2^-9: the rest is for a factor of the tensor
        const double expected = gaussian_error(dtype);
        for (float deviation : {1e-3F, 0.02F, 100.0F}) {
            const std::vector<float> x = gaussian(1 << 14, 0.0F, deviation);
            EXPECT_NEAR(relative_error(x, round_trip(dtype, x)), expected, 0.1 * expected) << name(dtype) << deviation;
        }
    }
}

TEST(QuantEncode, TypesWithAMinimumProfitFromAnOffset) {
    const std::vector<float> x = gaussian(1 << 14, -3.0F, 0.3F);
    for (const auto& [affine, symmetric] : {std::pair(DType::q4_1, DType::q4_0), std::pair(DType::q5_1, DType::q5_0),
                                            std::pair(DType::q4_k, DType::q4_0)}) {
        EXPECT_LT(relative_error(x, round_trip(affine, x)), 0.3 * relative_error(x, round_trip(symmetric, x)))
            << name(affine);
    }
}

// Values that lie on the grid of a type come back exactly.
TEST(QuantEncode, IsExactOnItsOwnGrid) {
    std::vector<float> x(256);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 0.25F * static_cast<float>(static_cast<int>(i % 16) - 8);
    for (DType dtype : {DType::q4_0, DType::q4_1, DType::q5_1, DType::f16, DType::bf16}) {
        EXPECT_EQ(round_trip(dtype, x), x) << name(dtype);
    }
    EXPECT_EQ(round_trip(DType::q8_0, std::vector<float>(32, 127.0F)), std::vector<float>(32, 127.0F));
}

// What was decoded once encodes to values just as good: quantizing twice adds next to nothing.
TEST(QuantEncode, IsStableOnDecodedValues) {
    const std::vector<float> x = gaussian(1 << 13);
    for (DType dtype : block_types()) {
        const std::vector<float> once = round_trip(dtype, x);
        const double first = relative_error(x, once);
        EXPECT_LT(relative_error(once, round_trip(dtype, once)), 0.6 * first) << name(dtype);
    }
}

// What may be missing of a constant that comes back. The scales of the 4-bit floats are coarse.
double constant_error(DType dtype) {
    switch (dtype) {
        case DType::mxfp4:
            return 0.2;  // a power of two: 1.25 lies between 1 and 1.5
        case DType::nvfp4:
            return 0.07;  // a mantissa of 3 bits
        default:
            return 0.003;
    }
}

TEST(QuantEncode, ConstantBlocks) {
    for (DType dtype : block_types()) {
        for (float value : {0.0F, 1.0F, -1.0F, 0.037F, -1234.5F}) {
            for (float y : round_trip(dtype, std::vector<float>(256, value)))
                EXPECT_NEAR(y, value, constant_error(dtype) * std::abs(value)) << name(dtype) << " " << value;
        }
    }
}

TEST(QuantEncode, AnyInputGivesAFiniteBlock) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    constexpr float kMax = std::numeric_limits<float>::max();
    constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
    const std::vector<std::vector<float>> patterns = {{kNan},
                                                      {kInf},
                                                      {-kInf},
                                                      {kInf, -kInf},
                                                      {kNan, 1.0F},
                                                      {kMax, -kMax},
                                                      {kSmallest},
                                                      {kSmallest, -1e-38F},
                                                      {1e-30F, 2e-30F},
                                                      {6e-8F, 0.0F},
                                                      {-6e-8F, 65504.0F},
                                                      {1e-7F, -1e-7F, 3e-8F},
                                                      {kInf, 1e-30F, kNan, -2.0F}};
    for (DType dtype : block_types()) {
        for (const auto& pattern : patterns) {
            std::vector<float> x(256);
            for (size_t i = 0; i < x.size(); ++i) x[i] = pattern[i % pattern.size()];
            for (float y : round_trip(dtype, x)) ASSERT_TRUE(std::isfinite(y)) << name(dtype) << " " << pattern[0];
        }
    }
    EXPECT_NEAR(round_trip(DType::q8_0, std::vector<float>(32, kInf))[0], 65504.0F, 40.0F);
    EXPECT_EQ(round_trip(DType::q4_0, std::vector<float>(32, kNan))[0], 0.0F);
}

// What a column counts decides what is left of its error; where no column counts, or all do alike, nothing changes.
TEST(QuantEncode, ErrorsMoveToColumnsOfLessImportance) {
    const std::vector<float> x = gaussian(1 << 12);
    const auto cols = static_cast<int64_t>(x.size());
    std::vector<float> importance(x.size());
    for (size_t i = 0; i < x.size(); ++i) importance[i] = i % 7 == 0 ? 20.0F : 1.0F;
    const auto encoded = [&](DType dtype, const float* weights) {
        std::vector<std::byte> row(row_bytes(dtype, cols));
        encode_row(dtype, x.data(), row.data(), cols, weights);
        return row;
    };
    const auto important_error = [&](DType dtype, const std::vector<std::byte>& row) {
        std::vector<float> y(x.size());
        decode_row(dtype, row.data(), y.data(), cols);
        double sum = 0;
        for (size_t i = 0; i < x.size(); i += 7) sum += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
        return sum;
    };
    for (DType dtype : block_types()) {
        const auto plain = encoded(dtype, nullptr);
        EXPECT_EQ(encoded(dtype, std::vector<float>(x.size(), 3.0F).data()), plain) << name(dtype);
        EXPECT_EQ(encoded(dtype, std::vector<float>(x.size(), 0.0F).data()), plain) << name(dtype);
        const double without = important_error(dtype, plain);
        const double with = important_error(dtype, encoded(dtype, importance.data()));
        if (dtype == DType::q8_0) {
            EXPECT_EQ(with, without);
        } else {
            EXPECT_LT(with, without) << name(dtype);
        }
    }
}

TEST(QuantEncode, OneOutlierDoesNotSpoilTheOtherSubBlocks) {
    std::vector<float> x = gaussian(256);
    x[0] = 100.0F;
    for (DType dtype : {DType::q4_k, DType::q5_k, DType::q6_k}) {
        const std::vector<float> y = round_trip(dtype, x);
        EXPECT_LT(relative_error({x.begin() + 32, x.end()}, {y.begin() + 32, y.end()}), 0.35) << name(dtype);
        EXPECT_NEAR(y[0], 100.0F, 2.0F) << name(dtype);
    }
}

}  // namespace
}  // namespace tandem::format
