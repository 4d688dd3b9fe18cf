// The types of 1 to 3 bits whose levels are evenly apart, and those of three levels.
#include "format/encode_block.h"

namespace tandem::format {

namespace {

// The 2 bits of element e of q2_k, q3_k and tq2_0.
void put_two_bits(uint8_t* qs, int e, int q) {
    uint8_t& byte = qs[e / 128 * 32 + e % 32];
    byte = static_cast<uint8_t>(byte | q << (2 * (e % 128 / 32)));
}

// 4 bits of scale are coarse, so those beside the nearest are tried too, together with the minima.
struct Q2KScales {
    std::array<int, 16> scale{};
    std::array<int, 16> min{};

    // With q as d and dmin round the elements. Returns the weighted square error of the sub-block.
    static float error(const Weighted<16>& block, float scale, float min) {
        const float inverse = reciprocal(scale);
        Lanes errors{};
        for (size_t i = 0; i < 16; i += kLanes) {
            const Lanes x = load(block.x + i);
            const Lanes difference = scale * nearest((x + min) * inverse, 0, 3) - min - x;
            errors += load(&block.w[i]) * difference * difference;
        }
        return total(errors);
    }

    void choose(const Weighted<16>& block, int s, Affine fit, Affine unit) {
        const int near_scale = nearest_int(fit.scale * reciprocal(unit.scale), 0, 15);
        const int near_min = nearest_int(-fit.min * reciprocal(unit.min), 0, 15);
        float least = INFINITY;
        for (int a = std::max(near_scale - 1, 0); a <= std::min(near_scale + 1, 15); ++a) {
            for (int m = std::max(near_min - 1, 0); m <= std::min(near_min + 1, 15); ++m) {
                const float left = error(block, unit.scale * static_cast<float>(a), unit.min * static_cast<float>(m));
                if (left >= least) continue;
                least = left;
                scale[s] = a;
                min[s] = m;
            }
        }
    }
};

// What is left when the elements of a sub-block of q3_k get `scale`, and the sums for a scale of least squares.
struct Q3KFit {
    float error = 0.0F;
    float xq = 0.0F;
    float qq = 0.0F;

    Q3KFit(const Weighted<16>& block, float scale) {
        const float inverse = reciprocal(scale);
        Lanes errors{}, xqs{}, qqs{};
        for (size_t i = 0; i < 16; i += kLanes) {
            const Lanes x = load(block.x + i);
            const Lanes w = load(&block.w[i]);
            const Lanes q = nearest(x * inverse, -4, 3);
            const Lanes difference = scale * q - x;
            errors += w * difference * difference;
            xqs += w * x * q;
            qqs += w * q * q;
        }
        error = total(errors);
        xq = total(xqs);
        qq = total(qqs);
    }
};

// The inverse of q3_k_scale().
void put_q3_k_scale(uint8_t* scales, int s, int code) {
    const auto merge = [](uint8_t& byte, int bits) { byte = static_cast<uint8_t>(byte | bits); };
    merge(scales[s % 8], (code & 15) << (s < 8 ? 0 : 4));
    merge(scales[8 + s % 4], (code >> 4) << (2 * (s / 4)));
}

// The magnitude of {-1, 0, 1} with the least error: elements above a share of the largest count, and their mean is
// best.
float best_ternary_scale(Elements in) {
    const Weighted<256> block(in);
    float largest = 0.0F;
    for (int i = 0; i < 256; ++i) largest = std::max(largest, std::abs(in.x[i]));
    float best = 0.0F;
    float best_gain = 0.0F;
    for (int share = 1; share <= 24; ++share) {
        const float border = largest * static_cast<float>(share) / 32.0F;
        float sum = 0.0F;
        float weight = 0.0F;
        for (int i = 0; i < 256; ++i) {
            if (std::abs(in.x[i]) < border) continue;
            sum += block.w[i] * std::abs(in.x[i]);
            weight += block.w[i];
        }
        if (weight > 0.0F && sum * sum > best_gain * weight) {
            best = sum / weight;
            best_gain = sum * best;
        }
    }
    return best;
}

int ternary(float x, float inverse) {
    return nearest_int(x * inverse, -1, 1) + 1;
}

}  // namespace

void encode(Elements in, BlockQ2_K& b) {
    std::array<Affine, 16> fits;
    float largest_scale = 0.0F;
    float largest_min = 0.0F;
    for (int s = 0; s < 16; ++s) {
        fits[s] = best_affine<16>(in.from(16 * s), {.levels = 3, .min_below_zero = true});
        largest_scale = std::max(largest_scale, fits[s].scale);
        largest_min = std::max(largest_min, -fits[s].min);
    }
    b.d = to_f16(largest_scale / 15.0F);
    b.dmin = to_f16(largest_min / 15.0F);
    const Affine unit{f16_to_f32(b.d), f16_to_f32(b.dmin)};
    Q2KScales chosen;
    for (int s = 0; s < 16; ++s) {
        chosen.choose(Weighted<16>(in.from(16 * s)), s, fits[s], unit);
        b.scales[s] = static_cast<uint8_t>(chosen.scale[s] | chosen.min[s] << 4);
    }
    for (int e = 0; e < 256; ++e) {
        const float inverse = reciprocal(unit.scale * static_cast<float>(chosen.scale[e / 16]));
        const float min = unit.min * static_cast<float>(chosen.min[e / 16]);
        put_two_bits(b.qs, e, nearest_int((in.x[e] + min) * inverse, 0, 3));
    }
}

void encode(Elements in, BlockQ3_K& b) {
    std::array<float, 16> scales;
    for (int s = 0; s < 16; ++s) scales[s] = best_scale<16>(in.from(16 * s), -4);
    b.d = to_f16(largest_magnitude(scales) / -32.0F);
    const float first_d = f16_to_f32(b.d);
    std::array<int, 16> codes{};
    float xq = 0.0F;
    float qq = 0.0F;
    for (int s = 0; s < 16; ++s) {
        const Weighted<16> block(in.from(16 * s));
        const int near = nearest_int(scales[s] * reciprocal(first_d), -32, 31);
        float least = INFINITY;
        for (int code = std::max(near - 1, -32); code <= std::min(near + 1, 31); ++code) {
            const float left = Q3KFit(block, first_d * static_cast<float>(code)).error;
            if (left >= least) continue;
            least = left;
            codes[s] = code;
        }
        const Q3KFit fit(block, first_d * static_cast<float>(codes[s]));
        xq += fit.xq * static_cast<float>(codes[s]);
        qq += fit.qq * static_cast<float>(codes[s] * codes[s]);
        put_q3_k_scale(b.scales, s, codes[s] + 32);
    }
    if (qq > 0.0F) b.d = to_f16(xq / qq);
    for (int e = 0; e < 256; ++e) {
        const float inverse = reciprocal(f16_to_f32(b.d) * static_cast<float>(codes[e / 16]));
        const int q = nearest_int(in.x[e] * inverse, -4, 3) + 4;
        put_two_bits(b.qs, e, q & 3);
        b.hmask[e % 32] = static_cast<uint8_t>(b.hmask[e % 32] | (q >> 2) << (e / 32));
    }
}

void encode(Elements in, BlockTQ2_0& b) {
    b.d = to_f16(best_ternary_scale(in));
    const float inverse = reciprocal(f16_to_f32(b.d));
    for (int e = 0; e < 256; ++e) put_two_bits(b.qs, e, ternary(in.x[e], inverse));
}

// The levels of a search are -2 to 1: those of the block with the other sign.
void encode(Elements in, BlockQ2_0& b) {
    b.d = to_f16(-best_scale<64>(in, -2));
    const float inverse = reciprocal(f16_to_f32(b.d));
    for (int e = 0; e < 64; ++e) {
        const int q = nearest_int(in.x[e] * inverse, -1, 2) + 1;
        b.qs[e / 4] = static_cast<uint8_t>(b.qs[e / 4] | q << (2 * (e % 4)));
    }
}

// The mean magnitude has the least error.
void encode(Elements in, BlockQ1_0& b) {
    const Weighted<128> block(in);
    float sum = 0.0F;
    float weight = 0.0F;
    for (int i = 0; i < 128; ++i) {
        sum += block.w[i] * std::abs(in.x[i]);
        weight += block.w[i];
    }
    b.d = to_f16(weight > 0.0F ? sum / weight : 0.0F);
    for (int e = 0; e < 128; ++e) b.qs[e / 8] = static_cast<uint8_t>(b.qs[e / 8] | (in.x[e] >= 0.0F) << (e % 8));
}

void encode(Elements in, BlockTQ1_0& b) {
    b.d = to_f16(best_ternary_scale(in));
    const float inverse = reciprocal(f16_to_f32(b.d));
    const auto put = [&](const float* x, uint8_t* bytes, int count, int digits) {
        for (int i = 0; i < count; ++i) {
            int number = 0;  // of five digits of base 3; read as a fraction of 243, rounded up
            for (int n = 0; n < 5; ++n) number = 3 * number + (n < digits ? ternary(x[count * n + i], inverse) : 0);
            bytes[i] = static_cast<uint8_t>((number * 256 + 242) / 243);
        }
    };
    put(in.x, b.qs, 32, 5);
    put(in.x + 160, b.qs + 32, 16, 5);
    put(in.x + 240, b.qh, 4, 4);
}

}  // namespace tandem::format
