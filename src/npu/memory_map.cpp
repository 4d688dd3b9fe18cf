#include "npu/memory_map.h"

#include <algorithm>

#include "npu/tile_use.h"

namespace tandem::npu {
namespace {

int64_t aligned_bytes(const ObjectType& object) {
    return (object.size_bytes() + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

bool lies_on(const Array& array, const Fifo& fifo, Tile core) {
    if (shares_memory(fifo, array)) return shared_tile(fifo, array) == core;
    return fifo.producer == core ||
           std::find(fifo.consumers.begin(), fifo.consumers.end(), core) != fifo.consumers.end();
}

}  // namespace

std::vector<PlacedBuffer> memory_map(const Design& design, const Array& array, Tile core) {
    std::vector<PlacedBuffer> map;
    const auto add = [&](const std::string& name, int object, const ObjectType& type) {
        map.push_back({.name = name, .object = object, .begin = 0, .end = aligned_bytes(type)});
    };
    for (const Fifo& fifo : design.fifos) {
        if (!lies_on(array, fifo, core)) continue;
        for (int i = 0; i < fifo.depth; ++i) add(fifo.name, i, fifo.object);
    }
    int64_t at = 0;
    for (const Worker& worker : design.workers) {
        if (worker.tile != core) continue;
        at = worker.stack_bytes;
        for (const LocalBuffer& buffer : worker.buffers) add(buffer.name, 0, buffer.type);
    }
    std::stable_sort(map.begin(), map.end(),
                     [](const PlacedBuffer& a, const PlacedBuffer& b) { return a.end - a.begin > b.end - b.begin; });
    for (PlacedBuffer& buffer : map) {
        buffer.end += at - buffer.begin;
        buffer.begin = at;
        at = buffer.end;
    }
    return map;
}

bool share_a_bank(const std::vector<PlacedBuffer>& map, const Array& array, const std::string& a,
                  const std::string& b) {
    const int64_t bank = array.compute.memory_bytes / array.compute.banks;
    for (const PlacedBuffer& one : map) {
        for (const PlacedBuffer& other : map) {
            if (one.name != a || other.name != b) continue;
            if (one.begin / bank <= (other.end - 1) / bank && other.begin / bank <= (one.end - 1) / bank) return true;
        }
    }
    return false;
}

}  // namespace tandem::npu
