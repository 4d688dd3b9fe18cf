#include "vulkan/upload.h"

#include <algorithm>
#include <vector>

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
    threads_ = std::make_unique<ThreadPool>();
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

int64_t Uploader::room(const Slot& slot, DType dtype) const {
    const uint64_t lost = Planes::count * Arena::kAlignment;  // to the alignment of each plane
    const uint64_t free = slot_bytes_ - slot.used_bytes;
    if (free <= lost) return 0;
    uint64_t unit_bytes = 0;
    for (uint64_t bytes : plane_bytes(dtype, kUnit)) unit_bytes += bytes;
    return static_cast<int64_t>((free - lost) / unit_bytes) * kUnit;
}

void Uploader::repack_parallel(DType dtype, std::span<const std::byte> blocks, const PlaneTargets& targets) {
    const int64_t elements = static_cast<int64_t>(blocks.size()) / info(dtype).block_bytes * info(dtype).block;
    constexpr int64_t kGrain = 1024;  // units
    threads_->for_each_range((elements + kUnit - 1) / kUnit, kGrain, [&](int64_t begin, int64_t end, int /*thread*/) {
        const int64_t first = begin * kUnit;
        const int64_t count = std::min(end * kUnit, elements) - first;
        PlaneTargets part;
        const auto before = plane_bytes(dtype, first);
        for (size_t plane = 0; plane < Planes::count; ++plane) {
            if (targets.begin[plane] != nullptr) part.begin[plane] = targets.begin[plane] + before[plane];
        }
        repack(dtype, blocks.subspan(row_bytes(dtype, first), row_bytes(dtype, count)), part);
    });
}

Status Uploader::put(const graph::WeightView& view, const PlanePlace& place, int64_t first) {
    const int64_t elements = view.elements();
    for (int64_t done = 0; done < elements;) {
        Slot* const slot = TRY(open_slot());
        const int64_t count = std::min(room(*slot, view.dtype), elements - done);
        if (count == 0) {
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
        repack_parallel(view.dtype, view.data.subspan(row_bytes(view.dtype, done), row_bytes(view.dtype, count)),
                        targets);
        vkCmdCopyBuffer(slot->commands, slot->staging.handle, place.buffer.handle,
                        static_cast<uint32_t>(regions.size()), regions.data());
        done += count;
    }
    return Ok{};
}

Status Uploader::finish() {
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
    threads_.reset();
    return status;
}

}  // namespace tandem::vulkan
