// Encoding searches, per block, the scale (and minimum) with the least weighted square error after rounding: a few
// candidates around the range of the block are rounded to integers, and least squares gives the best scale for those.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "base/check.h"
#include "base/float16.h"
#include "format/quant.h"

namespace tandem::format {

namespace {

constexpr float kF16Max = 65504.0F;
// Below this no f16 scale differs from zero, and its reciprocal could overflow.
constexpr float kTiny = 1e-20F;

// Candidates: the range is mapped to `levels + kStep * i` levels.
constexpr int kCandidates = 8;  // on each side
constexpr float kStep = 0.12F;

// Four floats in a vector register: the search spends all its time in the loops over these.
using Lanes __attribute__((vector_size(16))) = float;
constexpr size_t kLanes = 4;

Lanes load(const float* x) {
    Lanes lanes;
    std::memcpy(&lanes, x, sizeof(lanes));
    return lanes;
}

float total(Lanes sum) {
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The nearest integer in [low, high]: adding and taking away 1.5 * 2^23 leaves no room for a fraction.
template <typename Float>
Float nearest(Float x, int low, int high) {
    constexpr float kNoFraction = 12582912.0F;
    const Float least = Float{} + static_cast<float>(low);
    const Float most = Float{} + static_cast<float>(high);
    const Float below = x < most ? x : most;
    const Float inside = below > least ? below : least;
    return (inside + kNoFraction) - kNoFraction;
}

int nearest_int(float x, int low, int high) {
    return static_cast<int>(nearest(x, low, high));
}

uint16_t to_f16(float x) {
    return f32_to_f16(std::clamp(x, -kF16Max, kF16Max));
}

float reciprocal(float x) {
    return x == 0.0F ? 0.0F : 1.0F / x;
}

// The elements of a block and how much each matters: larger ones contribute more to a dot product.
template <size_t N>
struct Weighted {
    const float* x;
    std::array<float, N> w;

    explicit Weighted(const float* elements) : x(elements) {
        float square = 0.0F;
        for (size_t i = 0; i < N; ++i) square += x[i] * x[i];
        const float inverse = reciprocal(std::sqrt(square / static_cast<float>(N)));
        for (size_t i = 0; i < N; ++i) w[i] = 1.0F + std::abs(x[i]) * inverse;
    }
};

// x is about scale * q with q in [low, -low). The scale is negative when the largest magnitude is positive: the range
// has one more step below zero than above.
template <size_t N>
float best_scale(const float* x, int low) {
    const float largest = *std::max_element(x, x + N, [](float a, float b) { return std::abs(a) < std::abs(b); });
    if (std::abs(largest) < kTiny) return 0.0F;
    const Weighted<N> block(x);
    float best = 0.0F;
    float best_gain = 0.0F;  // how much of the weighted square of x the scale explains
    for (int candidate = -kCandidates; candidate <= kCandidates; ++candidate) {
        const float inverse = (static_cast<float>(low) - kStep * static_cast<float>(candidate)) / largest;
        Lanes xqs{};
        Lanes qqs{};
        for (size_t i = 0; i < N; i += kLanes) {
            const Lanes xs = load(x + i);
            const Lanes q = nearest(xs * inverse, low, -low - 1);
            const Lanes wq = load(&block.w[i]) * q;
            xqs += wq * xs;
            qqs += wq * q;
        }
        const float xq = total(xqs);
        const float qq = total(qqs);
        if (qq > 0.0F && xq * xq > best_gain * qq) {
            best = xq / qq;
            best_gain = xq * best;
        }
    }
    return best;
}

// x is about scale * q + min with q in [0, levels], scale >= 0.
struct Affine {
    float scale = 0.0F;
    float min = 0.0F;
};

// What an affine map may be.
struct AffineLimits {
    int levels = 0;
    bool min_below_zero = false;  // it is stored without a sign
};

struct AffineFit {
    Affine affine;
    float error = INFINITY;
};

// Least squares for the integers that `start` rounds the elements to.
template <size_t N>
AffineFit refit(const Weighted<N>& block, Affine start, AffineLimits limits) {
    const float inverse = reciprocal(start.scale);
    std::array<Lanes, N / kLanes> q;
    Lanes sws{}, sqs{}, sqqs{}, sys{}, syqs{}, sxqs{};
    for (size_t i = 0; i < N; i += kLanes) {
        const Lanes xs = load(block.x + i);
        const Lanes ws = load(&block.w[i]);
        const Lanes y = xs - start.min;  // sums of x itself would cancel when the range is far from zero
        const Lanes rounded = nearest(y * inverse, 0, limits.levels);
        q[i / kLanes] = rounded;
        sws += ws;
        sqs += ws * rounded;
        sqqs += ws * rounded * rounded;
        sys += ws * y;
        syqs += ws * y * rounded;
        sxqs += ws * xs * rounded;
    }
    const float sw = total(sws), sq = total(sqs), sqq = total(sqqs), sy = total(sys), syq = total(syqs);
    Affine fit = start;
    if (const float determinant = sw * sqq - sq * sq; determinant > 0.0F)
        fit = {(sw * syq - sy * sq) / determinant, start.min + (sqq * sy - sq * syq) / determinant};
    if (limits.min_below_zero && fit.min > 0.0F) fit = {sqq > 0.0F ? total(sxqs) / sqq : 0.0F, 0.0F};
    fit.scale = std::max(fit.scale, 0.0F);
    Lanes errors{};
    for (size_t i = 0; i < N; i += kLanes) {
        const Lanes difference = fit.scale * q[i / kLanes] + fit.min - load(block.x + i);
        errors += load(&block.w[i]) * difference * difference;
    }
    return {fit, total(errors)};
}

template <size_t N>
Affine best_affine(const float* x, AffineLimits limits) {
    const auto [low, high] = std::minmax_element(x, x + N);
    const float min = limits.min_below_zero ? std::min(*low, 0.0F) : *low;
    const float range = *high - min;
    if (range < kTiny) return {0.0F, min};
    const Weighted<N> block(x);
    AffineFit best;
    for (int candidate = -kCandidates; candidate <= kCandidates; ++candidate) {
        const float steps = static_cast<float>(limits.levels) + kStep * static_cast<float>(candidate);
        const AffineFit fit = refit(block, {range / steps, min}, limits);
        if (fit.error < best.error) best = fit;
    }
    const AffineFit again = refit(block, best.affine, limits);  // the fit may round differently
    return again.error < best.error ? again.affine : best.affine;
}

void put_nibble(uint8_t* qs, int i, int q) {
    const int shift = i < 16 ? 0 : 4;
    qs[i % 16] = static_cast<uint8_t>(qs[i % 16] | ((q & 15) << shift));
}

void put_bit(uint8_t* bits, int i, int bit) {
    bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (bit << (i % 8)));
}

// In every encode() the integers follow from the scale as it is stored, so its rounding costs nothing twice.

void encode(const float* x, BlockQ8_0& b) {
    float largest = 0.0F;
    for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x[i]));
    b.d = to_f16(largest / 127.0F);
    const float inverse = reciprocal(f16_to_f32(b.d));
    for (int i = 0; i < 32; ++i) b.qs[i] = static_cast<int8_t>(nearest_int(x[i] * inverse, -127, 127));
}

void encode(const float* x, BlockQ4_0& b) {
    b.d = to_f16(best_scale<32>(x, -8));
    const float inverse = reciprocal(f16_to_f32(b.d));
    for (int i = 0; i < 32; ++i) put_nibble(b.qs, i, nearest_int(x[i] * inverse, -8, 7) + 8);
}

void encode(const float* x, BlockQ4_1& b) {
    const Affine fit = best_affine<32>(x, {.levels = 15});
    b.d = to_f16(fit.scale);
    b.m = to_f16(fit.min);
    const float inverse = reciprocal(f16_to_f32(b.d));
    const float min = f16_to_f32(b.m);
    for (int i = 0; i < 32; ++i) put_nibble(b.qs, i, nearest_int((x[i] - min) * inverse, 0, 15));
}

void encode(const float* x, BlockQ5_0& b) {
    b.d = to_f16(best_scale<32>(x, -16));
    const float inverse = reciprocal(f16_to_f32(b.d));
    for (int i = 0; i < 32; ++i) {
        const int q = nearest_int(x[i] * inverse, -16, 15) + 16;
        put_nibble(b.qs, i, q);
        put_bit(b.qh, i, q >> 4);
    }
}

void encode(const float* x, BlockQ5_1& b) {
    const Affine fit = best_affine<32>(x, {.levels = 31});
    b.d = to_f16(fit.scale);
    b.m = to_f16(fit.min);
    const float inverse = reciprocal(f16_to_f32(b.d));
    const float min = f16_to_f32(b.m);
    for (int i = 0; i < 32; ++i) {
        const int q = nearest_int((x[i] - min) * inverse, 0, 31);
        put_nibble(b.qs, i, q);
        put_bit(b.qh, i, q >> 4);
    }
}

// The inverse of k_scale_min().
void put_k_scale_min(uint8_t* scales, int s, int scale, int min) {
    const auto merge = [](uint8_t& byte, int bits) { byte = static_cast<uint8_t>(byte | bits); };
    if (s < 4) {
        merge(scales[s], scale);
        merge(scales[s + 4], min);
    } else {
        merge(scales[s + 4], (scale & 15) | ((min & 15) << 4));
        merge(scales[s - 4], (scale >> 4) << 6);
        merge(scales[s], (min >> 4) << 6);
    }
}

// The scales of q4_k and q5_k, and the integers of all elements.
template <typename Block>
void encode_k_scales(const float* x, int levels, Block& b, std::array<uint8_t, 256>& q) {
    std::array<Affine, 8> fits;
    float largest_scale = 0.0F;
    float largest_min = 0.0F;
    for (int s = 0; s < 8; ++s) {
        fits[s] = best_affine<32>(x + s * 32, {.levels = levels, .min_below_zero = true});
        largest_scale = std::max(largest_scale, fits[s].scale);
        largest_min = std::max(largest_min, -fits[s].min);
    }
    b.d = to_f16(largest_scale / 63.0F);
    b.dmin = to_f16(largest_min / 63.0F);
    const float d = f16_to_f32(b.d);
    const float dmin = f16_to_f32(b.dmin);
    for (int s = 0; s < 8; ++s) {
        const int scale = nearest_int(fits[s].scale * reciprocal(d), 0, 63);
        const int min = nearest_int(-fits[s].min * reciprocal(dmin), 0, 63);
        put_k_scale_min(b.scales, s, scale, min);
        const float inverse = reciprocal(d * static_cast<float>(scale));
        const float offset = dmin * static_cast<float>(min);
        for (int i = s * 32; i < s * 32 + 32; ++i)
            q[i] = static_cast<uint8_t>(nearest_int((x[i] + offset) * inverse, 0, levels));
    }
}

void put_k_nibbles(const std::array<uint8_t, 256>& q, uint8_t* qs) {
    for (int chunk = 0; chunk < 4; ++chunk) {
        for (int i = 0; i < 32; ++i) {
            const int first = chunk * 64 + i;
            qs[chunk * 32 + i] = static_cast<uint8_t>((q[first] & 15) | ((q[first + 32] & 15) << 4));
        }
    }
}

void encode(const float* x, BlockQ4_K& b) {
    std::array<uint8_t, 256> q;
    encode_k_scales(x, 15, b, q);
    put_k_nibbles(q, b.qs);
}

void encode(const float* x, BlockQ5_K& b) {
    std::array<uint8_t, 256> q;
    encode_k_scales(x, 31, b, q);
    put_k_nibbles(q, b.qs);
    for (int e = 0; e < 256; ++e) b.qh[e % 32] = static_cast<uint8_t>(b.qh[e % 32] | ((q[e] >> 4) << (e / 32)));
}

void encode(const float* x, BlockQ6_K& b) {
    std::array<float, 16> scales;
    for (int s = 0; s < 16; ++s) scales[s] = best_scale<16>(x + s * 16, -32);
    const float largest =
        *std::max_element(scales.begin(), scales.end(), [](float a, float c) { return std::abs(a) < std::abs(c); });
    b.d = to_f16(largest / -128.0F);
    const float d = f16_to_f32(b.d);
    for (int s = 0; s < 16; ++s) b.scales[s] = static_cast<int8_t>(nearest_int(scales[s] * reciprocal(d), -128, 127));
    for (int e = 0; e < 256; ++e) {
        const int sub_block = e / 16;
        const float inverse = reciprocal(d * static_cast<float>(b.scales[sub_block]));
        const int q = nearest_int(x[e] * inverse, -32, 31) + 32;
        const int half = e / 128;
        const int group = e % 128 / 32;
        const int l = e % 32;
        uint8_t& low = b.ql[half * 64 + group % 2 * 32 + l];
        uint8_t& high = b.qh[half * 32 + l];
        low = static_cast<uint8_t>(low | ((q & 15) << (group < 2 ? 0 : 4)));
        high = static_cast<uint8_t>(high | ((q >> 4) << (2 * group)));
    }
}

template <typename Block>
void encode_blocks(const float* in, std::byte* out, int64_t cols) {
    CHECK(cols % Block::kElements == 0, "a row is a whole number of blocks");
    std::array<float, Block::kElements> finite;
    for (int64_t i = 0; i < cols; i += Block::kElements, out += sizeof(Block)) {
        for (int k = 0; k < Block::kElements; ++k)
            finite[k] = std::isnan(in[i + k]) ? 0.0F : std::clamp(in[i + k], -kF16Max, kF16Max);
        Block block{};
        encode(finite.data(), block);
        std::memcpy(out, &block, sizeof(Block));
    }
}

void encode_16(const float* in, std::byte* out, int64_t cols, uint16_t (*convert)(float)) {
    for (int64_t i = 0; i < cols; ++i) {
        const uint16_t bits = convert(in[i]);
        std::memcpy(out + 2 * i, &bits, sizeof(bits));
    }
}

}  // namespace

void encode_row(DType dtype, const float* in, std::byte* out, int64_t cols) {
    switch (dtype) {
        case DType::f32:
            if (cols > 0) std::memcpy(out, in, static_cast<size_t>(cols) * sizeof(float));  // no null to memcpy
            return;
        case DType::f16:
            return encode_16(in, out, cols, f32_to_f16);
        case DType::bf16:
            return encode_16(in, out, cols, f32_to_bf16);
        case DType::i32:
            check_failed(__FILE__, __LINE__, "i32 holds no floats");
        case DType::q8_0:
            return encode_blocks<BlockQ8_0>(in, out, cols);
        case DType::q4_0:
            return encode_blocks<BlockQ4_0>(in, out, cols);
        case DType::q4_1:
            return encode_blocks<BlockQ4_1>(in, out, cols);
        case DType::q5_0:
            return encode_blocks<BlockQ5_0>(in, out, cols);
        case DType::q5_1:
            return encode_blocks<BlockQ5_1>(in, out, cols);
        case DType::q4_k:
            return encode_blocks<BlockQ4_K>(in, out, cols);
        case DType::q5_k:
            return encode_blocks<BlockQ5_K>(in, out, cols);
        case DType::q6_k:
            return encode_blocks<BlockQ6_K>(in, out, cols);
    }
}

}  // namespace tandem::format
