#include "device/backend.h"

namespace tandem::device {

uint64_t CacheShape::size_bytes() const {
    uint64_t bytes = 0;
    for (const graph::CacheLayer& layer : layers) {
        const auto tokens =
            static_cast<uint64_t>(blocks[static_cast<size_t>(layer.group)]) * static_cast<uint64_t>(block_tokens);
        bytes += 2 * tokens * row_bytes(dtype, int64_t{layer.kv_heads} * layer.head_dim);
    }
    return bytes;
}

Status run(Executable& executable, const Batch& batch) {
    TRY(executable.submit(batch));
    return executable.wait();
}

}  // namespace tandem::device
