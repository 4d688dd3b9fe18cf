// From the blocks of a file to the planes of the device.
#include <cstring>

#include "vulkan/planes.h"
#include "vulkan/put_block.h"

namespace tandem::vulkan {

namespace {

template <typename Block>
void repack_blocks(std::span<const std::byte> blocks, const PlaneTargets& targets, int64_t tiled_cols) {
    const Cursor to{targets, static_cast<size_t>(tiled_cols / 32)};
    for (size_t i = 0; i < blocks.size() / sizeof(Block); ++i) {
        Block block;
        std::memcpy(&block, blocks.data() + i * sizeof(Block), sizeof(Block));
        put(block, i, to);
    }
}

// Of f16 and bf16: 64 bytes for 32 elements.
void tile_halves(std::span<const std::byte> elements, const PlaneTargets& targets, int64_t tiled_cols) {
    const Cursor to{targets, static_cast<size_t>(tiled_cols / 32)};
    for (size_t block = 0; block < elements.size() / 64; ++block) {
        for (size_t i = 0; i < 4; ++i) std::memcpy(to.chunk(block, i, 4), &elements[64 * block + 16 * i], 16);
    }
}

}  // namespace

bool is_tiled(DType dtype, int64_t rows, int64_t cols) {
    return dtype != DType::f32 && dtype != DType::i32 && rows % kTiledRows == 0 && cols % kTiledCols == 0;
}

std::array<uint64_t, Planes::count> plane_bytes(DType dtype, int64_t elements) {
    const auto n = static_cast<uint64_t>(elements);
    const PlaneSizes& of = info(dtype).planes;
    const auto bytes = [&](int size, uint64_t each) { return n * static_cast<uint64_t>(size) / each; };
    return {bytes(of.quants, 32), bytes(of.scales, 32), bytes(of.high, 32), bytes(of.deltas, 256)};
}

void repack(DType dtype, std::span<const std::byte> blocks, const PlaneTargets& targets, int64_t tiled_cols) {
    if (!is_quantized(dtype) && tiled_cols == 0) {
        std::memcpy(targets.begin[Planes::quants], blocks.data(), blocks.size());
        return;
    }
    if (!is_quantized(dtype)) return tile_halves(blocks, targets, tiled_cols);
    format::with_block(
        dtype, [&]<typename Block>(std::type_identity<Block>) { repack_blocks<Block>(blocks, targets, tiled_cols); });
}

}  // namespace tandem::vulkan
