#include "cpu/kv_cache.h"

#include <cstring>

#include "device/step_check.h"

namespace tandem::cpu {

Result<std::shared_ptr<PagedCache>> PagedCache::create(device::CacheShape shape) {
    TRY(shape.check());
    std::vector<Place> places;
    places.reserve(shape.layers.size());
    size_t end = 0;
    for (const graph::CacheLayer& layer : shape.layers) {
        Place place{};
        place.head_bytes = static_cast<size_t>(shape.block_tokens) * row_bytes(shape.dtype, layer.head_dim);
        place.block_bytes = static_cast<size_t>(layer.kv_heads) * place.head_bytes;
        place.part_bytes = static_cast<size_t>(device::HostBuffer::whole_pages(
            static_cast<uint64_t>(shape.blocks[static_cast<size_t>(layer.group)]) * place.block_bytes));
        for (size_t& begin : place.begin) {
            begin = end;
            end += place.part_bytes;
        }
        places.push_back(place);
    }
    device::HostBuffer buffer = TRY(device::HostBuffer::allocate(
        end, "the key-value cache", "choose a shorter context, fewer sequences or a cache of f16 or q8_0"));
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

// A token's row of q8_0 is blocks of a scale and 32 elements, as in a GGUF file.
device::CacheLayout PagedCache::host_layout(int index) const {
    const Place& place = places_[static_cast<size_t>(index)];
    device::CacheLayout layout{.block_bytes = place.block_bytes, .head_bytes = place.head_bytes};
    const uint64_t token_bytes = row_bytes(shape().dtype, layer(index).head_dim);
    if (shape().dtype != DType::q8_0) {
        layout.elements = {.token_bytes = token_bytes, .run_bytes = token_bytes};
        return layout;
    }
    const auto run_bytes = static_cast<uint64_t>(info(DType::q8_0).block_bytes);
    layout.scales = {.token_bytes = token_bytes, .run_bytes = run_bytes};
    layout.elements = {.begin = sizeof(uint16_t), .token_bytes = token_bytes, .run_bytes = run_bytes};
    return layout;
}

}  // namespace tandem::cpu
