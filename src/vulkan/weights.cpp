#include "vulkan/weights.h"

#include <algorithm>

#include "base/check.h"
#include "vulkan/kernels/row_bounds.h"
#include "vulkan/placement.h"
#include "vulkan/recorder.h"

namespace tandem::vulkan {

namespace {

// Kernels read planes 16 bytes at a time.
bool readable(const PlaneAddresses& planes) {
    return std::all_of(planes.begin(), planes.end(), [](uint64_t plane) { return plane % 16 == 0; });
}

bool fills_tiles(std::span<const NamedWeight> parts) {
    return std::all_of(parts.begin(), parts.end(), [](const NamedWeight& part) {
        const graph::WeightView& view = *part.view;
        // Of experts, each matrix is whole tiles.
        return view.shape.size() >= 2 && is_tiled(view.dtype, view.shape.rbegin()[1], view.shape.back());
    });
}

}  // namespace

WeightStore::WeightStore(std::shared_ptr<Device> device, Queue& queue, std::shared_ptr<const void> keeper)
    : keeper_(std::move(keeper)),
      queue_(queue),
      device_(device, weight_memory(*device)),
      host_(device, MemoryKind::gtt),
      bounds_memory_(device, MemoryKind::device, uint64_t{1} << 16),
      uploader_(queue) {}

Status WeightStore::place(const graph::Program& program) {
    std::vector<WeightDemand> demands = weight_demands(program);
    std::erase_if(demands, [&](const WeightDemand& demand) { return present_.contains(demand.name); });
    const auto placed = place_weights(demands, weight_budget(*queue_.device()));
    if (!placed) return fail("{}: {}", queue_.device()->info().name, placed.error().message);
    in_host_ = *placed;
    return Ok{};
}

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
        elements += part.view->elements();
    }
    if (const auto found = uploaded_.find(key); found != uploaded_.end()) return found->second;

    // Parts are used together, so where the first one goes the others nearly always go too.
    const bool in_host = in_host_.contains(std::string(parts[0].name));
    const PlanePlace place = TRY(reserve(in_host ? host_ : device_, dtype, elements));
    TRY(book_of(dtype));
    const bool tiled = fills_tiles(parts);
    int64_t first = 0;
    for (const NamedWeight& part : parts) {
        TRY(put(*part.view, place, first, tiled));
        present_.emplace(part.name);
        const DeviceWeight alone{address_of(place, dtype, first), tiled};
        if (readable(alone.planes)) uploaded_.emplace(part.name, alone);
        first += part.view->elements();
    }
    const DeviceWeight weight{address_of(place, dtype, 0), tiled};
    uploaded_.emplace(std::move(key), weight);
    return weight;
}

Status WeightStore::put(const graph::WeightView& view, const PlanePlace& place, int64_t first, bool tiled) {
    if (view.parts.empty()) return uploader_.put(view, place, first, tiled);
    const std::vector<int64_t> shape(view.shape.begin() + 1, view.shape.end());
    for (const std::span<const std::byte> data : view.parts) {
        const graph::WeightView part{view.dtype, shape, data};
        TRY(uploader_.put(part, place, first, tiled));
        first += part.elements();
    }
    return Ok{};
}

DeviceWeight WeightStore::foresee(std::span<const NamedWeight> parts, bool bounded) {
    constexpr VkDeviceAddress kSomewhere = Arena::kAlignment;
    DeviceWeight weight{.tiled = fills_tiles(parts), .bounds = bounded ? kSomewhere : 0};
    weight.planes.fill(kSomewhere);
    return weight;
}

Status WeightStore::find_bounds(std::span<const Bounded> matrices, PipelineCache& pipelines) {
    std::vector<Bounded> unknown;
    std::vector<Buffer> buffers;
    for (const Bounded& matrix : matrices) {
        if (bounds_.contains(matrix.weight->planes[Planes::quants])) continue;
        unknown.push_back(matrix);
        buffers.push_back(TRY(bounds_memory_.allocate(2 * sizeof(float))));
    }
    if (!unknown.empty()) {
        TRY(finish());
        TRY(queue_.fill(buffers, 0));
    }
    const auto record = [&](VkCommandBuffer commands) -> Status {
        Recorder recorder(pipelines, commands);
        for (size_t i = 0; i < unknown.size(); ++i) {
            TRY(record_row_bounds(recorder, {.dtype = unknown[i].dtype,
                                             .weight = *unknown[i].weight,
                                             .rows = unknown[i].rows,
                                             .cols = unknown[i].cols,
                                             .bounds = whole(buffers[i])}));
        }
        recorder.finish();
        return Ok{};
    };
    if (!unknown.empty()) TRY(queue_.run(record));
    for (size_t i = 0; i < unknown.size(); ++i) {
        bounds_.emplace(unknown[i].weight->planes[Planes::quants], buffers[i].address);
    }
    for (const Bounded& matrix : matrices) matrix.weight->bounds = bounds_.at(matrix.weight->planes[Planes::quants]);
    return Ok{};
}

Result<PlanePlace> WeightStore::reserve(Arena& arena, DType dtype, int64_t elements) {
    const auto sizes = plane_bytes(dtype, elements);
    PlanePlace place;
    uint64_t total = 0;
    for (size_t plane = 0; plane < Planes::count; ++plane) {
        place.offset[plane] = total;
        total += Arena::align(sizes[plane]);
    }
    place.buffer = TRY(arena.allocate(total));
    return place;
}

Result<VkDeviceAddress> WeightStore::book_of(DType dtype) {
    if (const auto found = books_.find(dtype); found != books_.end()) return found->second;
    const std::vector<uint32_t> words = code_book(dtype);
    VkDeviceAddress address = 0;
    if (!words.empty()) {
        const auto count = static_cast<int64_t>(words.size());
        const PlanePlace place = TRY(reserve(device_, DType::i32, count));
        TRY(uploader_.put({.dtype = DType::i32, .shape = {count}, .data = std::as_bytes(std::span(words))}, place, 0,
                          false));
        address = place.buffer.address;
    }
    books_.emplace(dtype, address);
    return address;
}

PlaneAddresses WeightStore::address_of(const PlanePlace& place, DType dtype, int64_t first) const {
    const auto one = plane_bytes(dtype, info(dtype).block);
    const auto before = plane_bytes(dtype, first);
    PlaneAddresses planes{};
    planes[Planes::book] = books_.at(dtype);
    for (size_t plane = 0; plane < Planes::count; ++plane) {
        if (one[plane] > 0) planes[plane] = place.buffer.address + place.offset[plane] + before[plane];
    }
    return planes;
}

}  // namespace tandem::vulkan
