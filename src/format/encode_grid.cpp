// The types that are made of points of code books. For each sub-block a few scales are tried; for each of them the
// nearest points are found, and least squares gives the best scale for those.
#include <span>

#include "format/codebooks.h"
#include "format/encode_block.h"

namespace tandem::format {

namespace {

enum class Signs { none, all, even };  // even: the eighth of a group follows from the others

// A code book, and where in it the points with each upper half begin: it is in order.
struct Book {
    std::span<const uint16_t> points;
    int half_bits;
    std::array<uint16_t, 257> begin{};

    Book(std::span<const uint16_t> in_order, int bits) : points(in_order), half_bits(bits) {
        for (int upper = 0; upper <= 256; ++upper) {
            const auto first = std::lower_bound(points.begin(), points.end(), upper << half_bits);
            begin[upper] = static_cast<uint16_t>(first - points.begin());
        }
    }
};

// How a type is made of points.
struct GridType {
    Book book;
    int level_bits;  // 2: a point has eight elements, 3: four
    std::array<float, 8> levels;
    int sub_block;  // elements that share a scale
    int codes;      // a scale is unit * (1 + 2 * code)
    Signs signs;
    bool own_shift;     // iq1: each point has a shift of its own, and not a whole sub-block
    float least, most;  // where to look for the scale of a sub-block, as shares of its largest magnitude

    int elements() const { return level_bits == 2 ? 8 : 4; }
    bool shifted() const { return signs == Signs::none; }
};

template <size_t N>
constexpr std::array<float, 8> as_floats(const uint8_t (&levels)[N]) {
    std::array<float, 8> floats{};
    for (size_t i = 0; i < N; ++i) floats[i] = levels[i];
    return floats;
}
constexpr std::array<float, 8> kLevels2 = as_floats(kIq2Levels);
constexpr std::array<float, 8> kLevels3Xxs = as_floats(kIq3XxsLevels);
constexpr std::array<float, 8> kLevels3S = as_floats(kIq3SLevels);
constexpr std::array<float, 8> kLevels1 = {-1, 0, 1, 0};

// The elements of a block, without the signs that are stored apart, and what became of them.
struct GridBlock {
    std::array<float, 256> x;
    std::array<float, 256> w;
    std::array<uint8_t, 32> signs{};  // of each 8 elements
    std::array<uint16_t, 64> point{};
    std::array<bool, 64> down{};  // the shift of iq1
    std::array<int, 16> code{};
    uint16_t d = 0;  // the scale is that times 1 + 2 * code
};

// Points of a sub-block for a scale, the error that they leave, and the sums for the scale of least squares.
struct GridFit {
    std::array<uint16_t, 8> point{};
    std::array<bool, 8> down{};
    float error = 0.0F;
    float xv = 0.0F;
    float vv = 0.0F;
};

GridBlock prepare(Elements in, Signs signs, int sub_block) {
    GridBlock b;
    for (int first = 0; first < 256; first += sub_block) {
        if (sub_block == 16) {
            const Weighted<16> weighted(in.from(first));
            std::copy(weighted.w.begin(), weighted.w.end(), b.w.begin() + first);
        } else {
            const Weighted<32> weighted(in.from(first));
            std::copy(weighted.w.begin(), weighted.w.end(), b.w.begin() + first);
        }
    }
    std::copy(in.x, in.x + 256, b.x.begin());
    if (signs == Signs::none) return b;
    for (int group = 0; group < 32; ++group) {
        float* x = &b.x[8 * group];
        int cheapest = 0;  // the sign that does the least harm when it is wrong
        for (int i = 0; i < 8; ++i) {
            if (x[i] < 0.0F) b.signs[group] = static_cast<uint8_t>(b.signs[group] | 1 << i);
            x[i] = std::abs(x[i]);
            if (b.w[8 * group + i] * x[i] * x[i] < b.w[8 * group + cheapest] * x[cheapest] * x[cheapest]) cheapest = i;
        }
        if (signs == Signs::even && __builtin_parity(b.signs[group]) != 0) {
            b.signs[group] = static_cast<uint8_t>(b.signs[group] ^ 1 << cheapest);
            x[cheapest] = -x[cheapest];
        }
    }
    return b;
}

// The nearest of all points to some elements. The error of a point is the sum of those of its two halves, which are
// computed once for all points.
class PointSearch {
  public:
    PointSearch(const GridType& type, const float* x, const float* w) : type_(type), x_(x), w_(w) {}

    struct Found {
        uint16_t point = 0;
        float error = INFINITY;
    };

    Found nearest(float scale, float shift) const {
        const Book& book = type_.book;
        std::array<std::array<float, 256>, 2> errors;
        for (int half = 0; half < 2; ++half) fill(half, scale, shift, errors[half]);
        Found found;
        const int mask = (1 << book.half_bits) - 1;
        for (int upper = 0; upper <= mask; ++upper) {
            if (errors[1][upper] >= found.error) continue;
            for (uint16_t p = book.begin[upper]; p < book.begin[upper + 1]; ++p) {
                const float error = errors[0][book.points[p] & mask] + errors[1][upper];
                if (error < found.error) found = {p, error};
            }
        }
        return found;
    }

  private:
    // errors[bits] for each of the levels that half of a point can have.
    void fill(int half, float scale, float shift, std::array<float, 256>& errors) const {
        const int elements = type_.elements() / 2;
        const int levels = 1 << type_.level_bits;
        errors[0] = 0.0F;
        int known = 1;  // of the elements so far
        for (int i = 0; i < elements; ++i) {
            std::array<float, 8> own;
            for (int level = 0; level < levels; ++level) {
                const float difference = x_[half * elements + i] - scale * (type_.levels[level] + shift);
                own[level] = w_[half * elements + i] * difference * difference;
            }
            for (int level = levels; level-- > 0;) {
                for (int bits = 0; bits < known; ++bits) errors[level * known + bits] = errors[bits] + own[level];
            }
            known *= levels;
        }
    }

    const GridType& type_;
    const float* x_;
    const float* w_;
};

// Adds the point for elements `at` of the block.
void add_point(const GridType& type, const GridBlock& b, int at, int k, PointSearch::Found found, float shift,
               GridFit& fit) {
    fit.point[k] = found.point;
    fit.down[k] = shift < 0.0F;
    fit.error += found.error;
    const int mask = (1 << type.level_bits) - 1;
    for (int i = 0; i < type.elements(); ++i) {
        const float v = type.levels[type.book.points[found.point] >> (type.level_bits * i) & mask] + shift;
        fit.xv += b.w[at + i] * b.x[at + i] * v;
        fit.vv += b.w[at + i] * v * v;
    }
}

GridFit fit_sub_block(const GridType& type, const GridBlock& b, int first, float scale) {
    const auto with_shifts = [&](std::span<const float> shifts) {
        GridFit fit;
        for (int k = 0; k < type.sub_block / type.elements(); ++k) {
            const int at = first + k * type.elements();
            const PointSearch search(type, &b.x[at], &b.w[at]);
            PointSearch::Found best;
            float best_shift = 0.0F;
            for (const float shift : shifts) {
                const PointSearch::Found found = search.nearest(scale, shift);
                if (found.error < best.error) {
                    best = found;
                    best_shift = shift;
                }
            }
            add_point(type, b, at, k, best, best_shift, fit);
        }
        return fit;
    };
    static constexpr float kNone[] = {0.0F};
    static constexpr float kShifts[] = {0.125F, -0.125F};
    if (!type.shifted()) return with_shifts(kNone);
    if (type.own_shift) return with_shifts(kShifts);
    const GridFit up = with_shifts(std::span(kShifts).first(1));
    const GridFit down = with_shifts(std::span(kShifts).last(1));
    return up.error <= down.error ? up : down;
}

float best_grid_scale(const GridType& type, const GridBlock& b, int first) {
    float largest = 0.0F;
    for (int i = first; i < first + type.sub_block; ++i) largest = std::max(largest, std::abs(b.x[i]));
    if (largest < kTiny) return 0.0F;
    constexpr int kTries = 6;
    const float top = *std::max_element(type.levels.begin(), type.levels.end());
    float best = 0.0F;
    float best_gain = 0.0F;  // how much of the weighted square of x the scale explains
    const auto consider = [&](float scale) {
        const GridFit fit = fit_sub_block(type, b, first, scale);
        if (fit.vv > 0.0F && fit.xv > 0.0F && fit.xv * fit.xv > best_gain * fit.vv) {
            best = fit.xv / fit.vv;
            best_gain = fit.xv * best;
        }
    };
    for (int i = 0; i < kTries; ++i) {
        const float share = type.least + (type.most - type.least) * static_cast<float>(i) / (kTries - 1);
        consider(largest * share / top);
    }
    if (!type.shifted()) consider(largest / type.levels[0]);  // elements that are all alike
    return best;
}

// `unit` is what the type multiplies d with.
GridBlock encode_grid(Elements in, const GridType& type, float unit) {
    GridBlock b = prepare(in, type.signs, type.sub_block);
    const int subs = 256 / type.sub_block;
    std::array<float, 16> scales{};
    for (int s = 0; s < subs; ++s) scales[s] = best_grid_scale(type, b, s * type.sub_block);
    b.d = to_f16(largest_magnitude(scales) / static_cast<float>(2 * type.codes - 1) / unit);
    float d = f16_to_f32(b.d) * unit;
    const auto odd = [&](int s) { return static_cast<float>(1 + 2 * b.code[s]); };
    float xv = 0.0F;
    float vv = 0.0F;
    for (int s = 0; s < subs; ++s) {
        b.code[s] = nearest_int((scales[s] * reciprocal(d) - 1.0F) / 2.0F, 0, type.codes - 1);
        const GridFit fit = fit_sub_block(type, b, s * type.sub_block, d * odd(s));
        xv += fit.xv * odd(s);
        vv += fit.vv * odd(s) * odd(s);
    }
    if (xv > 0.0F && vv > 0.0F) b.d = to_f16(xv / vv / unit);
    d = f16_to_f32(b.d) * unit;
    const int points = type.sub_block / type.elements();
    for (int s = 0; s < subs; ++s) {
        const GridFit fit = fit_sub_block(type, b, s * type.sub_block, d * odd(s));
        for (int k = 0; k < points; ++k) {
            b.point[s * points + k] = fit.point[k];
            b.down[s * points + k] = fit.down[k];
        }
    }
    return b;
}

void put_bits(uint8_t* bytes, int at, int bits) {
    bytes[at / 8] = static_cast<uint8_t>(bytes[at / 8] | bits << (at % 8));
}

// Four times 7 bits of signs, and the code of the scale above.
void put_signs_scale(uint8_t* out, const GridBlock& g, int s) {
    uint32_t word = static_cast<uint32_t>(g.code[s]) << 28;
    for (int k = 0; k < 4; ++k) word |= (g.signs[4 * s + k] & 127U) << (7 * k);
    std::memcpy(out, &word, sizeof(word));
}

}  // namespace

void encode(Elements in, BlockIQ3_S& b) {
    static const GridType kType{Book(kIq3SGrid, 6), 3, kLevels3S, 32, 16, Signs::all, false, 0.8F, 1.2F};
    const GridBlock g = encode_grid(in, kType, 1.0F);
    b.d = g.d;
    for (int k = 0; k < 64; ++k) {
        b.qs[k] = static_cast<uint8_t>(g.point[k]);
        put_bits(b.qh, k, g.point[k] >> 8);
    }
    std::copy(g.signs.begin(), g.signs.end(), b.signs);
    for (int s = 0; s < 8; ++s) put_bits(b.scales, 4 * s, g.code[s]);
}

void encode(Elements in, BlockIQ3_XXS& b) {
    static const GridType kType{Book(kIq3XxsGrid, 6), 3, kLevels3Xxs, 32, 16, Signs::even, false, 0.8F, 1.2F};
    const GridBlock g = encode_grid(in, kType, 0.25F);
    b.d = g.d;
    for (int k = 0; k < 64; ++k) b.qs[k] = static_cast<uint8_t>(g.point[k]);
    for (int s = 0; s < 8; ++s) put_signs_scale(b.signs_scales + 4 * s, g, s);
}

void encode(Elements in, BlockIQ2_S& b) {
    static const GridType kType{Book(kIq2SGrid, 8), 2, kLevels2, 16, 16, Signs::all, false, 0.8F, 1.2F};
    const GridBlock g = encode_grid(in, kType, 0.125F);
    b.d = g.d;
    for (int k = 0; k < 32; ++k) {
        b.qs[k] = static_cast<uint8_t>(g.point[k]);
        put_bits(b.qh, 2 * k, g.point[k] >> 8);
    }
    std::copy(g.signs.begin(), g.signs.end(), b.signs);
    for (int s = 0; s < 16; ++s) put_bits(b.scales, 4 * s, g.code[s]);
}

void encode(Elements in, BlockIQ2_XS& b) {
    static const GridType kType{Book(kIq2XsGrid, 8), 2, kLevels2, 16, 16, Signs::even, false, 0.8F, 1.2F};
    const GridBlock g = encode_grid(in, kType, 0.125F);
    b.d = g.d;
    for (int k = 0; k < 32; ++k) b.qs[k] = static_cast<uint16_t>(g.point[k] | (g.signs[k] & 127) << 9);
    for (int s = 0; s < 16; ++s) put_bits(b.scales, 4 * s, g.code[s]);
}

void encode(Elements in, BlockIQ2_XXS& b) {
    static const GridType kType{Book(kIq2XxsGrid, 8), 2, kLevels2, 32, 16, Signs::even, false, 0.8F, 1.2F};
    const GridBlock g = encode_grid(in, kType, 0.125F);
    b.d = g.d;
    for (int s = 0; s < 8; ++s) {
        for (int k = 0; k < 4; ++k) b.qs[8 * s + k] = static_cast<uint8_t>(g.point[4 * s + k]);
        put_signs_scale(b.qs + 8 * s + 4, g, s);
    }
}

void encode(Elements in, BlockIQ1_S& b) {
    static const GridType kType{Book(kIq1Grid, 8), 2, kLevels1, 32, 8, Signs::none, false, 0.35F, 1.0F};
    const GridBlock g = encode_grid(in, kType, 1.0F);
    b.d = g.d;
    for (int s = 0; s < 8; ++s) {
        int bits = g.code[s] << 12 | (g.down[4 * s] ? 1 << 15 : 0);
        for (int k = 0; k < 4; ++k) {
            b.qs[4 * s + k] = static_cast<uint8_t>(g.point[4 * s + k]);
            bits |= (g.point[4 * s + k] >> 8) << (3 * k);
        }
        b.qh[s] = static_cast<uint16_t>(bits);
    }
}

void encode(Elements in, BlockIQ1_M& b) {
    static const GridType kType{Book(kIq1Grid, 8), 2, kLevels1, 16, 8, Signs::none, true, 0.35F, 1.0F};
    const GridBlock g = encode_grid(in, kType, 1.0F);
    for (int k = 0; k < 32; ++k) {
        b.qs[k] = static_cast<uint8_t>(g.point[k]);
        put_bits(b.qh, 4 * k, g.point[k] >> 8 | (g.down[k] ? 8 : 0));
    }
    for (int s = 0; s < 16; ++s) b.scales[s / 4] = static_cast<uint16_t>(b.scales[s / 4] | g.code[s] << (3 * (s % 4)));
    for (int i = 0; i < 4; ++i) b.scales[i] = static_cast<uint16_t>(b.scales[i] | (g.d >> (4 * i) & 15) << 12);
}

}  // namespace tandem::format
