#include "npu/tile_use.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::npu {
namespace {

constexpr int kLocksPerEnd = 2;  // objects that are free, objects that are full

int64_t buffers_bytes(const ObjectType& object, int64_t count) {
    const int64_t aligned = (object.size_bytes() + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    return aligned * count;
}

// A DMA channel at one end of a FIFO, with a descriptor for each part of each object.
void add_channel(TileUse& use, bool out, int descriptors) {
    const int channel = out ? use.channels_out++ : use.channels_in++;
    use.descriptors += descriptors;
    if (channel % 2 == 0) use.descriptors_even += descriptors;
}

void add_buffers(TileUse& use, const ObjectType& object, int depth) {
    use.memory_bytes += buffers_bytes(object, depth);
    use.locks += kLocksPerEnd;
}

class UseCounter {
  public:
    UseCounter(const Design& design, const Array& array) : design_(design), array_(array) {}

    std::map<Tile, TileUse> count() {
        for (const Worker& worker : design_.workers) add_worker(worker);
        for (const Fifo& fifo : design_.fifos) add_fifo(fifo);
        for (const Link& link : design_.links) add_link(link);
        return std::move(tiles_);
    }

  private:
    void add_worker(const Worker& worker) {
        TileUse& use = tiles_[worker.tile];
        use.memory_bytes += worker.stack_bytes;
        for (const LocalBuffer& buffer : worker.buffers) use.memory_bytes += buffers_bytes(buffer.type, 1);
    }

    void add_fifo(const Fifo& fifo) {
        if (shares_memory(fifo, array_)) {
            add_buffers(tiles_[shared_tile(fifo, array_)], fifo.object, fifo.depth);
            return;
        }
        add_end(fifo, fifo.producer, true);
        for (const Tile& consumer : fifo.consumers) add_end(fifo, consumer, false);
    }

    // The descriptors of a shim are made by the runtime sequence, and the objects of a link are counted with the link.
    void add_end(const Fifo& fifo, Tile tile, bool out) {
        TileUse& use = tiles_[tile];
        const TileKind kind = array_.kind(tile);
        const auto parts = static_cast<int>(parts_at(design_, fifo, out).size());
        add_channel(use, out, kind == TileKind::shim ? 0 : pool_depth(fifo, out) * parts);
        if (kind == TileKind::compute) add_buffers(use, fifo.object, fifo.depth);
        if (kind == TileKind::shim) use.locks += kLocksPerEnd;
    }

    // The objects that a channel goes through in turn: at a link those of the larger side, which both sides share.
    int pool_depth(const Fifo& fifo, bool out) const {
        for (const Link& link : design_.links) {
            const std::vector<std::string>& side = out ? link.to : link.from;
            if (std::find(side.begin(), side.end(), fifo.name) == side.end()) continue;
            const Fifo* whole = find_fifo(design_, link.from.size() > 1 ? link.to.front() : link.from.front());
            CHECK(whole != nullptr, "a link names a FIFO that is not there");
            return whole->depth;
        }
        return fifo.depth;
    }

    // The objects of the larger side are there once; each part of it has locks of its own.
    void add_link(const Link& link) {
        const bool join = link.from.size() > 1;
        const Fifo* whole = find_fifo(design_, join ? link.to.front() : link.from.front());
        CHECK(whole != nullptr, "a link names a FIFO that is not there");
        TileUse& use = tiles_[join ? whole->producer : whole->consumers.front()];
        use.memory_bytes += buffers_bytes(whole->object, whole->depth);
        use.locks += kLocksPerEnd * static_cast<int>(std::max(link.from.size(), link.to.size()));
    }

    const Design& design_;
    const Array& array_;
    std::map<Tile, TileUse> tiles_;
};

}  // namespace

bool shares_memory(const Fifo& fifo, const Array& array) {
    const bool plain = fifo.to_stream.empty() && std::all_of(fifo.from_stream.begin(), fifo.from_stream.end(),
                                                             [](const Access& access) { return access.empty(); });
    if (!plain || fifo.consumers.size() != 1) return false;
    const Tile consumer = fifo.consumers.front();
    return array.reaches(consumer, fifo.producer) || array.reaches(fifo.producer, consumer);
}

Tile shared_tile(const Fifo& fifo, const Array& array) {
    const Tile consumer = fifo.consumers.front();
    return array.reaches(consumer, fifo.producer) ? fifo.producer : consumer;
}

std::map<Tile, TileUse> tile_use(const Design& design, const Array& array) {
    return UseCounter(design, array).count();
}

}  // namespace tandem::npu
