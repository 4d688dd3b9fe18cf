#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include <lut_based_ops.h>  // NOLINT(misc-include-cleaner): last, since aie_api defines `restrict`
#include <vec_math.h>

namespace {

using aie::rounding_mode;
using aie::saturation_mode;

// A core of its own for every test: the thread's may have been left in any mode.
class HostAie : public testing::Test {
  protected:
    void SetUp() override { aie::host::core = {}; }
    void TearDown() override { aie::host::core = {}; }
};

template <typename T, unsigned N>
aie::vector<T, N> counting(int first = 0) {
    aie::vector<T, N> v;
    for (unsigned i = 0; i < N; ++i) v[i] = static_cast<T>(first + static_cast<int>(i));
    return v;
}

template <typename T, unsigned N>
std::vector<int> list(const aie::vector<T, N>& v) {
    std::vector<int> elements(N);
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): an int8 is a number here
    for (unsigned i = 0; i < N; ++i) elements[i] = static_cast<int>(v[i]);
    return elements;
}

// What each mode means, in the words of real numbers.
double rounded(double x, rounding_mode mode) {
    const double down = std::floor(x);
    const bool half = x - down == 0.5;
    switch (mode) {
        case rounding_mode::floor:
            return down;
        case rounding_mode::ceil:
            return std::ceil(x);
        case rounding_mode::symmetric_floor:
            return std::trunc(x);
        case rounding_mode::symmetric_ceil:
            return x < 0 ? down : std::ceil(x);
        case rounding_mode::negative_inf:
            return std::ceil(x - 0.5);
        case rounding_mode::positive_inf:
            return std::floor(x + 0.5);
        case rounding_mode::symmetric_zero:
            return x < 0 ? std::floor(x + 0.5) : std::ceil(x - 0.5);
        case rounding_mode::symmetric_inf:
            return std::round(x);
        case rounding_mode::conv_even:
            return std::nearbyint(x);
        case rounding_mode::conv_odd:
            return !half ? std::nearbyint(x) : std::fmod(down, 2) == 0 ? down + 1 : down;
    }
    return 0;
}

constexpr std::array kModes = {rounding_mode::floor,           rounding_mode::ceil,
                               rounding_mode::symmetric_floor, rounding_mode::symmetric_ceil,
                               rounding_mode::negative_inf,    rounding_mode::positive_inf,
                               rounding_mode::symmetric_zero,  rounding_mode::symmetric_inf,
                               rounding_mode::conv_even,       rounding_mode::conv_odd};

TEST_F(HostAie, ACoreStartsRoundingDownAndWithoutSaturation) {
    EXPECT_EQ(aie::get_rounding(), rounding_mode::floor);
    EXPECT_EQ(aie::get_saturation(), saturation_mode::none);
    aie::accum<acc32, 16> acc;
    acc[0] = -1;
    acc[1] = 7;
    acc[2] = 130 * 4;
    EXPECT_EQ(acc.to_vector<int8>(2)[0], -1);
    EXPECT_EQ(acc.to_vector<int8>(2)[1], 1);
    EXPECT_EQ(acc.to_vector<int8>(2)[2], 130 - 256);
}

TEST_F(HostAie, EveryRoundingModeOfIntegersAndFloats) {
    for (const rounding_mode mode : kModes) {
        aie::set_rounding(mode);
        for (int value = -40; value <= 40; ++value) {
            aie::accum<acc32, 16> acc;
            acc[3] = value;
            const double exact = value / 8.0;
            EXPECT_EQ(acc.to_vector<int16>(3)[3], rounded(exact, mode))
                << value << " in mode " << static_cast<int>(mode);
            const auto fixed = aie::to_fixed<int32>(aie::broadcast<float, 16>(static_cast<float>(exact)));
            EXPECT_EQ(fixed[0], rounded(exact, mode)) << value << " in mode " << static_cast<int>(mode);
        }
    }
}

TEST_F(HostAie, EveryRoundingModeOfBfloat16) {
    for (const rounding_mode mode : kModes) {
        aie::set_rounding(mode);
        for (int value = -16 * 300; value <= 16 * 300; value += 3) {
            aie::accum<accfloat, 16> acc;
            acc[0] = static_cast<float>(value) / 16;
            // Eight bits stay: steps of 1 up to 256, of 2 beyond, and finer ones below 128.
            const double step = std::ldexp(1.0, std::ilogb(acc[0] == 0 ? 1.0F : acc[0]) - 7);
            const double exact = rounded(acc[0] / step, mode) * step;
            ASSERT_EQ(static_cast<float>(acc.to_vector<bfloat16>()[0]), exact)
                << acc[0] << " in mode " << static_cast<int>(mode);
        }
    }
    EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(NAN))));
    EXPECT_EQ(static_cast<float>(bfloat16(INFINITY)), INFINITY);
}

TEST_F(HostAie, SaturationStopsAtTheLimits) {
    aie::accum<acc32, 16> acc;
    acc[0] = 300;
    acc[1] = -300;
    aie::set_saturation(saturation_mode::saturate);
    EXPECT_EQ(acc.to_vector<int8>()[0], 127);
    EXPECT_EQ(acc.to_vector<int8>()[1], -128);
    EXPECT_EQ(acc.to_vector<uint8>()[0], 255);
    EXPECT_EQ(acc.to_vector<uint8>()[1], 0);
    aie::set_saturation(saturation_mode::symmetric);
    EXPECT_EQ(acc.to_vector<int8>()[1], -127);
}

TEST_F(HostAie, ConversionsToIntegersStopAtTheLimitsAndTakeNaNForZero) {
    const std::array<float, 4> values = {1e20F, -1e20F, NAN, -INFINITY};
    aie::vector<float, 4> v;
    std::ranges::copy(values, v.data());
    EXPECT_EQ(list(aie::to_fixed<int32>(v)), (std::vector<int>{INT32_MAX, INT32_MIN, 0, INT32_MIN}));
    EXPECT_EQ(aie::to_fixed<int16>(1.75F, 8), 448);
    EXPECT_EQ(aie::to_float<float>(counting<int32, 16>(), 1)[3], 1.5F);
}

TEST_F(HostAie, IntegersWrapAround) {
    aie::accum<acc32, 16> acc;
    acc[0] = INT32_MAX;
    const auto one = aie::broadcast<int8, 16>(1);
    EXPECT_EQ(aie::mac(acc, one, one)[0], INT32_MIN);
    EXPECT_EQ(aie::add(aie::broadcast<int8, 16>(127), one)[0], -128);
    EXPECT_EQ(aie::mul<acc64>(aie::broadcast<int32, 16>(1 << 30), aie::broadcast<int32, 16>(8))[0], int64_t{1} << 33);
}

template <unsigned R, unsigned S, unsigned T, typename A, typename B>
void expect_block_product() {
    std::mt19937 random(1);
    aie::vector<A, R * S> a;
    aie::vector<B, S * T> b;
    for (unsigned i = 0; i < R * S; ++i) a[i] = static_cast<A>(static_cast<int16_t>(random() % 256 - 128));
    for (unsigned i = 0; i < S * T; ++i) b[i] = static_cast<B>(static_cast<int16_t>(random() % 256 - 128));
    aie::mmul<R, S, T, A, B> block;
    block.mul(a, b);
    block.mac(a, b);
    for (unsigned i = 0; i < R; ++i) {
        for (unsigned j = 0; j < T; ++j) {
            double sum = 0;
            for (unsigned k = 0; k < S; ++k)
                sum += static_cast<double>(a[i * S + k]) * static_cast<double>(b[k * T + j]);
            EXPECT_EQ(static_cast<double>(block.to_accum()[i * T + j]), 2 * sum);
        }
    }
}

TEST_F(HostAie, BlockProductsOfEveryType) {
    expect_block_product<4, 8, 8, int8, int8>();
    expect_block_product<4, 8, 8, uint8, int8>();
    expect_block_product<4, 8, 8, uint8, uint8>();
    expect_block_product<2, 8, 8, int8, int8>();
    expect_block_product<4, 4, 8, int16, int8>();
    expect_block_product<4, 4, 4, int16, int16>();
    expect_block_product<4, 2, 4, int32, int32>();
    expect_block_product<4, 8, 4, bfloat16, bfloat16>();
}

TEST_F(HostAie, BlockProductsCountTheirCycles) {
    const aie::mmul<4, 8, 8, int8, int8> bytes;
    aie::mmul<4, 8, 8, int8, int8>(bytes).mac({}, {});
    EXPECT_EQ(aie::host::core.work.macs, 256U);
    EXPECT_EQ(aie::host::core.work.matrix_cycles, 1U);
    aie::mmul<4, 8, 4, bfloat16, bfloat16> halves;
    halves.mac({}, {});
    EXPECT_EQ(aie::host::core.work.matrix_cycles, 2U);
}

TEST_F(HostAie, ShufflesMoveElements) {
    const auto v = counting<int32, 8>();
    EXPECT_EQ(list(aie::filter_even(v)), (std::vector<int>{0, 2, 4, 6}));
    EXPECT_EQ(list(aie::filter_odd(v, 2)), (std::vector<int>{2, 3, 6, 7}));
    EXPECT_EQ(list(aie::shuffle_down(v, 3)), (std::vector<int>{3, 4, 5, 6, 7, 5, 6, 7}));
    EXPECT_EQ(list(aie::shuffle_up_rotate(v, 3)), (std::vector<int>{5, 6, 7, 0, 1, 2, 3, 4}));
    EXPECT_EQ(list(aie::shuffle_down_rotate(v, 3)), (std::vector<int>{3, 4, 5, 6, 7, 0, 1, 2}));
    EXPECT_EQ(list(aie::shuffle_down_fill(v, counting<int32, 8>(10), 6)),
              (std::vector<int>{6, 7, 10, 11, 12, 13, 14, 15}));
    EXPECT_EQ(list(aie::shuffle_up_fill(v, counting<int32, 8>(10), 2)), (std::vector<int>{16, 17, 0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(list(aie::reverse(v)), (std::vector<int>{7, 6, 5, 4, 3, 2, 1, 0}));
    EXPECT_EQ(list(aie::transpose(v, 2, 4)), (std::vector<int>{0, 4, 1, 5, 2, 6, 3, 7}));
}

TEST_F(HostAie, ZipAndUnzipUndoEachOther) {
    const auto a = counting<int16, 16>();
    const auto b = counting<int16, 16>(100);
    for (unsigned step : {1U, 2U, 8U}) {
        const auto zipped = aie::interleave_zip(a, b, step);
        EXPECT_EQ(zipped.first[step], 100) << step;
        const auto back = aie::interleave_unzip(zipped.first, zipped.second, step);
        EXPECT_EQ(list(back.first), list(a));
        EXPECT_EQ(list(back.second), list(b));
    }
}

TEST_F(HostAie, PartsOfVectors) {
    auto v = counting<int8, 32>();
    EXPECT_EQ(list(v.extract<8>(2)), (std::vector<int>{16, 17, 18, 19, 20, 21, 22, 23}));
    v.insert(0, v.extract<16>(1));
    EXPECT_EQ(v[0], 16);
    EXPECT_EQ(list(aie::concat(v.extract<8>(0), v.extract<8>(3))), list(aie::concat(v.extract<8>(0), v.extract<8>(1))));
    EXPECT_EQ(v.cast_to<int16>()[0], 16 + 17 * 256);
    EXPECT_EQ(v.unpack()[0], 16);
    EXPECT_EQ((aie::broadcast<int16, 16>(300).pack()[0]), 300 - 256);
    EXPECT_EQ(v.grow<64>(1)[32], 16);
    EXPECT_EQ(v.grow_replicate<64>()[63], v[31]);
}

TEST_F(HostAie, ComparisonsSelectAndReduce) {
    const auto v = counting<float, 16>(-3);
    const auto low = aie::lt(v, 2.0F);
    EXPECT_EQ(low.count(), 5U);
    EXPECT_EQ((~low).count(), 11U);
    EXPECT_TRUE((low & aie::ge(v, 2.0F)).empty());
    EXPECT_TRUE((low | aie::ge(v, 2.0F)).full());
    EXPECT_EQ(aie::select(v, 9.0F, low)[0], 9.0F);
    EXPECT_EQ(aie::select(v, 9.0F, low)[5], 2.0F);
    EXPECT_EQ(aie::reduce_max(v), 12.0F);
    EXPECT_EQ(aie::reduce_min(aie::abs(v)), 0.0F);
    EXPECT_EQ(aie::reduce_add(v), 72.0F);
    EXPECT_EQ(aie::reduce_add(counting<int8, 32>()), (31 * 16) % 256 - 256);
}

template <typename T, typename V>
concept Selects = requires(aie::vector<T, 16> v, V other, aie::mask<16> mask) {
    aie::select(v, other, mask);
    aie::select(other, v, mask);
};

TEST_F(HostAie, SelectTakesNothingButItsOwnType) {
    EXPECT_TRUE((Selects<bfloat16, bfloat16>));
    EXPECT_FALSE((Selects<bfloat16, float>));
    EXPECT_FALSE((Selects<float, double>));
}

TEST_F(HostAie, WhatNobodySetIsNoNumber) {
    aie::vector<float, 16> register_of_nobody;
    EXPECT_TRUE(std::isnan(register_of_nobody[3]));
    aie::accum<accfloat, 16> sum_of_nothing;
    EXPECT_TRUE(std::isnan(aie::add(sum_of_nothing, aie::zeros<float, 16>()).to_vector<float>()[3]));
}

// As the library of AIE2 makes them of integers.
TEST_F(HostAie, ConversionsCostWhatTheyCostOnTheCore) {
    const auto operations = [](const auto& convert) {
        const uint64_t before = aie::host::core.work.vector_ops;
        convert();
        return aie::host::core.work.vector_ops - before;
    };
    EXPECT_EQ(operations([] { aie::to_fixed<int32>(aie::zeros<float, 16>()); }), 20U);
    EXPECT_EQ(operations([] { aie::to_float<float>(aie::zeros<int32, 16>()); }), 10U);
}

TEST_F(HostAie, IteratorsLoadAndStore) {
    alignas(64) std::array<int32, 32> from = {};
    alignas(64) std::array<int32, 32> to = {};
    for (int i = 0; i < 32; ++i) from[i] = i;
    auto in = aie::cbegin_vector<16>(from.data());
    auto out = aie::begin_restrict_vector<16>(to.data());
    for (int i = 0; i < 2; ++i) {
        const aie::vector<int32, 16> v = *in++;
        *out++ = aie::add(v, 1);
    }
    EXPECT_EQ(to[31], 32);
    EXPECT_EQ(in - aie::cbegin_vector<16>(from.data()), 2);
    EXPECT_EQ(aie::host::core.work.load_bytes, 128U);
    EXPECT_EQ(aie::host::core.work.store_bytes, 128U);
}

TEST_F(HostAie, FunctionsOfTables) {
    for (int i = -1000; i <= 1000; ++i) {
        const bfloat16 x(static_cast<float>(i) / 64);
        const double exact = static_cast<double>(static_cast<float>(x));
        const v16bfloat16 v = aie::broadcast<bfloat16, 16>(x);
        // x in steps of 1/256, and two numbers of a table.
        EXPECT_NEAR(getExpBf16(v)[0] / std::exp(exact), 1, 2.0 / 256);
        // A line over a quarter is off by the curvature of tanh, 0.77 at the most, times 1/16/8; and by its rounding.
        EXPECT_NEAR(static_cast<float>(getTanhBf16(v)[0]), std::tanh(exact), 0.77 / 128 + 1.0 / 128);
        EXPECT_NEAR(static_cast<float>(getErfBf16(v)[0]), std::erf(exact), 1.0 / 128);
    }
    EXPECT_EQ(static_cast<float>(getInvBf16(4.0F)), 0.25F);
    EXPECT_EQ(static_cast<float>(getRsqrtBf16(aie::broadcast<bfloat16, 32>(16.0F))[5]), 0.25F);
    EXPECT_EQ(static_cast<float>(getSqrtBf16(aie::broadcast<bfloat16, 32>(16.0F))[5]), 4.0F);
}

}  // namespace
