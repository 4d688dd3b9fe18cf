// Stores each row's keys and values in the cache, in the block that its sequence's table names for its position.
#include <cstring>

#include "cpu/kernel.h"
#include "format/quant.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void kv_write(const op::KvWrite& op, const Args& args) {
    PagedCache& cache = *args.step.cache;
    const graph::CacheLayer& layer = cache.layer(op.cache);
    const DType dtype = cache.shape().dtype;
    const int block_tokens = cache.shape().block_tokens;
    const size_t head_bytes = row_bytes(dtype, layer.head_dim);
    for (int64_t r = 0; r < args.in[0].rows; ++r) {
        const auto& sequence = args.step.batch->sequences[static_cast<size_t>(args.step.sequence_of_row[r])];
        const auto position = static_cast<int32_t>(sequence.past + r - sequence.first_row);
        const int32_t block = sequence.blocks[static_cast<size_t>(layer.group)][position / block_tokens];
        const size_t slot = static_cast<size_t>(position % block_tokens) * head_bytes;
        for (int head = 0; head < layer.kv_heads; ++head) {
            const int64_t column = int64_t{head} * layer.head_dim;
            format::encode_row(dtype, args.in[0].f32(r) + column, cache.keys(op.cache, block, head) + slot,
                               layer.head_dim);
            format::encode_row(dtype, args.in[1].f32(r) + column, cache.values(op.cache, block, head) + slot,
                               layer.head_dim);
        }
    }
}

const Registration<op::KvWrite> kKvWriteReference{kv_write};

}  // namespace

}  // namespace tandem::cpu
