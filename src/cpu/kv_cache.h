// PagedCache: the keys and values of every layer in host memory, in blocks of positions.
#pragma once

#include <cstddef>
#include <vector>

#include "device/backend.h"
#include "device/host_memory.h"

namespace tandem::cpu {

// Layout [layer][keys, values][block][kv_head][token][head_dim]: what one head reads of a block is contiguous. The keys
// and the values of a layer begin with a page each.
class PagedCache final : public device::KvCache {
  public:
    static Result<std::shared_ptr<PagedCache>> create(device::CacheShape shape);

    // [block_tokens, head_dim] elements of shape().dtype.
    std::byte* keys(int layer, int block, int head) const { return at(layer, 0, block, head); }
    std::byte* values(int layer, int block, int head) const { return at(layer, 1, block, head); }

    Status copy_blocks(int group, std::span<const std::pair<int32_t, int32_t>> from_to) override;

    std::span<std::byte> host_keys(int layer) const override { return part(layer, 0); }
    std::span<std::byte> host_values(int layer) const override { return part(layer, 1); }
    device::CacheLayout host_layout(int layer) const override;

    const graph::CacheLayer& layer(int index) const { return shape().layers[static_cast<size_t>(index)]; }

  private:
    struct Place {
        size_t begin[2];     // of the keys, of the values
        size_t part_bytes;   // of either, in whole pages
        size_t block_bytes;  // of all heads
        size_t head_bytes;
    };

    PagedCache(device::CacheShape shape, std::vector<Place> places, device::HostBuffer buffer)
        : device::KvCache(std::move(shape)), places_(std::move(places)), buffer_(std::move(buffer)) {}

    std::span<std::byte> part(int layer, int index) const {
        const Place& place = places_[static_cast<size_t>(layer)];
        return {buffer_.data() + place.begin[index], place.part_bytes};
    }

    std::byte* at(int layer, int part, int block, int head) const {
        const Place& place = places_[static_cast<size_t>(layer)];
        return buffer_.data() + place.begin[part] + static_cast<size_t>(block) * place.block_bytes +
               static_cast<size_t>(head) * place.head_bytes;
    }

    std::vector<Place> places_;
    device::HostBuffer buffer_;
};

}  // namespace tandem::cpu
