#include "vulkan/put_block.h"

#include <cstring>

namespace tandem::vulkan {

namespace {

// The 16 bytes of nibbles of 32 elements below 16.
void put_nibbles(uint8_t* out, const uint8_t* q) {
    for (int i = 0; i < 16; ++i) out[i] = static_cast<uint8_t>((q[i] & 15) | (q[16 + i] & 15) << 4);
}

// The bits of 32 elements beyond those of quants, of which element i has bit i of `bits`.
void put_high_bits(uint8_t* out, uint32_t bits) {
    uint32_t high = 0;
    for (uint32_t i = 0; i < 32; ++i) high |= (bits >> i & 1U) << (8 * (i % 4) + i / 4);
    std::memcpy(out, &high, sizeof(high));
}

// The 32 low nibbles of sub-block s of a K block.
void k_nibbles(const uint8_t* qs, int s, uint8_t* q) {
    for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(qs[32 * (s / 2) + i] >> (4 * (s % 2)) & 15);
}

void put_scale_min(uint8_t* out, const uint8_t* scales, int s) {
    const format::KScaleMin both = format::k_scale_min(scales, s);
    out[0] = both.scale;
    out[1] = both.min;
}

// The codes of sub-block s of a block of two bits each, 32 elements: q2_k, q3_k, tq2_0 and q2_0.
void put_two_bits(uint8_t* out, const uint8_t* q) {
    uint8_t bytes[8] = {};  // not in place: memory that a GPU shares is slow to read
    for (int i = 0; i < 32; ++i) bytes[4 * (i / 16) + i % 4] |= static_cast<uint8_t>(q[i] << (2 * (i % 16 / 4)));
    std::memcpy(out, bytes, sizeof(bytes));
}

void k_two_bits(const uint8_t* qs, int s, uint8_t* q) {
    for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(qs[32 * (s / 4) + i] >> (2 * (s % 4)) & 3);
}

// Calls each(s, place) for the blocks of 32 elements of a block of 256.
template <typename Each>
void for_each_place(size_t block, const Cursor& to, const Each& each) {
    for (int s = 0; s < 8; ++s) each(s, to.place(8 * block + static_cast<size_t>(s)));
}

uint8_t nibble(const uint8_t* bytes, int i) {
    return static_cast<uint8_t>(bytes[i / 2] >> (4 * (i % 2)) & 15);
}

}  // namespace

void put(const format::BlockQ8_0& in, size_t block, const Cursor& to) {
    for (size_t i = 0; i < 2; ++i) std::memcpy(to.chunk(block, i, 2), in.qs + 16 * i, 16);
    std::memcpy(to.at(Planes::scales, 2 * to.place(block)), &in.d, 2);
}

void put(const format::BlockQ4_0& in, size_t block, const Cursor& to) {
    const size_t place = to.place(block);
    std::memcpy(to.at(Planes::quants, 16 * place), in.qs, 16);
    std::memcpy(to.at(Planes::scales, 2 * place), &in.d, 2);
}

void put(const format::BlockQ4_1& in, size_t block, const Cursor& to) {
    const size_t place = to.place(block);
    std::memcpy(to.at(Planes::quants, 16 * place), in.qs, 16);
    std::memcpy(to.at(Planes::scales, 4 * place), &in.d, 4);  // d and m
}

void put(const format::BlockQ5_0& in, size_t block, const Cursor& to) {
    const size_t place = to.place(block);
    std::memcpy(to.at(Planes::quants, 16 * place), in.qs, 16);
    std::memcpy(to.at(Planes::scales, 2 * place), &in.d, 2);
    uint32_t bits = 0;
    std::memcpy(&bits, in.qh, sizeof(bits));
    put_high_bits(to.at(Planes::high, 4 * place), bits);
}

void put(const format::BlockQ5_1& in, size_t block, const Cursor& to) {
    const size_t place = to.place(block);
    std::memcpy(to.at(Planes::quants, 16 * place), in.qs, 16);
    std::memcpy(to.at(Planes::scales, 4 * place), &in.d, 4);  // d and m
    uint32_t bits = 0;
    std::memcpy(&bits, in.qh, sizeof(bits));
    put_high_bits(to.at(Planes::high, 4 * place), bits);
}

void put(const format::BlockQ4_K& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 4 * block), &in.d, 4);  // d and dmin
    for (int s = 0; s < 8; ++s) {
        const size_t place = to.place(8 * block + static_cast<size_t>(s));
        uint8_t q[32];
        k_nibbles(in.qs, s, q);
        put_nibbles(to.at(Planes::quants, 16 * place), q);
        put_scale_min(to.at(Planes::scales, 2 * place), in.scales, s);
    }
}

void put(const format::BlockQ5_K& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 4 * block), &in.d, 4);  // d and dmin
    for (int s = 0; s < 8; ++s) {
        const size_t place = to.place(8 * block + static_cast<size_t>(s));
        uint8_t q[32];
        k_nibbles(in.qs, s, q);
        put_nibbles(to.at(Planes::quants, 16 * place), q);
        put_scale_min(to.at(Planes::scales, 2 * place), in.scales, s);
        uint32_t bits = 0;
        for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(in.qh[i] >> s & 1) << i;
        put_high_bits(to.at(Planes::high, 4 * place), bits);
    }
}

void put(const format::BlockQ6_K& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 2 * block), &in.d, 2);
    for (int s = 0; s < 8; ++s) {
        const size_t place = to.place(8 * block + static_cast<size_t>(s));
        const uint8_t* ql = in.ql + 64 * (s / 4);
        const uint8_t* qh = in.qh + 32 * (s / 4);
        const int g = s % 4;
        uint8_t q[32];
        uint32_t high[2] = {0, 0};
        for (int i = 0; i < 32; ++i) {
            q[i] = static_cast<uint8_t>(ql[i + 32 * (g % 2)] >> (4 * (g / 2)) & 15);
            high[i / 16] |= static_cast<uint32_t>(qh[i] >> (2 * g) & 3) << (8 * (i % 4) + 2 * (i % 16 / 4));
        }
        put_nibbles(to.at(Planes::quants, 16 * place), q);
        std::memcpy(to.at(Planes::high, 8 * place), high, 8);
        std::memcpy(to.at(Planes::scales, 2 * place), in.scales + 2 * s, 2);
    }
}

void put(const format::BlockQ2_K& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 4 * block), &in.d, 4);  // d and dmin
    for_each_place(block, to, [&](int s, size_t place) {
        uint8_t q[32];
        k_two_bits(in.qs, s, q);
        put_two_bits(to.at(Planes::quants, 8 * place), q);
        std::memcpy(to.at(Planes::scales, 2 * place), in.scales + 2 * s, 2);
    });
}

void put(const format::BlockQ3_K& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 2 * block), &in.d, 2);
    for_each_place(block, to, [&](int s, size_t place) {
        uint8_t q[32];
        k_two_bits(in.qs, s, q);
        put_two_bits(to.at(Planes::quants, 8 * place), q);
        uint32_t bits = 0;
        for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(in.hmask[i] >> s & 1) << i;
        put_high_bits(to.at(Planes::high, 4 * place), bits);
        for (int half = 0; half < 2; ++half) {
            to.at(Planes::scales, 2 * place)[half] =
                static_cast<uint8_t>(format::q3_k_scale(in.scales, 2 * s + half) - 32);
        }
    });
}

void put(const format::BlockIQ4_NL& in, size_t block, const Cursor& to) {
    const size_t place = to.place(block);
    std::memcpy(to.at(Planes::quants, 16 * place), in.qs, 16);
    std::memcpy(to.at(Planes::scales, 2 * place), &in.d, 2);
}

void put(const format::BlockIQ4_XS& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 2 * block), &in.d, 2);
    for_each_place(block, to, [&](int s, size_t place) {
        std::memcpy(to.at(Planes::quants, 16 * place), in.qs + 16 * s, 16);
        *to.at(Planes::scales, place) = static_cast<uint8_t>(format::iq4_xs_scale(in, s) - 32);
    });
}

void put(const format::BlockMXFP4& in, size_t block, const Cursor& to) {
    const size_t place = to.place(block);
    std::memcpy(to.at(Planes::quants, 16 * place), in.qs, 16);
    *to.at(Planes::scales, place) = in.e;
}

void put(const format::BlockNVFP4& in, size_t block, const Cursor& to) {
    for (int s = 0; s < 2; ++s) {
        const size_t place = to.place(2 * block + static_cast<size_t>(s));
        uint8_t q[32];
        for (int i = 0; i < 32; ++i) {
            q[i] = static_cast<uint8_t>(in.qs[16 * s + i / 16 * 8 + i % 8] >> (4 * (i % 16 / 8)) & 15);
        }
        put_nibbles(to.at(Planes::quants, 16 * place), q);
        std::memcpy(to.at(Planes::scales, 2 * place), in.d + 2 * s, 2);
    }
}

void put(const format::BlockIQ3_S& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 2 * block), &in.d, 2);
    for_each_place(block, to, [&](int s, size_t place) {
        std::memcpy(to.at(Planes::quants, 8 * place), in.qs + 8 * s, 8);
        std::memcpy(to.at(Planes::high, 4 * place), in.signs + 4 * s, 4);
        to.at(Planes::scales, 2 * place)[0] = in.qh[s];
        to.at(Planes::scales, 2 * place)[1] = nibble(in.scales, s);
    });
}

void put(const format::BlockIQ3_XXS& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 2 * block), &in.d, 2);
    for_each_place(block, to, [&](int s, size_t place) {
        std::memcpy(to.at(Planes::quants, 8 * place), in.qs + 8 * s, 8);
        std::memcpy(to.at(Planes::high, 4 * place), in.signs_scales + 4 * s, 4);
    });
}

void put(const format::BlockIQ2_S& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 2 * block), &in.d, 2);
    for_each_place(block, to, [&](int s, size_t place) {
        std::memcpy(to.at(Planes::quants, 8 * place), in.qs + 4 * s, 4);
        std::memcpy(to.at(Planes::quants, 8 * place + 4), in.signs + 4 * s, 4);
        to.at(Planes::scales, 2 * place)[0] = in.qh[s];
        to.at(Planes::scales, 2 * place)[1] = in.scales[s];
    });
}

void put(const format::BlockIQ2_XS& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 2 * block), &in.d, 2);
    for_each_place(block, to, [&](int s, size_t place) {
        std::memcpy(to.at(Planes::quants, 8 * place), in.qs + 4 * s, 8);
        *to.at(Planes::scales, place) = in.scales[s];
    });
}

void put(const format::BlockIQ2_XXS& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 2 * block), &in.d, 2);
    for_each_place(block, to,
                   [&](int s, size_t place) { std::memcpy(to.at(Planes::quants, 8 * place), in.qs + 8 * s, 8); });
}

void put(const format::BlockIQ1_S& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 2 * block), &in.d, 2);
    for_each_place(block, to, [&](int s, size_t place) {
        std::memcpy(to.at(Planes::quants, 4 * place), in.qs + 4 * s, 4);
        std::memcpy(to.at(Planes::high, 2 * place), in.qh + s, 2);
    });
}

void put(const format::BlockIQ1_M& in, size_t block, const Cursor& to) {
    const uint16_t d = format::iq1_m_scale(in);
    std::memcpy(to.at(Planes::deltas, 2 * block), &d, 2);
    for_each_place(block, to, [&](int s, size_t place) {
        std::memcpy(to.at(Planes::quants, 4 * place), in.qs + 4 * s, 4);
        std::memcpy(to.at(Planes::high, 2 * place), in.qh + 2 * s, 2);
        const int both = in.scales[s / 2] >> (6 * (s % 2));
        *to.at(Planes::scales, place) = static_cast<uint8_t>((both & 7) | (both >> 3 & 7) << 4);
    });
}

void put(const format::BlockTQ2_0& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 2 * block), &in.d, 2);
    for_each_place(block, to, [&](int s, size_t place) {
        uint8_t q[32];
        k_two_bits(in.qs, s, q);
        put_two_bits(to.at(Planes::quants, 8 * place), q);
    });
}

void put(const format::BlockQ2_0& in, size_t block, const Cursor& to) {
    for (int s = 0; s < 2; ++s) {
        const size_t place = to.place(2 * block + static_cast<size_t>(s));
        uint8_t q[32];
        for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(in.qs[8 * s + i / 4] >> (2 * (i % 4)) & 3);
        put_two_bits(to.at(Planes::quants, 8 * place), q);
        std::memcpy(to.at(Planes::scales, 2 * place), &in.d, 2);
    }
}

// As q2_0: -1 and 1 are its first level and its third.
void put(const format::BlockQ1_0& in, size_t block, const Cursor& to) {
    for (int s = 0; s < 4; ++s) {
        const size_t place = to.place(4 * block + static_cast<size_t>(s));
        uint8_t q[32];
        for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(2 * (in.qs[4 * s + i / 8] >> (i % 8) & 1));
        put_two_bits(to.at(Planes::quants, 8 * place), q);
        std::memcpy(to.at(Planes::scales, 2 * place), &in.d, 2);
    }
}

// As tq2_0: digits of base 3 would have to be divided out by every kernel.
void put(const format::BlockTQ1_0& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::deltas, 2 * block), &in.d, 2);
    uint8_t q[256];
    for (int i = 0; i < 160; ++i) q[i] = static_cast<uint8_t>(format::ternary_digit(in.qs[i % 32], i / 32));
    for (int i = 0; i < 80; ++i) q[160 + i] = static_cast<uint8_t>(format::ternary_digit(in.qs[32 + i % 16], i / 16));
    for (int i = 0; i < 16; ++i) q[240 + i] = static_cast<uint8_t>(format::ternary_digit(in.qh[i % 4], i / 4));
    for_each_place(block, to, [&](int s, size_t place) { put_two_bits(to.at(Planes::quants, 8 * place), q + 32 * s); });
}

}  // namespace tandem::vulkan
