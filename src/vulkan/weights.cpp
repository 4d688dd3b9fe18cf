#include "vulkan/weights.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::vulkan {

namespace {

// A tensor goes up in pieces of about this much, so that staging memory stays small whatever the tensor.
constexpr int64_t kPieceElements = int64_t{16} << 20;

uint64_t align(uint64_t bytes) {
    return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

int64_t elements_of(const graph::WeightView& view) {
    int64_t elements = 1;
    for (int64_t extent : view.shape) elements *= extent;
    return elements;
}

// Copies the planes of one piece from the staging buffer into place and waits.
Status copy(Queue& queue, const Buffer& staging, const Buffer& target, std::span<const VkBufferCopy> regions) {
    VkCommandBuffer commands = TRY(queue.allocate());
    TRY(Queue::begin(commands));
    vkCmdCopyBuffer(commands, staging.handle, target.handle, static_cast<uint32_t>(regions.size()), regions.data());
    TRY(Queue::end(commands));
    const uint64_t done = TRY(queue.submit(commands));
    TRY(queue.wait(done));
    queue.free(commands);
    return Ok{};
}

// Kernels read planes 16 bytes at a time.
bool readable(const DeviceWeight& weight) {
    return std::all_of(weight.planes.begin(), weight.planes.end(), [](uint64_t plane) { return plane % 16 == 0; });
}

}  // namespace

WeightStore::WeightStore(std::shared_ptr<Device> device, Queue& queue)
    : queue_(queue), arena_(std::move(device), MemoryKind::device) {}

Result<DeviceWeight> WeightStore::get(const std::string& name, const graph::WeightView& view) {
    const NamedWeight part{name, &view};
    return get({&part, 1});
}

Result<DeviceWeight> WeightStore::get(std::span<const NamedWeight> parts) {
    CHECK(!parts.empty(), "a weight of no parts");
    const DType dtype = parts[0].view->dtype;
    std::string key;
    int64_t elements = 0;
    for (const NamedWeight& part : parts) {
        CHECK(part.view->dtype == dtype, "the parts of a merged weight are of one type");
        CHECK(part.view->shape.size() == 1 || part.view->shape.back() == parts[0].view->shape.back(),
              "the parts of a merged weight have rows of one length");
        key.append(key.empty() ? 0 : 1, '\n').append(part.name);
        elements += elements_of(*part.view);
    }
    if (const auto found = uploaded_.find(key); found != uploaded_.end()) return found->second;

    const Place place = TRY(reserve(dtype, elements));
    int64_t first = 0;
    for (const NamedWeight& part : parts) {
        TRY(upload(*part.view, place, first));
        const DeviceWeight alone = address_of(place, dtype, first);
        if (readable(alone)) uploaded_.emplace(part.name, alone);
        first += elements_of(*part.view);
    }
    const DeviceWeight weight = address_of(place, dtype, 0);
    uploaded_.emplace(std::move(key), weight);
    return weight;
}

Result<WeightStore::Place> WeightStore::reserve(DType dtype, int64_t elements) {
    const auto sizes = plane_bytes(dtype, elements);
    Place place;
    uint64_t total = 0;
    for (size_t plane = 0; plane < Planes::count; ++plane) {
        place.offset[plane] = total;
        total += align(sizes[plane]);
    }
    place.buffer = TRY(arena_.allocate(total));
    return place;
}

Status WeightStore::upload(const graph::WeightView& view, const Place& place, int64_t first) {
    const int64_t elements = elements_of(view);
    const auto piece_sizes = plane_bytes(view.dtype, std::min(elements, kPieceElements));
    uint64_t staging_bytes = 0;
    for (uint64_t size : piece_sizes) staging_bytes += align(size);
    Arena staging_arena(queue_.device(), MemoryKind::upload, staging_bytes);
    const Buffer staging = TRY(staging_arena.allocate(staging_bytes));
    for (int64_t done = 0; done < elements; done += kPieceElements) {
        const int64_t count = std::min(kPieceElements, elements - done);
        const auto before = plane_bytes(view.dtype, first + done);
        const auto bytes = plane_bytes(view.dtype, count);
        PlaneTargets targets;
        std::vector<VkBufferCopy> regions;
        uint64_t at = 0;
        for (size_t plane = 0; plane < Planes::count; ++plane) {
            if (bytes[plane] == 0) continue;
            targets.begin[plane] = staging.mapped + at;
            regions.push_back(
                {staging.offset + at, place.buffer.offset + place.offset[plane] + before[plane], bytes[plane]});
            at += align(bytes[plane]);
        }
        repack(view.dtype, view.data.subspan(row_bytes(view.dtype, done), row_bytes(view.dtype, count)), targets);
        TRY(copy(queue_, staging, place.buffer, regions));
    }
    return Ok{};
}

DeviceWeight WeightStore::address_of(const Place& place, DType dtype, int64_t first) {
    const auto one = plane_bytes(dtype, info(dtype).block);
    const auto before = plane_bytes(dtype, first);
    DeviceWeight weight;
    for (size_t plane = 0; plane < Planes::count; ++plane) {
        if (one[plane] > 0) weight.planes[plane] = place.buffer.address + place.offset[plane] + before[plane];
    }
    return weight;
}

}  // namespace tandem::vulkan
