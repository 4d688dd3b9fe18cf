// What the tiles of a design need: memory, descriptors, locks and DMA channels, counted as the vendor's compiler places
// object FIFOs.
#pragma once

#include <cstdint>
#include <map>

#include "npu/array.h"
#include "npu/design.h"

namespace tandem::npu {

constexpr int64_t kBufferAlignment = 64;  // of every buffer that a kernel gets
constexpr int64_t kWordBytes = 4;         // DMA moves whole words
// What a core's memory has to leave for data that only the compiler knows: constants, and the counters of FIFOs.
constexpr int64_t kLinkerBytes = 1024;
constexpr int64_t kLeastStackBytes = 1024;

struct TileUse {
    int64_t memory_bytes = 0;  // stack, local buffers and FIFO objects
    int descriptors = 0;
    int descriptors_even = 0;  // of the channels 0, 2, 4 of a mem tile, which reach half of its descriptors
    int locks = 0;
    int channels_in = 0;
    int channels_out = 0;
};

// Whether the objects go through memory that both cores reach, without DMA; and the tile they then lie on.
bool shares_memory(const Fifo& fifo, const Array& array);
Tile shared_tile(const Fifo& fifo, const Array& array);

// Of a design whose tiles exist and whose links name its FIFOs.
std::map<Tile, TileUse> tile_use(const Design& design, const Array& array);

}  // namespace tandem::npu
