// The functions of bfloat16 that public kernels take from the vendor's look-up tables, with tables of our own.
#pragma once

#include <aie_api/aie.hpp>

// NOLINTBEGIN(readability-identifier-naming): the names are those of the public header
namespace aie::host {

// A table as aie::lut reads it: every 16 bytes twice.
template <typename T, unsigned N>
struct Table {
    static constexpr unsigned kRun = 16 / sizeof(T);
    alignas(vector_decl_align) T elements[2 * N];

    template <typename F>
    explicit Table(const F& f) {
        for (unsigned i = 0; i < N; ++i) {
            const unsigned at = i / kRun * 2 * kRun + i % kRun;
            elements[at] = elements[at + kRun] = static_cast<T>(f(i));
        }
    }
};

// tanh between multiples of 1/4 from -4 to 4, as slope and offset in turn; beyond, -1 and 1.
inline float tanh_entry(unsigned i) {
    const int segment = static_cast<int>(i / 2) - 16;
    if (segment == -16 || segment == 15) return i % 2 == 0 ? 0.0F : segment < 0 ? -1.0F : 1.0F;
    const float from = static_cast<float>(segment) / 4;
    const float slope = static_cast<float>(bfloat16(4 * (tanhf(from + 0.25F) - tanhf(from))));
    return i % 2 == 0 ? slope : tanhf(from) - slope * from;
}

}  // namespace aie::host

// e^x = e^n e^f, each from a table: n the whole part and f in steps of 1/256. What is above 88 stays there.
inline v16accfloat getExpBf16(const v16bfloat16& x) {
    using Lut = aie::lut<4, bfloat16, bfloat16>;
    using Lookup = aie::parallel_lookup<uint16, Lut, aie::lut_oor_policy::truncate>;
    static const aie::host::Table<bfloat16, 256> whole([](unsigned i) {
        const int n = i < 128 ? static_cast<int>(i) : static_cast<int>(i) - 256;
        return expf(static_cast<float>(n < 88 ? n : 88));
    });
    static const aie::host::Table<bfloat16, 256> part([](unsigned i) { return expf(static_cast<float>(i) / 256); });
    const Lookup wholes(Lut(256, whole.elements, whole.elements), 8);
    const Lookup parts(Lut(256, part.elements, part.elements), 0);
    const aie::vector<int16, 16> fixed = aie::filter_even(v32int16(bfloat16_to_int(x, 8)));
    return aie::mul(wholes.fetch(fixed.cast_to<uint16>()), parts.fetch(fixed.cast_to<uint16>()));
}

inline v16bfloat16 getTanhBf16(const v16bfloat16& x) {
    using Lut = aie::lut<4, float, bfloat16>;
    static const aie::host::Table<float, 64> table(aie::host::tanh_entry);
    return aie::linear_approx<bfloat16, Lut>(Lut(32, table.elements, table.elements), -2, 16).compute(x);
}

inline bfloat16 getInvBf16(float x) {
    return bfloat16(aie::inv(x));
}

// f, a function of sixteen elements, over `count` of them, a multiple of 16.
template <int Unroll = 4, bool Prefetch = true, typename F>
void lut_map_bf16(const bfloat16* in, bfloat16* out, int count, F f) {
    for (int i = 0; i < count; i += 16) aie::store_v(out + i, v16bfloat16(f(aie::load_v<16>(in + i))));
}
// NOLINTEND(readability-identifier-naming)
