#include "vulkan/upload.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace tandem::vulkan {

namespace {

// Every type's blocks divide it, and so every piece but a tensor's last is a multiple of it.
constexpr int64_t kUnit = 256;

}  // namespace

Uploader::Uploader(Queue& queue, uint64_t slot_bytes) : queue_(queue), slot_bytes_(slot_bytes) {}

Uploader::~Uploader() {
    // A failed upload may have left copies under way, and they read the staging memory.
    static_cast<void>(finish());
}

Status Uploader::prepare() {
    if (arena_) return Ok{};
    auto arena = std::make_unique<Arena>(queue_.device(), MemoryKind::upload, slot_bytes_ * slots_.size());
    for (Slot& slot : slots_) {
        slot = {};
        slot.staging = TRY(arena->allocate(slot_bytes_));
        slot.commands = TRY(queue_.allocate());
    }
    arena_ = std::move(arena);
    return Ok{};
}

Result<Uploader::Slot*> Uploader::open_slot() {
    TRY(prepare());
    Slot& slot = slots_[current_];
    if (slot.recording) return &slot;
    if (slot.submitted > 0) TRY(queue_.wait(slot.submitted));
    TRY(Queue::begin(slot.commands));
    slot.recording = true;
    slot.used_bytes = 0;
    return &slot;
}

Status Uploader::submit(Slot& slot) {
    slot.recording = false;
    TRY(Queue::end(slot.commands));
    slot.submitted = TRY(queue_.submit(slot.commands));
    current_ = (current_ + 1) % slots_.size();
    return Ok{};
}

int64_t Uploader::room(const Slot& slot, const Piece& piece) const {
    const uint64_t lost = Planes::count * Arena::kAlignment;  // to the alignment of each plane
    const uint64_t free = slot_bytes_ - slot.used_bytes;
    if (free <= lost) return 0;
    uint64_t unit_bytes = 0;
    for (uint64_t bytes : plane_bytes(piece.dtype, piece.unit)) unit_bytes += bytes;
    return static_cast<int64_t>((free - lost) / unit_bytes) * piece.unit;
}

void Uploader::repack_parallel(const Piece& piece, std::span<const std::byte> blocks, const PlaneTargets& targets) {
    const int64_t unit = piece.unit;
    const int64_t elements =
        static_cast<int64_t>(blocks.size()) / info(piece.dtype).block_bytes * info(piece.dtype).block;
    constexpr int64_t kGrain = 1 << 18;  // elements
    const auto range = [&](int64_t begin, int64_t end, int /*thread*/) {
        const int64_t from = begin * piece.unit;
        const int64_t count = std::min(end * piece.unit, elements) - from;
        PlaneTargets part;
        const auto before = plane_bytes(piece.dtype, from);
        for (size_t plane = 0; plane < Planes::count; ++plane) {
            if (targets.begin[plane] != nullptr) part.begin[plane] = targets.begin[plane] + before[plane];
        }
        repack(piece.dtype, blocks.subspan(row_bytes(piece.dtype, from), row_bytes(piece.dtype, count)), part,
               piece.tiled_cols);
    };
    threads_->for_each_range((elements + unit - 1) / unit, std::max<int64_t>(kGrain / unit, 1), range);
}

Uploader::Piece Uploader::piece_of(const graph::WeightView& view, bool tiled) {
    const int64_t cols = view.shape.back();
    return {view.dtype, tiled ? kTiledRows * cols : kUnit, tiled ? cols : 0};
}

Status Uploader::put(const graph::WeightView& view, const PlanePlace& place, int64_t first, bool tiled) {
    if (!threads_) threads_ = std::make_unique<ThreadPool>();
    if (place.buffer.mapped == nullptr) return stage(view, place, first, tiled);
    const auto before = plane_bytes(view.dtype, first);
    const auto bytes = plane_bytes(view.dtype, view.elements());
    PlaneTargets targets;
    for (size_t plane = 0; plane < Planes::count; ++plane) {
        if (bytes[plane] > 0) targets.begin[plane] = place.buffer.mapped + place.offset[plane] + before[plane];
    }
    repack_parallel(piece_of(view, tiled), view.data, targets);
    return Ok{};
}

Status Uploader::stage(const graph::WeightView& view, const PlanePlace& place, int64_t first, bool tiled) {
    const int64_t elements = view.elements();
    const Piece piece = piece_of(view, tiled);
    for (int64_t done = 0; done < elements;) {
        Slot* const slot = TRY(open_slot());
        const int64_t count = std::min(room(*slot, piece), elements - done);
        if (count == 0) {
            CHECK(slot->used_bytes > 0, "staging memory takes at least a tile");
            TRY(submit(*slot));
            continue;
        }
        const auto before = plane_bytes(view.dtype, first + done);
        const auto bytes = plane_bytes(view.dtype, count);
        PlaneTargets targets;
        std::vector<VkBufferCopy> regions;
        for (size_t plane = 0; plane < Planes::count; ++plane) {
            if (bytes[plane] == 0) continue;
            targets.begin[plane] = slot->staging.mapped + slot->used_bytes;
            regions.push_back({slot->staging.offset + slot->used_bytes,
                               place.buffer.offset + place.offset[plane] + before[plane], bytes[plane]});
            slot->used_bytes += Arena::align(bytes[plane]);
        }
        repack_parallel(piece, view.data.subspan(row_bytes(view.dtype, done), row_bytes(view.dtype, count)), targets);
        vkCmdCopyBuffer(slot->commands, slot->staging.handle, place.buffer.handle,
                        static_cast<uint32_t>(regions.size()), regions.data());
        done += count;
    }
    return Ok{};
}

Status Uploader::finish() {
    threads_.reset();
    if (!arena_) return Ok{};
    Status status = Ok{};
    if (slots_[current_].recording) status = submit(slots_[current_]);
    for (Slot& slot : slots_) {
        if (slot.submitted > 0) {
            const Status waited = queue_.wait(slot.submitted);
            if (status) status = waited;
        }
        queue_.free(slot.commands);
    }
    arena_.reset();
    return status;
}

}  // namespace tandem::vulkan
