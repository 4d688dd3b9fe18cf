// The types whose 4 bits are a place in a table: iq4_nl, iq4_xs, mxfp4 and nvfp4.
#include "format/encode_block.h"

namespace tandem::format {

namespace {

// The nearest entry of a table, for a number in its units. The borders between neighbours are multiples of a half, so
// the half that a number lies in tells it.
class Table {
  public:
    constexpr explicit Table(const int8_t (&values)[16]) : values_(values) {
        for (int cell = 0; cell < kCells; ++cell) {
            const float middle = (static_cast<float>(cell - kCells / 2) + 0.5F) / 2.0F;
            int best = 0;
            for (int q = 1; q < 16; ++q) {
                if (distance(middle, q) < distance(middle, best)) best = q;
            }
            nearest_[cell] = static_cast<uint8_t>(best);
        }
    }

    int nearest(float x) const {
        const float cell = std::floor(2.0F * x) + kCells / 2;
        return nearest_[static_cast<size_t>(std::clamp(cell, 0.0F, kCells - 1.0F))];
    }
    float value(int q) const { return static_cast<float>(values_[q]); }

  private:
    static constexpr int kCells = 512;

    constexpr float distance(float x, int q) const {
        const float difference = x - static_cast<float>(values_[q]);
        return difference < 0 ? -difference : difference;
    }

    const int8_t (&values_)[16];
    uint8_t nearest_[kCells] = {};
};

constexpr Table kIq4Table(kIq4Values);
constexpr Table kFp4Table(kFp4Values);

// What a scale makes of N elements: the error that is left, and the sums that give the scale of least squares.
struct TableFit {
    float error = 0.0F;
    float xq = 0.0F;
    float qq = 0.0F;
};

template <size_t N>
TableFit fit_table(const Table& table, const Weighted<N>& block, float scale) {
    const float inverse = reciprocal(scale);
    TableFit fit;
    for (size_t i = 0; i < N; ++i) {
        const float v = table.value(table.nearest(block.x[i] * inverse));
        const float difference = block.x[i] - scale * v;
        fit.error += block.w[i] * difference * difference;
        fit.xq += block.w[i] * block.x[i] * v;
        fit.qq += block.w[i] * v * v;
    }
    return fit;
}

// The scale with the least error; either end of the table may stand for the largest element.
template <size_t N>
float best_table_scale(const Table& table, const Weighted<N>& block) {
    const float largest =
        *std::max_element(block.x, block.x + N, [](float a, float b) { return std::abs(a) < std::abs(b); });
    if (std::abs(largest) < kTiny) return 0.0F;
    float best = 0.0F;
    float best_gain = 0.0F;  // how much of the weighted square of x the scale explains
    const auto consider = [&](float scale) {
        const TableFit fit = fit_table(table, block, scale);
        if (fit.xq * fit.xq <= best_gain * fit.qq) return;
        best = fit.xq / fit.qq;
        best_gain = fit.xq * best;
    };
    for (const float end : {table.value(0), table.value(15)}) {
        if (end == 0.0F) continue;
        for (int candidate = -4; candidate <= 4; ++candidate)
            consider(largest / (end * (1.0F + 0.05F * static_cast<float>(candidate))));
    }
    consider(best);  // the fit may round differently
    return best;
}

// Of the codes first to last, the one whose scale leaves the least error.
template <size_t N, typename Scale>
int best_code(const Table& table, const Weighted<N>& block, int first, int last, const Scale& scale_of) {
    int best = first;
    float least = INFINITY;
    for (int code = first; code <= last; ++code) {
        const float error = fit_table(table, block, scale_of(code)).error;
        if (error < least) {
            least = error;
            best = code;
        }
    }
    return best;
}

void put_table_nibbles(const Table& table, const float* x, float scale, uint8_t* qs) {
    const float inverse = reciprocal(scale);
    for (int i = 0; i < 32; ++i) put_nibble(qs, i, table.nearest(x[i] * inverse));
}

}  // namespace

void encode(Elements in, BlockIQ4_NL& b) {
    b.d = to_f16(best_table_scale(kIq4Table, Weighted<32>(in)));
    put_table_nibbles(kIq4Table, in.x, f16_to_f32(b.d), b.qs);
}

void encode(Elements in, BlockIQ4_XS& b) {
    std::array<float, 8> scales;
    for (int s = 0; s < 8; ++s) scales[s] = best_table_scale(kIq4Table, Weighted<32>(in.from(32 * s)));
    b.d = to_f16(largest_magnitude(scales) / -32.0F);
    const auto scale_of = [&](int code) { return f16_to_f32(b.d) * static_cast<float>(code - 32); };
    std::array<int, 8> codes;
    float xq = 0.0F;
    float qq = 0.0F;
    const float inverse = reciprocal(f16_to_f32(b.d));
    for (int s = 0; s < 8; ++s) {
        const Weighted<32> block(in.from(32 * s));
        const int near = nearest_int(scales[s] * inverse, -32, 31) + 32;
        codes[s] = best_code(kIq4Table, block, std::max(near - 1, 0), std::min(near + 1, 63), scale_of);
        const TableFit fit = fit_table(kIq4Table, block, scale_of(codes[s]));
        xq += fit.xq * static_cast<float>(codes[s] - 32);
        qq += fit.qq * static_cast<float>((codes[s] - 32) * (codes[s] - 32));
    }
    if (qq > 0.0F) b.d = to_f16(xq / qq);
    for (int s = 0; s < 8; ++s) {
        b.scales_l[s / 2] = static_cast<uint8_t>(b.scales_l[s / 2] | (codes[s] & 15) << (4 * (s % 2)));
        b.scales_h = static_cast<uint16_t>(b.scales_h | (codes[s] >> 4) << (2 * s));
        put_table_nibbles(kIq4Table, in.x + 32 * s, scale_of(codes[s]), b.qs + 16 * s);
    }
}

void encode(Elements in, BlockMXFP4& b) {
    const Weighted<32> block(in);
    int exponent = -1000;  // of the largest element, as std::frexp() has it; the table's largest is 12, almost 2^4
    for (int i = 0; i < 32; ++i) {
        if (in.x[i] != 0.0F) exponent = std::max(exponent, std::ilogb(in.x[i]) + 1);
    }
    const int fits = std::clamp(exponent + 128 - 4, 3, 253);  // so that the scale has a reciprocal
    b.e = static_cast<uint8_t>(
        best_code(kFp4Table, block, fits - 1, fits + 1, [](int e) { return mxfp4_scale(static_cast<uint8_t>(e)); }));
    put_table_nibbles(kFp4Table, in.x, mxfp4_scale(b.e), b.qs);
}

void encode(Elements in, BlockNVFP4& b) {
    for (int s = 0; s < 4; ++s) {
        const Weighted<16> block(in.from(16 * s));
        const float ideal = 2.0F * std::abs(best_table_scale(kFp4Table, block));
        int above = 0;  // the first code that is no less, or the last
        while (above < 126 && ue4m3_to_f32(static_cast<uint8_t>(above)) < ideal) ++above;
        const auto scale_of = [](int code) { return ue4m3_to_f32(static_cast<uint8_t>(code)) / 2.0F; };
        b.d[s] = static_cast<uint8_t>(
            best_code(kFp4Table, block, std::max(above - 2, 0), std::min(above + 1, 126), scale_of));
        const float inverse = reciprocal(scale_of(b.d[s]));
        for (int i = 0; i < 16; ++i) {
            uint8_t& byte = b.qs[8 * s + i % 8];
            byte = static_cast<uint8_t>(byte | kFp4Table.nearest(in.x[16 * s + i] * inverse) << (4 * (i / 8)));
        }
    }
}

}  // namespace tandem::format
