// Blocks of the types of low bits, of tables and of code books, worked out by hand from their description, and random
// ones with what another implementation makes of them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <vector>

#include "base/float16.h"
#include "format/codebooks.h"
#include "format/gguf.h"
#include "format/quant.h"

namespace tandem::format {
namespace {

const uint16_t kD = f32_to_f16(0.5F);

template <typename Block>
std::vector<float> values_of(DType dtype, const Block& block) {
    std::vector<float> out(Block::kElements);
    decode_row(dtype, reinterpret_cast<const std::byte*>(&block), out.data(), Block::kElements);
    return out;
}

std::vector<float> slice(const std::vector<float>& x, int first, int count) {
    return {x.begin() + first, x.begin() + first + count};
}

std::vector<float> times(float scale, std::vector<float> x) {
    for (float& value : x) value *= scale;
    return x;
}

TEST(QuantBlocks, Q2_KHasAScaleAndAMinimumFor16) {
    BlockQ2_K b{.scales = {}, .qs = {}, .d = kD, .dmin = f32_to_f16(2.0F)};
    b.scales[0] = 0x31;        // scale 1, minimum 3
    b.scales[7] = 0x0f;        // elements 112 to 127
    b.scales[15] = 0xf2;       // elements 240 to 255
    b.qs[0] = 0b11'10'01'10;   // elements 0, 32, 64 and 96
    b.qs[31] = 0b11'00'00'00;  // element 127
    b.qs[63] = 0b01'00'00'00;  // element 255
    const auto x = values_of(DType::q2_k, b);
    EXPECT_EQ(x[0], 0.5F * 1 * 2 - 2.0F * 3);
    EXPECT_EQ(x[1], -6.0F);
    EXPECT_EQ(x[32], 0.0F);  // q is 1, but the scale of elements 32 to 47 is 0
    EXPECT_EQ(x[127], 0.5F * 15 * 3);
    EXPECT_EQ(x[255], 0.5F * 2 * 1 - 2.0F * 15);
    EXPECT_EQ(x[254], -30.0F);
}

TEST(QuantBlocks, Q3_KIsBelowZeroWithoutItsHighBit) {
    BlockQ3_K b{.hmask = {}, .qs = {}, .scales = {}, .d = kD};
    b.scales[0] = 0x5a;            // low bits of the scales of sub-blocks 0 and 8
    b.scales[7] = 0xf0;            // of 7 and 15
    b.scales[8] = 0b00'11'00'01;   // high bits of 0, 4, 8, 12
    b.scales[11] = 0b10'00'11'00;  // of 3, 7, 11, 15
    b.qs[0] = 0b00'00'00'11;       // element 0
    b.qs[32] = 0b00'00'00'01;      // element 128
    b.qs[63] = 0b10'00'00'00;      // element 255
    b.hmask[0] = 1 << 4;           // element 128
    b.hmask[31] = 1 << 7;          // element 255
    const auto x = values_of(DType::q3_k, b);
    EXPECT_EQ(x[0], 0.5F * (0x1a - 32) * (3 - 4));
    EXPECT_EQ(x[1], 0.5F * (0x1a - 32) * -4);
    EXPECT_EQ(x[112], 0.5F * (0x30 - 32) * -4);
    EXPECT_EQ(x[128], 0.5F * (0x35 - 32) * 1);
    EXPECT_EQ(x[255], 0.5F * (0x2f - 32) * 2);
    EXPECT_EQ(x[240], 0.5F * (0x2f - 32) * -4);
    EXPECT_EQ(x[64], 0.5F * (0x00 - 32) * -4);  // sub-block 4
}

TEST(QuantBlocks, Iq4NlReadsATable) {
    BlockIQ4_NL b{.d = kD, .qs = {}};
    for (int i = 0; i < 16; ++i) b.qs[i] = static_cast<uint8_t>(i | (15 - i) << 4);
    const auto x = values_of(DType::iq4_nl, b);
    const std::vector<float> table = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    EXPECT_EQ(slice(x, 0, 16), times(0.5F, table));
    EXPECT_EQ(slice(x, 16, 16), times(0.5F, {table.rbegin(), table.rend()}));
}

TEST(QuantBlocks, Iq4XsHasSixBitsOfScaleFor32) {
    BlockIQ4_XS b{.d = kD, .scales_h = 0b10'00'00'00'00'00'11'01, .scales_l = {0xf2, 0, 0, 0x70}, .qs = {}};
    b.qs[0] = 0x80;    // elements 0 and 16
    b.qs[16] = 0x1f;   // elements 32 and 48
    b.qs[127] = 0x90;  // elements 239 and 255
    const auto x = values_of(DType::iq4_xs, b);
    EXPECT_EQ(x[0], 0.5F * (0x12 - 32) * -127);
    EXPECT_EQ(x[16], 0.5F * (0x12 - 32) * 1);
    EXPECT_EQ(x[32], 0.5F * (0x3f - 32) * 113);
    EXPECT_EQ(x[48], 0.5F * (0x3f - 32) * -104);
    EXPECT_EQ(x[64], 0.5F * (0x00 - 32) * -127);
    EXPECT_EQ(x[255], 0.5F * (0x27 - 32) * 13);
}

TEST(QuantBlocks, Mxfp4HasPowersOfTwo) {
    BlockMXFP4 b{.e = 127, .qs = {}};
    for (int i = 0; i < 16; ++i) b.qs[i] = static_cast<uint8_t>(i | i << 4);
    const std::vector<float> codes = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6, 0, -0.5F, -1, -1.5F, -2, -3, -4, -6};
    EXPECT_EQ(slice(values_of(DType::mxfp4, b), 0, 16), codes);
    EXPECT_EQ(slice(values_of(DType::mxfp4, b), 16, 16), codes);
    b.e = 130;
    EXPECT_EQ(values_of(DType::mxfp4, b)[7], 48.0F);
    b.e = 0;  // 2^-127, which is below what is normal
    EXPECT_EQ(values_of(DType::mxfp4, b)[2], 0x1p-127F);
    b.e = 254;
    EXPECT_EQ(values_of(DType::mxfp4, b)[2], 0x1p127F);
}

TEST(QuantBlocks, Nvfp4HasAFloatOf8BitsFor16) {
    BlockNVFP4 b{.d = {0x38, 0x7e, 0x01, 0x7f}, .qs = {}};  // 1, 448, 2^-9, and what is no number
    b.qs[0] = 0xf2;                                         // elements 0 and 8
    b.qs[8 + 7] = 0x17;                                     // elements 23 and 31
    b.qs[16] = 0x0a;                                        // element 32
    b.qs[24] = 0x77;                                        // elements 48 and 56
    const auto x = values_of(DType::nvfp4, b);
    EXPECT_EQ(x[0], 1.0F);
    EXPECT_EQ(x[8], -6.0F);
    EXPECT_EQ(x[23], 448.0F * 6);
    EXPECT_EQ(x[31], 448.0F * 0.5F);
    EXPECT_EQ(x[32], -0x1p-9F);
    EXPECT_EQ(x[48], 0.0F);
    EXPECT_EQ(ue4m3_to_f32(0x07), 7 * 0x1p-9F);
    EXPECT_EQ(ue4m3_to_f32(0x08), 0x1p-6F);
}

TEST(QuantBlocks, EvenSignsAddAnEighth) {
    EXPECT_EQ(even_signs(0), 0);
    EXPECT_EQ(even_signs(0b0000001), 0b10000001);
    EXPECT_EQ(even_signs(0b1000001), 0b01000001);
    EXPECT_EQ(even_signs(127), 0xff);
}

TEST(QuantBlocks, Iq3S) {
    BlockIQ3_S b{.d = kD, .qs = {}, .qh = {}, .signs = {}, .scales = {0xf2, 0, 0, 0x30}};
    b.qs[0] = 3;               // 11 1 1 1
    b.signs[0] = 0b1000'0011;  // of points 0 and 1
    b.qs[8] = 300 - 256;       // 3 5 3 7, of sub-block 1
    b.qh[1] = 1;
    b.qs[63] = 511 - 256;  // 1 1 15 15, of sub-block 7
    b.qh[7] = 0x80;
    b.signs[31] = 0b0100'0000;
    const auto x = values_of(DType::iq3_s, b);
    EXPECT_EQ(slice(x, 0, 8), times(0.5F * 5, {-11, -1, 1, 1, 1, 1, 1, -1}));
    EXPECT_EQ(slice(x, 32, 4), times(0.5F * 31, {3, 5, 3, 7}));
    EXPECT_EQ(slice(x, 252, 4), times(0.5F * 7, {1, 1, -15, 15}));
    EXPECT_EQ(slice(x, 64, 2), times(0.5F, {1, 1}));
}

TEST(QuantBlocks, Iq3Xxs) {
    BlockIQ3_XXS b{.d = kD, .qs = {}, .signs_scales = {}};
    b.qs[0] = 1;                                        // 20 4 4 4
    b.qs[1] = 77;                                       // 20 12 20 12
    b.qs[63] = 255;                                     // 4 28 52 62
    const uint32_t first = 0b0010001 | 15U << 28;       // an even number: the eighth is not set
    const uint32_t last = 0b0000100U << 21 | 2U << 28;  // of points 62 and 63, and the eighth
    std::memcpy(b.signs_scales, &first, 4);
    std::memcpy(b.signs_scales + 28, &last, 4);
    const auto x = values_of(DType::iq3_xxs, b);
    EXPECT_EQ(slice(x, 0, 8), times(0.5F * 31 / 4, {-20, 4, 4, 4, -20, 12, 20, 12}));
    EXPECT_EQ(slice(x, 248, 8), times(0.5F * 5 / 4, {4, 4, -4, 4, 4, 28, 52, -62}));
    EXPECT_EQ(x[32], 0.5F / 4 * 4);
}

TEST(QuantBlocks, Iq2S) {
    BlockIQ2_S b{.d = kD, .qs = {}, .signs = {}, .qh = {}, .scales = {}};
    b.scales[0] = 0xf1;
    b.scales[7] = 0x40;
    b.qs[0] = 5;  // 25 8 25 8 8 8 8 8
    b.signs[0] = 0b10000101;
    b.qs[2] = 700 & 255;  // 8 8 8 43 43 8 25 25, of the second sub-block
    b.qh[0] = (700 >> 8) << 4;
    b.qs[31] = 1023 & 255;  // 43 all over
    b.qh[7] = 3 << 6;
    b.signs[31] = 0xf0;
    const auto x = values_of(DType::iq2_s, b);
    EXPECT_EQ(slice(x, 0, 8), times(0.5F * 3 / 8, {-25, 8, -25, 8, 8, 8, 8, -8}));
    EXPECT_EQ(slice(x, 16, 8), times(0.5F * 31 / 8, {8, 8, 8, 43, 43, 8, 25, 25}));
    EXPECT_EQ(slice(x, 248, 8), times(0.5F * 9 / 8, {43, 43, 43, 43, -43, -43, -43, -43}));
    EXPECT_EQ(x[32], 0.5F / 8 * 8);
}

TEST(QuantBlocks, Iq2Xs) {
    BlockIQ2_XS b{.d = kD, .qs = {}, .scales = {}};
    b.scales[0] = 0x21;
    b.scales[7] = 0xf0;
    b.qs[0] = 2 | 1 << 9;       // 25 25 8 8 8 8 8 8, and the eighth sign
    b.qs[3] = 300 | 0b11 << 9;  // 8 25 25 8 8 25 8 25
    b.qs[31] = 511 | 127 << 9;  // 43 all over
    const auto x = values_of(DType::iq2_xs, b);
    EXPECT_EQ(slice(x, 0, 8), times(0.5F * 3 / 8, {-25, 25, 8, 8, 8, 8, 8, -8}));
    EXPECT_EQ(slice(x, 24, 8), times(0.5F * 5 / 8, {-8, -25, 25, 8, 8, 25, 8, 25}));
    EXPECT_EQ(slice(x, 248, 8), times(0.5F * 31 / 8, std::vector<float>(8, -43)));
}

TEST(QuantBlocks, Iq2Xxs) {
    BlockIQ2_XXS b{.d = kD, .qs = {}};
    b.qs[0] = 1;    // 43 8 8 8 8 8 8 8
    b.qs[3] = 200;  // 8 8 8 8 25 8 43 25
    const uint32_t first = 0b0000001U | 0b1100000U << 21 | 3U << 28;
    std::memcpy(b.qs + 4, &first, 4);
    b.qs[56] = 255;  // 8 25 8 8 25 43 43 43
    const uint32_t last = 15U << 28;
    std::memcpy(b.qs + 60, &last, 4);
    const auto x = values_of(DType::iq2_xxs, b);
    EXPECT_EQ(slice(x, 0, 8), times(0.5F * 7 / 8, {-43, 8, 8, 8, 8, 8, 8, -8}));
    EXPECT_EQ(slice(x, 24, 8), times(0.5F * 7 / 8, {8, 8, 8, 8, 25, -8, -43, 25}));
    EXPECT_EQ(slice(x, 224, 8), times(0.5F * 31 / 8, {8, 25, 8, 8, 25, 43, 43, 43}));
}

TEST(QuantBlocks, Iq1SIsMovedByAnEighth) {
    BlockIQ1_S b{.d = kD, .qs = {}, .qh = {}};
    b.qs[0] = 1;           // 1 and seven of -1
    b.qs[3] = 1027 & 255;  // 1 -1 and six zeros
    b.qh[0] = (1027 >> 8) << 9 | 2 << 12;
    b.qs[28] = 2047 & 255;  // 1 all over
    b.qh[7] = (2047 >> 8) | 7 << 12 | 1 << 15;
    const auto x = values_of(DType::iq1_s, b);
    EXPECT_EQ(slice(x, 0, 3), times(0.5F * 5, {1.125F, -0.875F, -0.875F}));
    EXPECT_EQ(slice(x, 24, 4), times(0.5F * 5, {1.125F, -0.875F, 0.125F, 0.125F}));
    EXPECT_EQ(slice(x, 224, 8), times(0.5F * 15, std::vector<float>(8, 0.875F)));
    EXPECT_EQ(x[232], 0.5F * 15 * -1.125F);
}

TEST(QuantBlocks, Iq1MHasItsScaleInFourPlaces) {
    BlockIQ1_M b{.qs = {}, .qh = {}, .scales = {}};
    const uint16_t d = f32_to_f16(1.171875F);  // 0x3cb0: nibbles that differ
    ASSERT_EQ(d, 0x3cb0);
    b.scales[0] = 0x0000 | 5;       // sub-block 0
    b.scales[1] = 0xb000 | 2 << 9;  // sub-block 7
    b.scales[2] = 0xc000;
    b.scales[3] = 0x3000 | 7 << 9;  // sub-block 15
    b.qs[0] = 1;
    b.qs[1] = 1500 & 255;  // 0 -1 -1 0 -1 0 -1 1
    b.qh[0] = static_cast<uint8_t>(((1500 >> 8) | 8) << 4);
    b.qs[31] = 2047 & 255;
    b.qh[15] = 7 << 4;
    const auto x = values_of(DType::iq1_m, b);
    EXPECT_EQ(slice(x, 0, 2), times(1.171875F * 11, {1.125F, -0.875F}));
    EXPECT_EQ(slice(x, 8, 8),
              times(1.171875F * 11, {-0.125F, -1.125F, -1.125F, -0.125F, -1.125F, -0.125F, -1.125F, 0.875F}));
    EXPECT_EQ(x[112], 1.171875F * 5 * -0.875F);
    EXPECT_EQ(slice(x, 248, 8), times(1.171875F * 15, std::vector<float>(8, 1.125F)));
}

// The digits of base 3 of a number are those of the next fraction of 256 above it.
TEST(QuantBlocks, Tq1_0HasFiveDigitsInAByte) {
    BlockTQ1_0 b{.qs = {}, .qh = {}, .d = kD};
    const auto byte = [](int number) { return static_cast<uint8_t>((number * 256 + 242) / 243); };
    b.qs[0] = byte(0 * 81 + 1 * 27 + 2 * 9 + 0 * 3 + 2);   // elements 0, 32, 64, 96, 128
    b.qs[47] = byte(2 * 81 + 2 * 27 + 1 * 9 + 1 * 3 + 0);  // elements 175, 191, 207, 223, 239
    b.qh[3] = byte(2 * 81 + 0 * 27 + 1 * 9 + 2 * 3);       // elements 243, 247, 251, 255
    const auto x = values_of(DType::tq1_0, b);
    EXPECT_EQ((std::vector<float>{x[0], x[32], x[64], x[96], x[128]}), times(0.5F, {-1, 0, 1, -1, 1}));
    EXPECT_EQ((std::vector<float>{x[175], x[191], x[207], x[223], x[239]}), times(0.5F, {1, 1, 0, 0, -1}));
    EXPECT_EQ((std::vector<float>{x[243], x[247], x[251], x[255]}), times(0.5F, {1, -1, 0, 1}));
    EXPECT_EQ(x[1], -0.5F);
}

TEST(QuantBlocks, Tq2_0) {
    BlockTQ2_0 b{.qs = {}, .d = kD};
    b.qs[1] = 0b10'01'00'10;   // elements 1, 33, 65, 97
    b.qs[63] = 0b11'00'01'10;  // elements 159, 191, 223, 255
    const auto x = values_of(DType::tq2_0, b);
    EXPECT_EQ((std::vector<float>{x[1], x[33], x[65], x[97]}), times(0.5F, {1, -1, 0, 1}));
    EXPECT_EQ((std::vector<float>{x[159], x[191], x[223], x[255]}), times(0.5F, {1, 0, -1, 2}));
}

TEST(QuantBlocks, Q2_0) {
    BlockQ2_0 b{.d = kD, .qs = {}};
    b.qs[0] = 0b11'10'01'00;   // elements 0 to 3
    b.qs[15] = 0b00'11'10'01;  // elements 60 to 63
    const auto x = values_of(DType::q2_0, b);
    EXPECT_EQ(slice(x, 0, 5), times(0.5F, {-1, 0, 1, 2, -1}));
    EXPECT_EQ(slice(x, 60, 4), times(0.5F, {0, 1, 2, -1}));
}

TEST(QuantBlocks, Q1_0) {
    BlockQ1_0 b{.d = kD, .qs = {}};
    b.qs[0] = 0b0000'0101;   // elements 0 and 2
    b.qs[15] = 0b1000'0000;  // element 127
    const auto x = values_of(DType::q1_0, b);
    EXPECT_EQ(slice(x, 0, 4), times(0.5F, {1, -1, 1, -1}));
    EXPECT_EQ(slice(x, 125, 3), times(0.5F, {-1, -1, 1}));
}

// Each book is in order, so no point is in it twice, and has no other levels than its type.
TEST(Codebooks, HaveEachPointOnce) {
    const auto check = [](const auto& grid, int level_bits, int levels) {
        for (size_t i = 0; i < grid.size(); ++i) {
            EXPECT_TRUE(i == 0 || grid[i - 1] < grid[i]) << i;
            for (int at = 0; at < (level_bits == 2 ? 16 : 12); at += level_bits)
                EXPECT_LT(grid[i] >> at & ((1 << level_bits) - 1), levels);
            EXPECT_EQ(level_bits == 3 ? grid[i] >> 12 : 0, 0);
        }
    };
    check(kIq2XxsGrid, 2, 3);
    check(kIq2XsGrid, 2, 3);
    check(kIq2SGrid, 2, 3);
    check(kIq1Grid, 2, 3);
    check(kIq3XxsGrid, 3, 8);
    check(kIq3SGrid, 3, 8);
}

// tests/data/quant/blocks.gguf says in its description where the numbers are from.
TEST(QuantBlocks, RandomOnesAreWhatAnotherImplementationMakesOfThem) {
    const auto file = GgufFile::open(std::filesystem::path(TANDEM_TEST_DATA) / "quant" / "blocks.gguf");
    ASSERT_TRUE(file) << file.error().message;
    std::set<DType> seen;
    for (const TensorRecord& tensor : file->tensors()) {
        if (tensor.dtype == DType::f32) continue;
        const TensorRecord* expected = file->find_tensor(tensor.name + ".f32");
        ASSERT_NE(expected, nullptr) << tensor.name;
        std::vector<float> want(512);
        std::memcpy(want.data(), expected->data.data(), expected->data.size());
        std::vector<float> got(512);
        decode_row(tensor.dtype, tensor.data.data(), got.data(), 512);
        EXPECT_EQ(got, want) << tensor.name;
        seen.insert(tensor.dtype);
    }
    EXPECT_EQ(seen.size(), 15U);
}

}  // namespace
}  // namespace tandem::format
