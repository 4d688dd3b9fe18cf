// Activity: what a run of a Design makes the array do, as the emulator counts it and the estimate foresees it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "npu/design.h"
#include "npu/kernels.h"

namespace tandem::npu {

// The calls of one core.
struct TileActivity {
    Tile tile;
    uint64_t calls = 0;
    uint64_t cycles = 0;
    Counts counts;

    bool operator==(const TileActivity&) const = default;
};

// What one FIFO's stream carries; none between tiles that share memory. A broadcast counts once.
struct StreamActivity {
    std::string fifo;
    uint64_t objects = 0;
    uint64_t size_bytes = 0;

    bool operator==(const StreamActivity&) const = default;
};

// What goes between a shim's channel and the host's memory.
struct HostActivity {
    std::string fifo;
    Tile shim;
    bool to_array = false;
    uint64_t object_bytes = 0;
    uint64_t size_bytes = 0;

    bool operator==(const HostActivity&) const = default;
};

// In the order of the Design's workers and FIFOs.
struct Activity {
    std::vector<TileActivity> tiles;
    std::vector<StreamActivity> streams;
    std::vector<HostActivity> host;

    Counts total() const;
    // A stream's objects; with the host's part where it is at one end.
    void add_stream(const Fifo& fifo, uint64_t objects);
    bool operator==(const Activity&) const = default;
};

}  // namespace tandem::npu
