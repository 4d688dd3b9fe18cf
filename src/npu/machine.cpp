#include "npu/machine.h"

#include <algorithm>
#include <cstring>

namespace tandem::npu {
namespace {

constexpr std::byte kGuard{0xA5};
constexpr std::byte kPoison{0xCD};
constexpr uint64_t kObjectAlignment = 64;

uint64_t round_up(uint64_t value, uint64_t step) {
    return (value + step - 1) / step * step;
}

}  // namespace

std::string text(Tile tile) {
    return fmt::format("({}, {})", tile.column, tile.row);
}

GuardedMemory::GuardedMemory(int64_t object_bytes, int objects)
    : object_bytes_(static_cast<uint64_t>(object_bytes)),
      pitch_(round_up(object_bytes_, kObjectAlignment) + kGuardBytes),
      objects_(static_cast<uint64_t>(objects)),
      bytes_(static_cast<std::byte*>(::operator new[](objects_* pitch_ + kGuardBytes, kAlignment))) {
    std::fill_n(bytes_.get(), objects_ * pitch_ + kGuardBytes, kGuard);
    poison();
}

bool GuardedMemory::intact(const std::byte* object) const {
    const auto untouched = [](const std::byte* from, const std::byte* to) {
        return std::all_of(from, to, [](std::byte byte) { return byte == kGuard; });
    };
    return untouched(object - kGuardBytes, object) && untouched(object + object_bytes_, object + pitch_);
}

void GuardedMemory::poison() const {
    for (uint64_t i = 0; i < objects_; ++i) std::fill_n(object(i), object_bytes_, kPoison);
}

Pool::Pool(const Fifo& fifo, Tile tile, size_t writers, size_t readers)
    : fifo_(&fifo),
      tile_(tile),
      depth_(static_cast<uint64_t>(fifo.depth)),
      memory_(fifo.object.size_bytes(), fifo.depth),
      written_(writers, 0),
      read_(readers, 0) {}

bool Pool::can_write(size_t writer, uint64_t objects) const {
    return written_[writer] + objects <= *std::min_element(read_.begin(), read_.end()) + depth_;
}

bool Pool::can_read(size_t reader, uint64_t objects) const {
    return read_[reader] + objects <= *std::min_element(written_.begin(), written_.end());
}

uint64_t Pool::left_behind() const {
    return *std::max_element(written_.begin(), written_.end()) - *std::min_element(read_.begin(), read_.end());
}

void Pool::reset() {
    std::fill(written_.begin(), written_.end(), 0);
    std::fill(read_.begin(), read_.end(), 0);
    memory_.poison();
}

const Pool* Stream::full_sink() const {
    const auto full = std::find_if(sinks.begin(), sinks.end(),
                                   [](const Sink& sink) { return !sink.pool->can_write(sink.writer, 1); });
    return full == sinks.end() ? nullptr : full->pool;
}

bool Stream::step(std::vector<size_t>& ended) {
    bool moved = false;
    while (source_ready() && sinks_ready()) {
        move_object();
        moved = true;
        if (!transfers.empty() && transfers.front().left_bytes == 0) {
            ended.push_back(transfers.front().index);
            if (transfers.front().token) ++tokens;
            transfers.pop_front();
        }
    }
    return moved;
}

// One descriptor after another on the side that has several.
void Stream::copy_object(AccessCursor* transfer, const Sink* sink) const {
    const int64_t size_bytes = fifo->object.size_bytes();
    std::byte* const from = source == nullptr ? nullptr : source->to_read(reader) + offset_bytes;
    std::byte* const to = sink == nullptr ? nullptr : sink->pool->to_write(sink->writer) + sink->offset_bytes;
    if (source == nullptr || (sink != nullptr && sink->parts.size() > 1)) {
        AccessCursor reads = source == nullptr ? *transfer : AccessCursor(parts[0].runs, from);
        for (const PartRuns& part : sink->parts) {
            AccessCursor writes(part.runs, to + part.offset_bytes);
            AccessCursor::copy(reads, writes, part.runs.size_bytes());
        }
        if (source == nullptr) *transfer = reads;
        return;
    }
    AccessCursor writes = sink == nullptr ? *transfer : AccessCursor(sink->parts[0].runs, to);
    for (const PartRuns& part : parts) {
        AccessCursor reads(part.runs, from + part.offset_bytes);
        AccessCursor::copy(reads, writes, std::min(size_bytes, part.runs.size_bytes()));
    }
    if (sink == nullptr) *transfer = writes;
}

void Stream::move_object() {
    ActiveTransfer* const transfer = transfers.empty() ? nullptr : &transfers.front();
    AccessCursor* const cursor = transfer == nullptr ? nullptr : &transfer->cursor;
    if (sinks.empty()) copy_object(cursor, nullptr);
    std::optional<AccessCursor> after;
    for (const Sink& sink : sinks) {
        std::optional<AccessCursor> of_sink;
        if (cursor != nullptr) of_sink = *cursor;
        copy_object(of_sink ? &*of_sink : nullptr, &sink);
        sink.pool->wrote(sink.writer, 1);
        after = of_sink;
    }
    if (source != nullptr) source->has_read(reader, 1);
    if (source == nullptr) *cursor = *after;
    if (transfer != nullptr) transfer->left_bytes -= fifo->object.size_bytes();
    ++objects;
}

}  // namespace tandem::npu
