// PagedCache: the keys and values of every layer in host memory, in blocks of positions.
#pragma once

#include <cstddef>
#include <vector>

#include "cpu/memory.h"
#include "device/backend.h"

namespace tandem::cpu {

// Layout [layer][keys, values][block][kv_head][token][head_dim]: what one head reads of a block is contiguous.
class PagedCache final : public device::KvCache {
  public:
    static Result<std::shared_ptr<PagedCache>> create(device::CacheShape shape);

    // [block_tokens, head_dim] elements of shape().dtype.
    std::byte* keys(int layer, int block, int head) const { return at(layer, 0, block, head); }
    std::byte* values(int layer, int block, int head) const { return at(layer, 1, block, head); }

    Status copy_blocks(int group, std::span<const std::pair<int32_t, int32_t>> from_to) override;

    const graph::CacheLayer& layer(int index) const { return shape().layers[static_cast<size_t>(index)]; }

  private:
    struct Place {
        size_t begin[2];     // of the keys, of the values
        size_t block_bytes;  // of all heads
        size_t head_bytes;
    };

    PagedCache(device::CacheShape shape, std::vector<Place> places, Buffer buffer)
        : device::KvCache(std::move(shape)), places_(std::move(places)), buffer_(std::move(buffer)) {}

    std::byte* at(int layer, int part, int block, int head) const {
        const Place& place = places_[static_cast<size_t>(layer)];
        return buffer_.data() + place.begin[part] + static_cast<size_t>(block) * place.block_bytes +
               static_cast<size_t>(head) * place.head_bytes;
    }

    std::vector<Place> places_;
    Buffer buffer_;
};

}  // namespace tandem::cpu
