// Array: what a generation of the NPU has, as data. docs/npu.md says where each number comes from; none was measured
// here.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "npu/design.h"

namespace tandem::npu {

enum class TileKind : uint8_t { shim, mem, compute };
std::string_view name(TileKind kind);  // "shim", "mem tile", "compute tile"

// Per tile of a kind. DMA counts 4-byte words: a descriptor moves up to `max_words` of them along up to `dimensions`
// dimensions. All but the outermost take up to `max_size` steps (the innermost counts words), each `max_stride` words
// at most; what is contiguous as a whole needs no dimensions. The shim's outermost dimension of four is a repetition of
// up to `max_repeat`, and its channels queue `queue` transfers.
struct TileLimits {
    int64_t memory_bytes = 0;
    int banks = 0;
    int locks = 0;
    int descriptors = 0;
    int channels_in = 0;   // stream to memory
    int channels_out = 0;  // memory to stream
    int dimensions = 0;
    int64_t max_words = 0;
    int64_t max_size = 0;
    int64_t max_stride = 0;
    int64_t max_repeat = 0;
    int queue = 0;
};

// Streams that one switch box can send to its neighbours.
struct Ports {
    int north = 0;
    int south = 0;
    int east = 0;
    int west = 0;
};

struct Array {
    std::string_view name;         // "npu1"
    std::string_view description;  // "Phoenix, Hawk Point (XDNA, AIE2)"
    std::string_view target;       // of the vendor's tools: "npu1"
    std::string_view core_target;  // of its compiler: "aie2"
    int columns = 0;               // that a design can use: each has a shim and a mem tile
    int rows = 0;                  // with those of shims and mem tiles
    TileLimits shim, mem, compute;
    Ports shim_ports, mem_ports, compute_ports;

    int64_t stream_bytes_per_cycle = 0;
    int64_t local_load_bytes_per_cycle = 0;         // a core from its memory: two 256-bit loads
    double shim_channel_gb_s = 0;                   // one channel, one direction
    double ddr_gb_s = 0;                            // all channels together, per direction
    double clock_mhz = 0;                           // the default; a parameter of every estimate
    int macs_per_cycle_i8 = 0;                      // of a core
    std::span<const std::string_view> mmul_shapes;  // "4x8x8 i8"
    int native_rows_i8 = 0;                         // r of the r x 8 x 8 that its rate of int8 is for

    bool has(Tile tile) const;
    TileKind kind(Tile tile) const;  // of a tile that exists
    const TileLimits& limits(TileKind kind) const;
    const Ports& ports(TileKind kind) const;
    // Whether a core of `core` reaches the memory of the compute tile `memory` directly.
    bool reaches(Tile core, Tile memory) const;
    bool multiplies(std::string_view shape) const;
    int compute_tiles() const;
};

std::span<const Array> arrays();
const Array* find_array(std::string_view name);  // nullptr: no such array
Result<const Array*> array_named(std::string_view name);

}  // namespace tandem::npu
