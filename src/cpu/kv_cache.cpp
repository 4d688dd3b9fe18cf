#include "cpu/kv_cache.h"

namespace tandem::cpu {

Result<std::shared_ptr<PagedCache>> PagedCache::create(device::CacheShape shape) {
    CHECK(shape.dtype == DType::f32 || shape.dtype == DType::f16, "a cache on the CPU is f32 or f16");
    CHECK(shape.block_tokens > 0);
    Buffer buffer = TRY(Buffer::allocate(shape.size_bytes(), "the key-value cache",
                                         "choose a shorter context, fewer sequences or an f16 cache"));
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

}  // namespace tandem::cpu
