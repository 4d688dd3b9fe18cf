// RmsNorm, Embed and KvWrite: rows that are read once and written once, cut for threads where there are many.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/row_ops.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/kernel.h"
#include "cpu/simd/decode-inl.h"
#include "cpu/simd/ranges.h"
#include "format/quant.h"
#include "graph/ops.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Four sums hide the latency of the additions.
HWY_INLINE float sum_of_squares(const float* x, int64_t n) {
    const D d;
    const auto width = static_cast<int64_t>(hn::Lanes(d));
    V sums[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    int64_t i = 0;
    for (; i + 4 * width <= n; i += 4 * width) {
        for (int j = 0; j < 4; ++j) {
            const V v = hn::LoadU(d, x + i + j * width);
            sums[j] = hn::MulAdd(v, v, sums[j]);
        }
    }
    for (; i + width <= n; i += width) {
        const V v = hn::LoadU(d, x + i);
        sums[0] = hn::MulAdd(v, v, sums[0]);
    }
    const V sum = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
    float total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < n; ++i) total += x[i] * x[i];
    return total;
}

void rms_norm_groups(const op::RmsNorm& op, const Args& args, RowRange groups) {
    const D d;
    const auto step = static_cast<int64_t>(hn::Lanes(d));
    const bool weighted = args.in.size() > 1;
    const int64_t width = weighted ? args.in[1].cols : op.width;
    const float* weight = weighted ? args.in[1].f32() : nullptr;
    for (int64_t g = groups.begin; g < groups.end; ++g) {
        const float* x = args.in[0].f32() + g * width;
        float* y = args.out.f32() + g * width;
        const float scale = 1.0F / std::sqrt(sum_of_squares(x, width) / static_cast<float>(width) + op.eps);
        int64_t i = 0;
        for (; i + step <= width; i += step) {
            const V scaled = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, scale));
            hn::StoreU(weighted ? hn::Mul(scaled, hn::LoadU(d, weight + i)) : scaled, d, y + i);
        }
        for (; i < width; ++i) y[i] = x[i] * scale * (weighted ? weight[i] : 1.0F);
    }
}

void embed_rows(const op::Embed& op, const Args& args, RowRange rows) {
    const D d;
    const auto step = static_cast<int64_t>(hn::Lanes(d));
    const Input& table = args.in[0];
    const DecodeSpan decode = decoder_of(table.dtype);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
        const int32_t id = args.in[1].i32()[r];
        CHECK(id >= 0 && id < table.rows);
        float* y = args.out.f32(r);
        decode(table.row(id), 0, table.cols, y);
        if (op.scale == 1.0F) continue;
        int64_t i = 0;
        for (; i + step <= table.cols; i += step)
            hn::StoreU(hn::Mul(hn::LoadU(d, y + i), hn::Set(d, op.scale)), d, y + i);
        for (; i < table.cols; ++i) y[i] *= op.scale;
    }
}

// Where there is no instruction for it, Highway does not round to nearest.
void store_f16(const float* in, uint16_t* out, int64_t n) {
    int64_t i = 0;
#if HWY_CAP_GE256
    const D d;
    const hn::Rebind<hwy::float16_t, D> d16;
    const auto step = static_cast<int64_t>(hn::Lanes(d));
    for (; i + step <= n; i += step)
        hn::StoreU(hn::DemoteTo(d16, hn::LoadU(d, in + i)), d16, reinterpret_cast<hwy::float16_t*>(out + i));
#endif
    for (; i < n; ++i) out[i] = f32_to_f16(in[i]);
}

void kv_write_rows(const op::KvWrite& op, const Args& args, RowRange rows) {
    const PagedCache& cache = *args.step.cache;
    const graph::CacheLayer& layer = cache.layer(op.cache);
    const DType dtype = cache.shape().dtype;
    const int block_tokens = cache.shape().block_tokens;
    const size_t head_bytes = row_bytes(dtype, layer.head_dim);
    const auto store = [&](const float* from, std::byte* to) {
        if (dtype == DType::f16) {
            store_f16(from, reinterpret_cast<uint16_t*>(to), layer.head_dim);
        } else if (dtype == DType::f32) {
            std::memcpy(to, from, head_bytes);
        } else {
            format::encode_row(dtype, from, to, layer.head_dim);
        }
    };
    for (int64_t r = rows.begin; r < rows.end; ++r) {
        const auto& sequence = args.step.batch->sequences[static_cast<size_t>(args.step.sequence_of_row[r])];
        const auto position = static_cast<int32_t>(sequence.past + r - sequence.first_row);
        const int32_t block = sequence.blocks[static_cast<size_t>(layer.group)][position / block_tokens];
        const size_t slot = static_cast<size_t>(position % block_tokens) * head_bytes;
        for (int head = 0; head < layer.kv_heads; ++head) {
            const int64_t column = int64_t{head} * layer.head_dim;
            store(args.in[0].f32(r) + column, cache.keys(op.cache, block, head) + slot);
            store(args.in[1].f32(r) + column, cache.values(op.cache, block, head) + slot);
        }
    }
}

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu::simd {

namespace {

HWY_EXPORT(rms_norm_groups);
HWY_EXPORT(embed_rows);
HWY_EXPORT(kv_write_rows);

void rms_norm(const op::RmsNorm& op, const Args& args) {
    const int64_t width = args.in.size() > 1 ? args.in[1].cols : op.width;
    const auto run = HWY_DYNAMIC_DISPATCH(rms_norm_groups);
    args.step.for_each_range(args.out.rows * args.out.cols / width, kPieceElements / width + 1,
                             [&](int64_t begin, int64_t end, int) {
                                 run(op, args, {begin, end});
                             });
}

bool supports_embed(const op::Embed& /*op*/, graph::InputTypes inputs) {
    return inputs[0].dtype != DType::i32;
}

void embed(const op::Embed& op, const Args& args) {
    const auto run = HWY_DYNAMIC_DISPATCH(embed_rows);
    args.step.for_each_range(args.out.rows, kPieceElements / args.out.cols + 1, [&](int64_t begin, int64_t end, int) {
        run(op, args, {begin, end});
    });
}

void kv_write(const op::KvWrite& op, const Args& args) {
    const auto run = HWY_DYNAMIC_DISPATCH(kv_write_rows);
    args.step.for_each_range(args.in[0].rows, kPieceElements / args.in[0].cols + 1,
                             [&](int64_t begin, int64_t end, int) {
                                 run(op, args, {begin, end});
                             });
}

const Registration<op::RmsNorm> kRmsNorm{FastKernel<op::RmsNorm>{.run = rms_norm}};
const Registration<op::Embed> kEmbed{FastKernel<op::Embed>{.run = embed, .supports = supports_embed}};
const Registration<op::KvWrite> kKvWrite{FastKernel<op::KvWrite>{.run = kv_write}};

}  // namespace

}  // namespace tandem::cpu::simd
#endif
