// The search for the scale (and minimum) of a block with the least weighted square error after rounding: a few
// candidates around the range of the block are rounded to integers, and least squares gives the best scale for those.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/float16.h"

namespace tandem::format {

inline constexpr float kF16Max = 65504.0F;
// Below this no f16 scale differs from zero, and its reciprocal could overflow.
inline constexpr float kTiny = 1e-20F;

// Candidates: the range is mapped to `levels + kStep * i` levels.
inline constexpr int kCandidates = 8;  // on each side
inline constexpr float kStep = 0.12F;

// Four floats in a vector register: the search spends all its time in the loops over these.
using Lanes __attribute__((vector_size(16))) = float;
inline constexpr size_t kLanes = 4;

inline Lanes load(const float* x) {
    Lanes lanes;
    std::memcpy(&lanes, x, sizeof(lanes));
    return lanes;
}

inline float total(Lanes sum) {
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

inline Lanes magnitude(Lanes x) {
    return x < 0.0F ? -x : x;
}

// The first of those with the largest magnitude.
template <size_t N>
float largest_of(const float* x) {
    Lanes most{};
    for (size_t i = 0; i < N; i += kLanes) {
        const Lanes size = magnitude(load(x + i));
        most = size > most ? size : most;
    }
    const float largest = std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
    size_t i = 0;
    while (i + 1 < N && std::abs(x[i]) != largest) ++i;
    return x[i];
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

inline int nearest_int(float x, int low, int high) {
    return static_cast<int>(nearest(x, low, high));
}

inline uint16_t to_f16(float x) {
    return f32_to_f16(std::clamp(x, -kF16Max, kF16Max));
}

inline float reciprocal(float x) {
    return x == 0.0F ? 0.0F : 1.0F / x;
}

// The one of largest magnitude, with its sign.
template <size_t N>
float largest_magnitude(const std::array<float, N>& x) {
    return *std::max_element(x.begin(), x.end(), [](float a, float b) { return std::abs(a) < std::abs(b); });
}

// Elements of a block, and how much an error of each matters by its column; null: all alike.
struct Elements {
    const float* x;
    const float* importance;

    Elements from(int first) const { return {x + first, importance == nullptr ? nullptr : importance + first}; }
};

// How much each of N elements matters: larger ones contribute more to a dot product.
template <size_t N>
struct Weighted {
    const float* x;
    std::array<float, N> w;

    explicit Weighted(Elements in) : x(in.x) {
        Lanes squares{};
        for (size_t i = 0; i < N; i += kLanes) squares += load(x + i) * load(x + i);
        const float inverse = reciprocal(std::sqrt(total(squares) / static_cast<float>(N)));
        for (size_t i = 0; i < N; i += kLanes) {
            const Lanes weight = 1.0F + magnitude(load(x + i)) * inverse;
            std::memcpy(&w[i], &weight, sizeof(weight));
        }
        if (in.importance == nullptr) return;
        const float most = *std::max_element(in.importance, in.importance + N);
        if (!(most > 0.0F) || !std::isfinite(most)) return;  // none of them was ever used: they count alike
        for (size_t i = 0; i < N; ++i) w[i] *= in.importance[i] / most;
    }
};

// x is about scale * q with q in [low, -low). The scale is negative when the largest magnitude is positive: the range
// has one more step below zero than above.
template <size_t N>
float best_scale(Elements in, int low) {
    const float* x = in.x;
    const float largest = largest_of<N>(x);
    if (std::abs(largest) < kTiny) return 0.0F;
    const Weighted<N> block(in);
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

// Least squares for the integers that `start` rounds the elements to. Its error follows from the sums that give the
// fit.
template <size_t N>
AffineFit refit(const Weighted<N>& block, Affine start, AffineLimits limits) {
    const float inverse = reciprocal(start.scale);
    Lanes sws{}, sqs{}, sqqs{}, sys{}, syqs{}, syys{};
    for (size_t i = 0; i < N; i += kLanes) {
        const Lanes ws = load(&block.w[i]);
        const Lanes y = load(block.x + i) - start.min;  // sums of x itself would cancel when the range is far from zero
        const Lanes q = nearest(y * inverse, 0, limits.levels);
        const Lanes wq = ws * q;
        const Lanes wy = ws * y;
        sws += ws;
        sqs += wq;
        sqqs += wq * q;
        sys += wy;
        syqs += wq * y;
        syys += wy * y;
    }
    const float sw = total(sws), sq = total(sqs), sqq = total(sqqs), sy = total(sys), syq = total(syqs);
    float scale = start.scale;
    float shift = 0.0F;  // of the minimum
    if (const float determinant = sw * sqq - sq * sq; determinant > 0.0F) {
        scale = (sw * syq - sy * sq) / determinant;
        shift = (sqq * sy - sq * syq) / determinant;
    }
    if (limits.min_below_zero && start.min + shift > 0.0F) {
        shift = -start.min;
        scale = sqq > 0.0F ? (syq - shift * sq) / sqq : 0.0F;
    }
    scale = std::max(scale, 0.0F);
    const float error = total(syys) + scale * (scale * sqq - 2 * syq) + shift * (shift * sw - 2 * sy + 2 * scale * sq);
    return {{scale, start.min + shift}, error};
}

template <size_t N>
Affine best_affine(Elements in, AffineLimits limits) {
    const float* x = in.x;
    const auto [low, high] = std::minmax_element(x, x + N);
    const float min = limits.min_below_zero ? std::min(*low, 0.0F) : *low;
    const float range = *high - min;
    if (range < kTiny) return {0.0F, min};
    const Weighted<N> block(in);
    AffineFit best;
    for (int candidate = -kCandidates; candidate <= kCandidates; ++candidate) {
        const float steps = static_cast<float>(limits.levels) + kStep * static_cast<float>(candidate);
        const AffineFit fit = refit(block, {range / steps, min}, limits);
        if (fit.error < best.error) best = fit;
    }
    const AffineFit again = refit(block, best.affine, limits);  // the fit may round differently
    return again.error < best.error ? again.affine : best.affine;
}

// The integers of N elements, (x + offset) * inverse rounded, into bytes; `added` makes them unsigned.
template <size_t N>
std::array<uint8_t, N> integers(const float* x, float offset, float inverse, int low, int high, int added) {
    using IntLanes __attribute__((vector_size(16))) = int;
    std::array<int, N> wide;
    for (size_t i = 0; i < N; i += kLanes) {
        const Lanes rounded = nearest((load(x + i) + offset) * inverse, low, high);
        const IntLanes q = __builtin_convertvector(rounded, IntLanes) + added;
        std::memcpy(&wide[i], &q, sizeof(q));
    }
    std::array<uint8_t, N> bytes;
    for (size_t i = 0; i < N; ++i) bytes[i] = static_cast<uint8_t>(wide[i]);
    return bytes;
}

inline void put_nibble(uint8_t* qs, int i, int q) {
    const int shift = i < 16 ? 0 : 4;
    qs[i % 16] = static_cast<uint8_t>(qs[i % 16] | ((q & 15) << shift));
}

inline void put_bit(uint8_t* bits, int i, int bit) {
    bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (bit << (i % 8)));
}

}  // namespace tandem::format
