#include "device/backend.h"

#include <algorithm>

namespace tandem::device {

uint64_t Description::largest_free_bytes() const {
    uint64_t most = 0;
    for (const MemoryPool& pool : pools) most = std::max(most, pool.free_bytes);
    return most;
}

uint64_t Description::free_bytes() const {
    uint64_t all = 0;
    for (const MemoryPool& pool : pools) all += pool.free_bytes;
    return all;
}

uint64_t CacheShape::size_bytes() const {
    uint64_t bytes = 0;
    for (const graph::CacheLayer& layer : layers) {
        const auto tokens =
            static_cast<uint64_t>(blocks[static_cast<size_t>(layer.group)]) * static_cast<uint64_t>(block_tokens);
        bytes += 2 * tokens * row_bytes(dtype, int64_t{layer.kv_heads} * layer.head_dim);
    }
    return bytes;
}

Status CacheShape::check() const {
    CHECK(block_tokens > 0);
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::q8_0)
        return fail("a key-value cache of {} is not supported: choose f16, f32 or q8_0", name(dtype));
    for (const graph::CacheLayer& layer : layers) {
        if (layer.head_dim % info(dtype).block != 0)
            return fail(
                "a key-value cache of {} needs heads of a multiple of {} elements, but this model's have {}: "
                "choose f16",
                name(dtype), info(dtype).block, layer.head_dim);
    }
    return Ok{};
}

const SharedValue* CompileOptions::find_shared(std::string_view name) const {
    const auto found =
        std::find_if(shared.begin(), shared.end(), [&](const SharedValue& value) { return value.name == name; });
    return found == shared.end() ? nullptr : &*found;
}

Status run(Executable& executable, const Batch& batch, const FindAllowed& find_allowed) {
    TRY(executable.submit(batch, find_allowed));
    return executable.wait();
}

}  // namespace tandem::device
