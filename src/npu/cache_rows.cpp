#include "npu/cache_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/float16.h"
#include "format/quant.h"
#include "npu/designs/quantize_row.h"

namespace tandem::npu {

namespace {

// One kv head of a side of the cache.
class Head {
  public:
    Head(const CacheRows& rows, int kv_head)
        : rows_(rows),
          layout_(rows.cache.host_layout(rows.layer)),
          memory_(rows.values ? rows.cache.host_values(rows.layer) : rows.cache.host_keys(rows.layer)),
          dtype_(rows.cache.shape().dtype),
          block_tokens_(rows.cache.shape().block_tokens),
          dim_(rows.cache.shape().layers[static_cast<size_t>(rows.layer)].head_dim),
          kv_head_(kv_head) {}

    int dim() const { return dim_; }

    void read(int position, int8_t* elements, float* scales) const {
        for (int begin = 0; begin < dim_; begin += kRun) {
            const int count = std::min(kRun, dim_ - begin);
            if (dtype_ == DType::q8_0) {
                std::memcpy(elements + begin, element(position, begin / kRun), kRun);
                uint16_t scale = 0;
                std::memcpy(&scale, this->scale(position, begin / kRun), sizeof(scale));
                scales[begin / kRun] = f16_to_f32(scale);
            } else {
                quantize(position, begin, count, elements + begin, scales + begin / kRun);
            }
        }
    }

    void write(int position, const float* row) const {
        if (dtype_ != DType::q8_0) return format::encode_row(dtype_, row, element(position, 0), dim_);
        for (int begin = 0; begin < dim_; begin += kRun) {
            format::BlockQ8_0 block;
            format::encode_row(DType::q8_0, row + begin, reinterpret_cast<std::byte*>(&block), kRun);
            std::memcpy(element(position, begin / kRun), block.qs, kRun);
            std::memcpy(scale(position, begin / kRun), &block.d, sizeof(block.d));
        }
    }

  private:
    int block(int position) const { return rows_.blocks[static_cast<size_t>(position / block_tokens_)]; }
    std::byte* element(int position, int run) const {
        return memory_.data() + layout_.element(block(position), kv_head_, position % block_tokens_, run);
    }
    std::byte* scale(int position, int run) const {
        return memory_.data() + layout_.scale(block(position), kv_head_, position % block_tokens_, run);
    }

    void quantize(int position, int begin, int count, int8_t* elements, float* scale) const {
        std::array<float, kRun> values;
        const std::span row(values.data(), static_cast<size_t>(count));
        format::decode_row(dtype_, element(position, 0) + row_bytes(dtype_, begin), row.data(), count);
        *scale = quantize_row(row, {elements, row.size()});
    }

    const CacheRows& rows_;
    device::CacheLayout layout_;
    std::span<std::byte> memory_;
    DType dtype_;
    int block_tokens_;
    int dim_;
    int kv_head_;
};

}  // namespace

void gather(const CacheRows& rows, int kv_head, int first, int positions, const GatherTarget& target) {
    const Head head(rows, kv_head);
    const int runs = target.padded_dim / kRun;
    for (int i = 0; i < positions; ++i) {
        int8_t* const elements = target.elements + int64_t{i} * target.padded_dim;
        float* const scales = target.scales + int64_t{i} * runs;
        std::fill(elements + head.dim(), elements + target.padded_dim, int8_t{0});
        head.read(first + i, elements, scales);
    }
}

void scatter(const CacheRows& rows, const ScatterSource& source, ThreadPool& threads) {
    constexpr int64_t kPositionsAtOnce = 32;
    const graph::CacheLayer& layer = rows.cache.shape().layers[static_cast<size_t>(rows.layer)];
    threads.for_each_range(source.positions, kPositionsAtOnce, [&](int64_t begin, int64_t end, int /*thread*/) {
        for (int kv_head = 0; kv_head < layer.kv_heads; ++kv_head) {
            const Head head(rows, kv_head);
            for (int64_t i = begin; i < end; ++i) {
                head.write(source.first + static_cast<int>(i),
                           source.data + (i * layer.kv_heads + kv_head) * layer.head_dim);
            }
        }
    });
}

}  // namespace tandem::npu
