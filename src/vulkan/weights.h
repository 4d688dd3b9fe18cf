// Weights on the device: repacked, placed in the GPU's own memory or the host's, uploaded once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/dtype.h"
#include "base/result.h"
#include "graph/program.h"
#include "graph/weights.h"
#include "vulkan/kernels/contracts.h"
#include "vulkan/memory.h"
#include "vulkan/pipeline.h"
#include "vulkan/planes.h"
#include "vulkan/queue.h"
#include "vulkan/upload.h"

namespace tandem::vulkan {

// Addresses of the planes and of the code book; those a type does not have are 0.
using PlaneAddresses = std::array<VkDeviceAddress, Planes::count + 1>;

struct DeviceWeight {
    PlaneAddresses planes{};
    bool tiled = false;  // as is_tiled() has it
    // f32[2], once find_bounds() was asked for it: the largest sum of magnitudes of a row, of its first half of the
    // rows and of the other. 0: not known.
    VkDeviceAddress bounds = 0;

    // As kernels take it.
    kernels::Weight addresses() const {
        return {.quants = planes[Planes::quants],
                .scales = planes[Planes::scales],
                .high = planes[Planes::high],
                .deltas = planes[Planes::deltas],
                .book = planes[Planes::book]};
    }
};

struct NamedWeight {
    std::string_view name;
    const graph::WeightView* view = nullptr;
};

// The weights of one model, uploaded once and shared by everything that was compiled with them.
class WeightStore {
  public:
    // `keeper` is kept as long as this: it may own `queue`.
    WeightStore(std::shared_ptr<Device> device, Queue& queue, std::shared_ptr<const void> keeper = nullptr);

    // Decides where each weight of the Program will lie; fails when they do not fit. Those already there stay.
    Status place(const graph::Program& program);

    // Uploads the tensor at the first call for a name. It is there after finish().
    Result<DeviceWeight> get(const std::string& name, const graph::WeightView& view);

    // Several matrices of one type and row length as one: the rows of the first, then those of the second, and so on.
    // Vectors are one row each, so that they become one longer vector. A part that get() is asked for alone later lies
    // where it lies here.
    Result<DeviceWeight> get(std::span<const NamedWeight> parts);

    // What get() will give but for the addresses, which are only told apart from none.
    static DeviceWeight foresee(std::span<const NamedWeight> parts, bool bounded);

    // Fills in the bounds of matrices that get() gave, the first time by a pass over them; waits for the uploads.
    struct Bounded {
        DeviceWeight* weight;
        DType dtype;
        uint32_t rows, cols;
    };
    Status find_bounds(std::span<const Bounded> matrices, PipelineCache& pipelines);

    // Waits for the uploads.
    Status finish() { return uploader_.finish(); }

    uint64_t size_bytes() const { return device_.reserved_bytes() + host_.reserved_bytes(); }
    uint64_t host_bytes() const { return host_.reserved_bytes(); }  // of those, in host memory

  private:
    // A tensor, or the matrices of experts one after another.
    Status put(const graph::WeightView& view, const PlanePlace& place, int64_t first, bool tiled);
    Result<PlanePlace> reserve(Arena& arena, DType dtype, int64_t elements);
    Result<VkDeviceAddress> book_of(DType dtype);  // uploaded at the first call for a type; 0: it has none
    PlaneAddresses address_of(const PlanePlace& place, DType dtype, int64_t first) const;

    std::shared_ptr<const void> keeper_;
    Queue& queue_;
    Arena device_;
    Arena host_;
    Arena bounds_memory_;
    Uploader uploader_;
    std::unordered_set<std::string> in_host_;  // names of those that do not fit into the device's own memory
    std::unordered_set<std::string> present_;  // names of those that are there, alone or as a part
    std::unordered_map<std::string, DeviceWeight> uploaded_;
    std::unordered_map<VkDeviceAddress, VkDeviceAddress> bounds_;  // by the first plane
    std::map<DType, VkDeviceAddress> books_;
};

}  // namespace tandem::vulkan
