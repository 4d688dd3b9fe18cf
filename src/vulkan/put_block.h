// Where single blocks of a file go in the planes of a device (vulkan/planes.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/quant.h"
#include "vulkan/planes.h"

namespace tandem::vulkan {

// Where the planes of blocks begin; `block` of put() counts those of the file.
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

    // Where 16 bytes of the quants of a block go that has more, `chunks` times as many.
    uint8_t* chunk(size_t block, size_t chunk, size_t chunks) const {
        const size_t to_place = place(block);
        const size_t index =
            tiled_blocks == 0 ? to_place * chunks + chunk : (to_place / 32 * chunks + chunk) * 32 + to_place % 32;
        return at(Planes::quants, 16 * index);
    }

    uint8_t* at(size_t plane, size_t offset) const { return reinterpret_cast<uint8_t*>(to.begin[plane]) + offset; }
};

void put(const format::BlockQ8_0& in, size_t block, const Cursor& to);
void put(const format::BlockQ4_0& in, size_t block, const Cursor& to);
void put(const format::BlockQ4_1& in, size_t block, const Cursor& to);
void put(const format::BlockQ5_0& in, size_t block, const Cursor& to);
void put(const format::BlockQ5_1& in, size_t block, const Cursor& to);
void put(const format::BlockQ4_K& in, size_t block, const Cursor& to);
void put(const format::BlockQ5_K& in, size_t block, const Cursor& to);
void put(const format::BlockQ6_K& in, size_t block, const Cursor& to);
void put(const format::BlockQ2_K& in, size_t block, const Cursor& to);
void put(const format::BlockQ3_K& in, size_t block, const Cursor& to);
void put(const format::BlockIQ4_NL& in, size_t block, const Cursor& to);
void put(const format::BlockIQ4_XS& in, size_t block, const Cursor& to);
void put(const format::BlockMXFP4& in, size_t block, const Cursor& to);
void put(const format::BlockNVFP4& in, size_t block, const Cursor& to);
void put(const format::BlockIQ3_S& in, size_t block, const Cursor& to);
void put(const format::BlockIQ3_XXS& in, size_t block, const Cursor& to);
void put(const format::BlockIQ2_S& in, size_t block, const Cursor& to);
void put(const format::BlockIQ2_XS& in, size_t block, const Cursor& to);
void put(const format::BlockIQ2_XXS& in, size_t block, const Cursor& to);
void put(const format::BlockIQ1_S& in, size_t block, const Cursor& to);
void put(const format::BlockIQ1_M& in, size_t block, const Cursor& to);
void put(const format::BlockTQ1_0& in, size_t block, const Cursor& to);
void put(const format::BlockTQ2_0& in, size_t block, const Cursor& to);
void put(const format::BlockQ2_0& in, size_t block, const Cursor& to);
void put(const format::BlockQ1_0& in, size_t block, const Cursor& to);

}  // namespace tandem::vulkan
