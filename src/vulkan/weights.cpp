#include "vulkan/weights.h"

#include "base/check.h"

namespace tandem::vulkan {

namespace {

// A tensor goes up in pieces of about this much, so that staging memory stays small whatever the tensor.
constexpr int64_t kPieceElements = int64_t{16} << 20;

// Copies the planes of one piece from the staging buffer into place and waits.
Status upload(Queue& queue, const Buffer& staging, const Buffer& target, std::span<const VkBufferCopy> regions) {
    VkCommandBuffer commands = TRY(queue.allocate());
    TRY(Queue::begin(commands));
    vkCmdCopyBuffer(commands, staging.handle, target.handle, static_cast<uint32_t>(regions.size()), regions.data());
    TRY(Queue::end(commands));
    const uint64_t done = TRY(queue.submit(commands));
    TRY(queue.wait(done));
    queue.free(commands);
    return Ok{};
}

}  // namespace

WeightStore::WeightStore(std::shared_ptr<Device> device, Queue& queue)
    : queue_(queue), arena_(std::move(device), MemoryKind::device) {}

Result<DeviceWeight> WeightStore::get(const std::string& name, const graph::WeightView& view) {
    if (const auto found = uploaded_.find(name); found != uploaded_.end()) return found->second;
    int64_t elements = 1;
    for (int64_t extent : view.shape) elements *= extent;
    const auto sizes = plane_bytes(view.dtype, elements);

    // One buffer for all planes, each beginning at an aligned offset.
    const auto align = [](uint64_t bytes) {
        return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
    };
    std::array<uint64_t, Planes::count> offset{};
    uint64_t total = 0;
    for (size_t plane = 0; plane < Planes::count; ++plane) {
        offset[plane] = total;
        total += align(sizes[plane]);
    }
    const Buffer target = TRY(arena_.allocate(total));

    const auto piece_sizes = plane_bytes(view.dtype, std::min(elements, kPieceElements));
    uint64_t staging_bytes = 0;
    for (uint64_t size : piece_sizes) staging_bytes += align(size);
    Arena staging_arena(queue_.device(), MemoryKind::upload, staging_bytes);
    const Buffer staging = TRY(staging_arena.allocate(staging_bytes));
    for (int64_t first = 0; first < elements; first += kPieceElements) {
        const int64_t count = std::min(kPieceElements, elements - first);
        const auto before = plane_bytes(view.dtype, first);
        const auto bytes = plane_bytes(view.dtype, count);
        PlaneTargets targets;
        std::vector<VkBufferCopy> regions;
        uint64_t at = 0;
        for (size_t plane = 0; plane < Planes::count; ++plane) {
            if (bytes[plane] == 0) continue;
            targets.begin[plane] = staging.mapped + at;
            regions.push_back({staging.offset + at, target.offset + offset[plane] + before[plane], bytes[plane]});
            at += align(bytes[plane]);
        }
        repack(view.dtype, view.data.subspan(row_bytes(view.dtype, first), row_bytes(view.dtype, count)), targets);
        TRY(upload(queue_, staging, target, regions));
    }

    DeviceWeight weight;
    for (size_t plane = 0; plane < Planes::count; ++plane) {
        if (sizes[plane] > 0) weight.planes[plane] = target.address + offset[plane];
    }
    uploaded_.emplace(name, weight);
    return weight;
}

}  // namespace tandem::vulkan
