#include <algorithm>
#include <bit>
#include <cstring>

#include "graph/ops.h"
#include "npu/cache_rows.h"
#include "npu/design.h"
#include "npu/designs/attention.h"
#include "npu/step.h"

namespace tandem::npu {

namespace {

// Designs are for a power of two of keys or three quarters of one, so that there are few.
constexpr int64_t kFewestKeys = 64;
constexpr int64_t kMaxHeadDim = 256;

int64_t rounded_keys(int64_t keys) {
    const auto above = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(keys, kFewestKeys))));
    return keys <= above / 4 * 3 && above > kFewestKeys ? above / 4 * 3 : above;
}

int64_t padded_dim(const op::Attention& op) {
    return (op.head_dim + kRun - 1) / kRun * kRun;
}

// What one sequence's rows see.
struct Seen {
    int first = 0;
    int count = 0;
};

Seen seen_by(const device::SequenceRows& rows, int window) {
    const int end = rows.past + rows.rows;
    const int first = window == 0 ? 0 : std::max(0, rows.past + 1 - window);
    return {first, end - first};
}

Result<AttentionLayout> layout_of_attention(const Array& array, const op::Attention& op,
                                            const device::SequenceRows& rows) {
    return attention_layout({.tokens = design_rows(rows.rows),
                             .heads = op.heads,
                             .kv_heads = op.kv_heads,
                             .head_dim = padded_dim(op),
                             .keys = rounded_keys(seen_by(rows, op.window).count),
                             .array = std::string(array.name)});
}

class AttentionStep final : public Step {
  public:
    AttentionStep(Workshop& shop, const op::Attention& op, Operand q, Operand y, std::shared_ptr<device::KvCache> cache)
        : shop_(shop),
          op_(op),
          q_(std::move(q)),
          y_(std::move(y)),
          cache_(std::move(cache)),
          group_(static_cast<size_t>(cache_->shape().layers[static_cast<size_t>(op.cache)].group)) {}

    Result<double> run(const StepContext& context) override {
        double seconds = 0;
        for (const device::SequenceRows& sequence : context.batch.sequences) seconds += TRY(run_sequence(sequence));
        return seconds;
    }

  private:
    static constexpr size_t kAttentionResult = 1;  // of what the array alone writes

    struct Sized {
        AttentionLayout layout;
        LoadedDesign* design = nullptr;
    };

    Result<const Sized*> for_sequence(const device::SequenceRows& sequence) {
        const std::pair size(design_rows(sequence.rows), rounded_keys(seen_by(sequence, op_.window).count));
        return sized_.get(size, [&]() -> Result<Sized> {
            AttentionLayout layout = TRY(layout_of_attention(shop_.array(), op_, sequence));
            const Design design = TRY(attention_i8(layout));
            LoadedDesign* const loaded = TRY(shop_.load(design));
            return Sized{std::move(layout), loaded};
        });
    }

    Result<double> run_sequence(const device::SequenceRows& sequence) {
        const Sized& sized = *TRY(for_sequence(sequence));
        const AttentionLayout& layout = sized.layout;
        Buffer* const q = TRY(shop_.scratch(0, layout.q_bytes()));
        Buffer* const kv = TRY(shop_.scratch(1, layout.kv_bytes()));
        const std::shared_ptr<Buffer> y = TRY(shop_.result(kAttentionResult, layout.y_bytes()));
        pack_rows(layout, sequence, q->bytes().first(static_cast<size_t>(layout.q_bytes())));
        pack_cache(layout, sequence, kv->bytes().first(static_cast<size_t>(layout.kv_bytes())));
        q->mark_written();
        kv->mark_written();
        Buffer* const arguments[] = {q, kv, y.get()};
        const RunReport report = TRY(sized.design->run(arguments));
        copy_out(layout, sequence, reinterpret_cast<const float*>(y->bytes().data()));
        return report.seconds;
    }

    // Heads that are no multiple of 32 are filled up with zeros, which change no product.
    void pack_rows(const AttentionLayout& layout, const device::SequenceRows& sequence, std::span<std::byte> packed) {
        const float* rows = q_.values + sequence.first_row * q_.cols;
        int64_t stride = q_.cols;
        if (layout.head_dim != op_.head_dim) {
            stride = op_.heads * layout.head_dim;
            padded_rows_.assign(static_cast<size_t>(sequence.rows * stride), 0.0F);
            for (int64_t head = 0; head < int64_t{sequence.rows} * op_.heads; ++head) {
                std::copy_n(rows + head * op_.head_dim, op_.head_dim, padded_rows_.data() + head * layout.head_dim);
            }
            rows = padded_rows_.data();
        }
        pack_queries(layout,
                     {.values = rows,
                      .tokens = sequence.rows,
                      .stride = stride,
                      .first_position = sequence.past,
                      .window = op_.window,
                      .scale = op_.scale,
                      .softcap = op_.softcap},
                     packed);
    }

    struct Side {
        std::vector<int8_t> elements;
        std::vector<float> scales;
    };
    // The keys and the values of one head.
    struct Sides {
        Side keys, values;
    };

    void pack_head(const AttentionLayout& layout, const device::SequenceRows& sequence, int head, Sides& sides,
                   std::span<std::byte> packed) const {
        const Seen seen = seen_by(sequence, op_.window);
        const auto dim = static_cast<size_t>(layout.head_dim);
        const size_t runs = dim / kRun;
        for (const bool values : {false, true}) {
            Side& side = values ? sides.values : sides.keys;
            side.elements.resize(static_cast<size_t>(seen.count) * dim);
            side.scales.resize(static_cast<size_t>(seen.count) * runs);
            gather({.cache = *cache_, .layer = op_.cache, .values = values, .blocks = sequence.blocks[group_]}, head,
                   seen.first, seen.count,
                   {.elements = side.elements.data(),
                    .scales = side.scales.data(),
                    .padded_dim = static_cast<int>(layout.head_dim)});
        }
        for (size_t i = 0; i < static_cast<size_t>(seen.count); ++i) {
            put_key_value(layout,
                          {.kv_head = head,
                           .index = static_cast<int64_t>(i),
                           .key = std::span(sides.keys.elements).subspan(i * dim, dim),
                           .value = std::span(sides.values.elements).subspan(i * dim, dim),
                           .key_scales = std::span(sides.keys.scales).subspan(i * runs, runs),
                           .value_scales = std::span(sides.values.scales).subspan(i * runs, runs)},
                          packed);
        }
    }

    void pack_cache(const AttentionLayout& layout, const device::SequenceRows& sequence, std::span<std::byte> packed) {
        const Seen seen = seen_by(sequence, op_.window);
        sides_.resize(static_cast<size_t>(shop_.threads().size()));
        shop_.threads().for_each_range(op_.kv_heads, 1, [&](int64_t first, int64_t last, int thread) {
            for (int64_t head = first; head < last; ++head)
                pack_head(layout, sequence, static_cast<int>(head), sides_[static_cast<size_t>(thread)], packed);
        });
        set_keys(layout, seen.first, seen.count, packed);
    }

    void copy_out(const AttentionLayout& layout, const device::SequenceRows& sequence, const float* from) const {
        const int heads_each = op_.heads / op_.kv_heads;
        float* to = y_.values + sequence.first_row * y_.cols;
        for (int64_t row = 0; row < sequence.rows; ++row) {
            for (int head = 0; head < op_.heads; ++head) {
                const int64_t place = (row * layout.kv_heads + head / heads_each) * layout.group + head % heads_each;
                to = std::copy_n(from + place * layout.head_dim, op_.head_dim, to);
            }
        }
    }

    Workshop& shop_;
    op::Attention op_;
    Operand q_, y_;
    std::shared_ptr<device::KvCache> cache_;
    size_t group_;                                      // of the cache
    BySize<std::pair<int64_t, int64_t>, Sized> sized_;  // by tokens and keys
    std::vector<float> padded_rows_;
    std::vector<Sides> sides_;  // per thread
};

Result<std::unique_ptr<Step>> make_attention(Workshop& shop, const StepSource& source) {
    return std::unique_ptr<Step>(std::make_unique<AttentionStep>(shop, *source.node.op.as<op::Attention>(),
                                                                 source.input(0), source.output(), source.cache));
}

// Tiles of keys that nobody sees are skipped.
Result<Cost> cost_of_attention(const op::Attention& op, const device::SequenceRows& sequence, const Assumed& assumed) {
    const Seen seen = seen_by(sequence, op.window);
    const AttentionLayout layout = TRY(layout_of_attention(assumed.array, op, sequence));
    const Design design = TRY(attention_i8(layout));
    const std::vector<Share> shares = attention_shares(
        layout, {.first_position = sequence.past, .window = op.window, .first_key = seen.first, .keys = seen.count});
    Cost cost = TRY(cost_of(design, assumed, attention_samples(layout), shares));
    const auto floats = static_cast<double>(int64_t{sequence.rows} * op.heads * op.head_dim);
    cost += cost_of(HostWork{.queries = floats,
                             .gathered = 2.0 * seen.count * op.kv_heads * op.head_dim,
                             .copied = floats * sizeof(float),
                             .flushed = static_cast<double>(layout.q_bytes() + layout.kv_bytes() + layout.y_bytes())});
    return cost;
}

Result<Cost> predict_attention(CostTable& costs, const graph::Program& /*program*/, const graph::Node& node,
                               const device::Batch& batch) {
    const op::Attention& op = *node.op.as<op::Attention>();
    Cost cost;
    for (const device::SequenceRows& sequence : batch.sequences) {
        const std::string key = fmt::format("attention {} {} {} {} {} {}", sequence.past, sequence.rows, op.window,
                                            op.heads, op.kv_heads, op.head_dim);
        cost += TRY(costs.get(key, [&] { return cost_of_attention(op, sequence, costs.assumed()); }));
    }
    return cost;
}

}  // namespace

const StepMaker kAttentionStep{
    .obstacle = [](const graph::Program&, const graph::Node& node) -> std::string {
        const op::Attention& op = *node.op.as<op::Attention>();
        if (node.inputs.size() > 2) return "the kernel knows no sinks";
        if (padded_dim(op) <= kMaxHeadDim) return "";
        return fmt::format("a head has {} elements, and a core has memory for {}", op.head_dim, kMaxHeadDim);
    },
    .make = make_attention,
    .predict = predict_attention,
};

}  // namespace tandem::npu
