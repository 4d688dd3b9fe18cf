#include "npu/array.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace tandem::npu {
namespace {

// AIE2's tiles; AIE2P has the same around other cores.
constexpr TileLimits kShim{.memory_bytes = 0,
                           .banks = 0,
                           .locks = 16,
                           .descriptors = 16,
                           .channels_in = 2,
                           .channels_out = 2,
                           .dimensions = 4,
                           .max_words = (int64_t{1} << 32) - 1,
                           .max_size = 1023,
                           .max_stride = int64_t{1} << 20,
                           .max_repeat = 64,
                           .queue = 4};
constexpr TileLimits kMem{.memory_bytes = 512 * 1024,
                          .banks = 8,
                          .locks = 64,
                          .descriptors = 48,
                          .channels_in = 6,
                          .channels_out = 6,
                          .dimensions = 4,
                          .max_words = (int64_t{1} << 17) - 1,
                          .max_size = 1023,
                          .max_stride = int64_t{1} << 17,
                          .max_repeat = 0,
                          .queue = 0};
constexpr TileLimits kCompute{.memory_bytes = 64 * 1024,
                              .banks = 4,
                              .locks = 16,
                              .descriptors = 16,
                              .channels_in = 2,
                              .channels_out = 2,
                              .dimensions = 3,
                              .max_words = (int64_t{1} << 14) - 1,
                              .max_size = 255,
                              .max_stride = int64_t{1} << 13,
                              .max_repeat = 0,
                              .queue = 0};

constexpr Ports kShimPorts{.north = 6, .south = 0, .east = 4, .west = 4};
constexpr Ports kMemPorts{.north = 6, .south = 4, .east = 0, .west = 0};
constexpr Ports kComputePorts{.north = 6, .south = 4, .east = 4, .west = 4};

constexpr std::array<std::string_view, 12> kMmulNpu1{
    "4x8x4 i8",  "4x16x4 i8", "8x8x4 i8",  "2x8x8 i8",  "4x8x8 i8",  "2x16x8 i8",
    "4x16x8 i8", "4x4x4 i16", "2x4x8 i16", "4x4x8 i16", "4x2x8 i16", "4x8x4 bf16",
};
constexpr std::array<std::string_view, 8> kMmulNpu2{
    "4x8x8 i8", "8x8x8 i8", "8x8x4 i8", "4x4x8 i16", "4x4x4 i16", "8x2x8 i16", "4x8x8 bf16", "8x8x8 bf16",
};

const std::array kArrays{
    Array{.name = "npu1",
          .description = "Phoenix, Hawk Point (XDNA, AIE2)",
          .target = "npu1",
          .core_target = "aie2",
          .columns = 4,
          .rows = 6,
          .shim = kShim,
          .mem = kMem,
          .compute = kCompute,
          .shim_ports = kShimPorts,
          .mem_ports = kMemPorts,
          .compute_ports = kComputePorts,
          .stream_bytes_per_cycle = 4,
          .local_load_bytes_per_cycle = 64,
          .shim_channel_gb_s = 6.9,
          .ddr_gb_s = 27,
          .clock_mhz = 1600,
          .macs_per_cycle_i8 = 256,
          .mmul_shapes = kMmulNpu1,
          .native_rows_i8 = 4},
    Array{.name = "npu2",
          .description = "Strix, Strix Halo, Krackan (XDNA 2, AIE2P)",
          .target = "npu2",
          .core_target = "aie2p",
          .columns = 8,
          .rows = 6,
          .shim = kShim,
          .mem = kMem,
          .compute = kCompute,
          .shim_ports = kShimPorts,
          .mem_ports = kMemPorts,
          .compute_ports = kComputePorts,
          .stream_bytes_per_cycle = 4,
          .local_load_bytes_per_cycle = 128,
          .shim_channel_gb_s = 7,
          .ddr_gb_s = 60,
          .clock_mhz = 1800,
          .macs_per_cycle_i8 = 512,
          .mmul_shapes = kMmulNpu2,
          .native_rows_i8 = 8},
};

}  // namespace

std::string_view name(TileKind kind) {
    switch (kind) {
        case TileKind::shim:
            return "shim";
        case TileKind::mem:
            return "mem tile";
        case TileKind::compute:
            return "compute tile";
    }
    CHECK(false, "no such kind of tile");
}

bool Array::has(Tile tile) const {
    return tile.column >= 0 && tile.column < columns && tile.row >= 0 && tile.row < rows;
}

TileKind Array::kind(Tile tile) const {
    CHECK(has(tile), "the array has no such tile");
    return tile.row == 0 ? TileKind::shim : tile.row == 1 ? TileKind::mem : TileKind::compute;
}

const TileLimits& Array::limits(TileKind kind) const {
    return kind == TileKind::shim ? shim : kind == TileKind::mem ? mem : compute;
}

const Ports& Array::ports(TileKind kind) const {
    return kind == TileKind::shim ? shim_ports : kind == TileKind::mem ? mem_ports : compute_ports;
}

// A core has its own memory at its east side, that of its western neighbour and those above and below.
bool Array::reaches(Tile core, Tile memory) const {
    if (!has(core) || !has(memory) || kind(core) != TileKind::compute || kind(memory) != TileKind::compute)
        return false;
    if (core.row == memory.row) return memory.column == core.column || memory.column == core.column - 1;
    return core.column == memory.column && std::abs(core.row - memory.row) == 1;
}

bool Array::multiplies(std::string_view shape) const {
    return std::find(mmul_shapes.begin(), mmul_shapes.end(), shape) != mmul_shapes.end();
}

int Array::compute_tiles() const {
    return columns * (rows - 2);
}

std::span<const Array> arrays() {
    return kArrays;
}

const Array* find_array(std::string_view name) {
    const auto at =
        std::find_if(kArrays.begin(), kArrays.end(), [&](const Array& array) { return array.name == name; });
    return at == kArrays.end() ? nullptr : &*at;
}

Result<const Array*> array_named(std::string_view name) {
    const Array* const array = find_array(name);
    if (array == nullptr) return fail("there is no array '{}': npu1 and npu2 are known", name);
    return array;
}

}  // namespace tandem::npu
