// StepState: all that changes from step to step, in memory that the host writes and kernels read. Command buffers hold
// its addresses, so they are recorded once and replayed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "vulkan/memory.h"

namespace tandem::vulkan {

// The most a step may bring.
struct StepLimits {
    graph::Extents extents;
    int groups = 0;
    int blocks = 0;  // of a sequence, in any group
};

// Attention makes the rows of a sequence in tiles: of at most kTileRows, and where there are at least kMinTiledRows.
// The other rows are made one by one.
constexpr int kTileRows = 128;
constexpr int kMinTiledRows = 16;

// How many tiles a step of so many rows may have.
constexpr uint32_t max_row_tiles(uint32_t rows) {
    return rows / kMinTiledRows;
}

class StepState {
  public:
    // Addresses of its parts, for push constants. Layouts are those of kernels/step.glsl and kernels/sample.comp.
    struct Addresses {
        VkDeviceAddress header = 0;           // rows, outputs, tiles, single rows, step of the batch
        VkDeviceAddress tokens = 0;           // one per row
        VkDeviceAddress positions = 0;        // one per row
        VkDeviceAddress sequence_of_row = 0;  // one per row
        VkDeviceAddress row_tiles = 0;        // long ones first
        VkDeviceAddress single_rows = 0;      // those in no tile
        VkDeviceAddress output_rows = 0;      // one per output
        std::array<VkDeviceAddress, device::kMaxCacheGroups> blocks{};  // [sequence][blocks]
        VkDeviceAddress sampling = 0;                                   // one per output
        VkDeviceAddress adjustments = 0;
        uint32_t block_stride = 0;
    };

    // Of the sampling parameters of a row: their size, and where in them the number of the draw lies.
    static constexpr uint32_t kSamplingBytes = 64;
    static constexpr uint32_t kDrawOffset = 8;

    static Result<std::unique_ptr<StepState>> create(std::shared_ptr<Device> device, const StepLimits& limits);

    const Addresses& addresses() const { return addresses_; }

    // Writes the step; the rows up to `padded` get token 0, so that kernels may run over a whole bucket. What each row
    // may draw is only given its place.
    Status write(const device::Batch& batch, const graph::Extents& padded);
    void write_allowed(const device::Batch& batch) const;

  private:
    struct Part {
        std::byte* begin = nullptr;
        VkDeviceAddress address = 0;
    };

    StepState(std::shared_ptr<Device> device, const StepLimits& limits)
        : limits_(limits), arena_(std::move(device), MemoryKind::shared, uint64_t{1} << 20) {}

    Result<Part> part(uint64_t size_bytes);
    // Returns how many tiles and single rows there are.
    std::array<uint32_t, 2> write_tiles(const device::Batch& batch) const;
    Status write_sampling(const device::Batch& batch) const;
    // Of a step in which some row may not draw every token.
    Status place_allowed(const device::Batch& batch);

    StepLimits limits_;
    Arena arena_;
    Addresses addresses_;
    Part header_, tokens_, positions_, sequence_of_row_, row_tiles_, single_rows_, output_rows_, sampling_,
        adjustments_;
    Part allowed_;  // made when a step first needs it, and again when one needs more
    uint64_t allowed_bytes_ = 0;
    std::array<Part, device::kMaxCacheGroups> blocks_;
};

}  // namespace tandem::vulkan
