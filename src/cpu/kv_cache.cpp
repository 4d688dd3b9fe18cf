#include "cpu/kv_cache.h"

#include <cstring>

#include "device/step_check.h"

namespace tandem::cpu {

Result<std::shared_ptr<PagedCache>> PagedCache::create(device::CacheShape shape) {
    TRY(shape.check());
    Buffer buffer = TRY(Buffer::allocate(shape.size_bytes(), "the key-value cache",
                                         "choose a shorter context, fewer sequences or a cache of f16 or q8_0"));
    std::vector<Place> places;
    size_t end = 0;
    for (const graph::CacheLayer& layer : shape.layers) {
        Place place{};
        place.head_bytes = static_cast<size_t>(shape.block_tokens) * row_bytes(shape.dtype, layer.head_dim);
        place.block_bytes = static_cast<size_t>(layer.kv_heads) * place.head_bytes;
        for (size_t& begin : place.begin) {
            begin = end;
            end += static_cast<size_t>(shape.blocks[static_cast<size_t>(layer.group)]) * place.block_bytes;
        }
        places.push_back(place);
    }
    CHECK(end == shape.size_bytes());
    return std::shared_ptr<PagedCache>(new PagedCache(std::move(shape), std::move(places), std::move(buffer)));
}

// A step is over when submit() returns, so there is none to wait for.
Status PagedCache::copy_blocks(int group, std::span<const std::pair<int32_t, int32_t>> from_to) {
    TRY(device::check_copies(shape(), group, from_to));
    for (int i = 0; i < static_cast<int>(places_.size()); ++i) {
        if (layer(i).group != group) continue;
        const size_t bytes = places_[static_cast<size_t>(i)].block_bytes;
        for (const auto& [from, to] : from_to) {
            std::memcpy(keys(i, to, 0), keys(i, from, 0), bytes);
            std::memcpy(values(i, to, 0), values(i, from, 0), bytes);
        }
    }
    return Ok{};
}

}  // namespace tandem::cpu
