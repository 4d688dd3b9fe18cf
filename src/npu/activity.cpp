#include "npu/activity.h"

namespace tandem::npu {

Counts Activity::total() const {
    Counts sum;
    for (const TileActivity& tile : tiles) sum.add(tile.counts);
    return sum;
}

void Activity::add_stream(const Fifo& fifo, uint64_t objects) {
    const auto object_bytes = static_cast<uint64_t>(fifo.object.size_bytes());
    streams.push_back({fifo.name, objects, objects * object_bytes});
    const bool to_array = fifo.producer.row == 0;
    if (to_array || fifo.consumers[0].row == 0)
        host.push_back({.fifo = fifo.name,
                        .shim = to_array ? fifo.producer : fifo.consumers[0],
                        .to_array = to_array,
                        .object_bytes = object_bytes,
                        .size_bytes = objects * object_bytes});
}

}  // namespace tandem::npu
