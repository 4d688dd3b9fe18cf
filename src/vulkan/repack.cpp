// From the blocks of a file to the planes of the device.
#include <cstring>

#include "base/check.h"
#include "format/quant.h"
#include "vulkan/weights.h"

namespace tandem::vulkan {

namespace {

// Where the planes of blocks begin; `block` counts those of 32 elements, or of 256 for the K types, in the order of the
// file.
struct Cursor {
    const PlaneTargets& to;
    size_t tiled_blocks = 0;  // of 32 elements, in a row; 0: no tiles

    // The place of a block of 32 elements.
    size_t place(size_t block) const {
        if (tiled_blocks == 0) return block;
        const size_t row = block / tiled_blocks;
        const size_t in_row = block % tiled_blocks;
        const size_t quad = row / 16 * (tiled_blocks / 4) + in_row / 4;
        return (2 * quad + row % 16 / 8) * 32 + row % 8 * 4 + in_row % 4;
    }

    uint8_t* at(size_t plane, size_t offset) const { return reinterpret_cast<uint8_t*>(to.begin[plane]) + offset; }
};

// The 16 bytes of nibbles of 32 elements below 16.
void put_nibbles(uint8_t* out, const uint8_t* q) {
    for (int i = 0; i < 16; ++i) out[i] = static_cast<uint8_t>((q[i] & 15) | (q[16 + i] & 15) << 4);
}

// The fifth bits of 32 elements, of which element i has bit i of `bits`.
void put_fifth_bits(uint8_t* out, uint32_t bits) {
    uint32_t high = 0;
    for (uint32_t i = 0; i < 32; ++i) high |= (bits >> i & 1U) << (8 * (i % 4) + i / 4);
    std::memcpy(out, &high, sizeof(high));
}

void put(const format::BlockQ8_0& in, size_t block, const Cursor& to) {
    const size_t place = to.place(block);
    std::memcpy(to.at(Planes::quants, 32 * place), in.qs, 32);
    std::memcpy(to.at(Planes::scales, 2 * place), &in.d, 2);
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
    put_fifth_bits(to.at(Planes::high, 4 * place), bits);
}

void put(const format::BlockQ5_1& in, size_t block, const Cursor& to) {
    const size_t place = to.place(block);
    std::memcpy(to.at(Planes::quants, 16 * place), in.qs, 16);
    std::memcpy(to.at(Planes::scales, 4 * place), &in.d, 4);  // d and m
    uint32_t bits = 0;
    std::memcpy(&bits, in.qh, sizeof(bits));
    put_fifth_bits(to.at(Planes::high, 4 * place), bits);
}

// The 32 low nibbles of sub-block s of a K block.
void k_nibbles(const uint8_t* qs, int s, uint8_t* q) {
    for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(qs[32 * (s / 2) + i] >> (4 * (s % 2)) & 15);
}

void put(const format::BlockQ4_K& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::scales, 16 * block), &in.d, 16);  // d, dmin and the packed scales
    for (int s = 0; s < 8; ++s) {
        uint8_t q[32];
        k_nibbles(in.qs, s, q);
        put_nibbles(to.at(Planes::quants, 16 * to.place(8 * block + static_cast<size_t>(s))), q);
    }
}

void put(const format::BlockQ5_K& in, size_t block, const Cursor& to) {
    std::memcpy(to.at(Planes::scales, 16 * block), &in.d, 16);
    for (int s = 0; s < 8; ++s) {
        const size_t place = to.place(8 * block + static_cast<size_t>(s));
        uint8_t q[32];
        k_nibbles(in.qs, s, q);
        put_nibbles(to.at(Planes::quants, 16 * place), q);
        uint32_t bits = 0;
        for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(in.qh[i] >> s & 1) << i;
        put_fifth_bits(to.at(Planes::high, 4 * place), bits);
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

template <typename Block>
void repack_blocks(std::span<const std::byte> blocks, const PlaneTargets& targets, int64_t tiled_cols) {
    const Cursor to{targets, static_cast<size_t>(tiled_cols / 32)};
    for (size_t i = 0; i < blocks.size() / sizeof(Block); ++i) {
        Block block;
        std::memcpy(&block, blocks.data() + i * sizeof(Block), sizeof(Block));
        put(block, i, to);
    }
}

}  // namespace

bool is_tiled(DType dtype, int64_t rows, int64_t cols) {
    return info(dtype).block > 1 && rows % kTiledRows == 0 && cols % kTiledCols == 0;
}

std::array<uint64_t, Planes::count> plane_bytes(DType dtype, int64_t elements) {
    const auto n = static_cast<uint64_t>(elements);
    switch (dtype) {
        case DType::q8_0:
            return {n, n / 16, 0, 0};
        case DType::q4_0:
            return {n / 2, n / 16, 0, 0};
        case DType::q4_1:
            return {n / 2, n / 8, 0, 0};
        case DType::q5_0:
            return {n / 2, n / 16, n / 8, 0};
        case DType::q5_1:
            return {n / 2, n / 8, n / 8, 0};
        case DType::q4_k:
            return {n / 2, n / 16, 0, 0};
        case DType::q5_k:
            return {n / 2, n / 16, n / 8, 0};
        case DType::q6_k:
            return {n / 2, n / 16, n / 4, n / 128};
        case DType::f32:
        case DType::i32:
            return {4 * n, 0, 0, 0};
        case DType::f16:
        case DType::bf16:
            return {2 * n, 0, 0, 0};
    }
    CHECK(false, "unknown element type");
}

void repack(DType dtype, std::span<const std::byte> blocks, const PlaneTargets& targets, int64_t tiled_cols) {
    switch (dtype) {
        case DType::q8_0:
            return repack_blocks<format::BlockQ8_0>(blocks, targets, tiled_cols);
        case DType::q4_0:
            return repack_blocks<format::BlockQ4_0>(blocks, targets, tiled_cols);
        case DType::q4_1:
            return repack_blocks<format::BlockQ4_1>(blocks, targets, tiled_cols);
        case DType::q5_0:
            return repack_blocks<format::BlockQ5_0>(blocks, targets, tiled_cols);
        case DType::q5_1:
            return repack_blocks<format::BlockQ5_1>(blocks, targets, tiled_cols);
        case DType::q4_k:
            return repack_blocks<format::BlockQ4_K>(blocks, targets, tiled_cols);
        case DType::q5_k:
            return repack_blocks<format::BlockQ5_K>(blocks, targets, tiled_cols);
        case DType::q6_k:
            return repack_blocks<format::BlockQ6_K>(blocks, targets, tiled_cols);
        case DType::f32:
        case DType::f16:
        case DType::bf16:
        case DType::i32:
            std::memcpy(targets.begin[Planes::quants], blocks.data(), blocks.size());
            return;
    }
}

}  // namespace tandem::vulkan
