#include "device/step_check.h"

#include <algorithm>

#include "graph/ops.h"

namespace tandem::device {

namespace {

void use_layer(StepLimits& limits, int index, const KvCache* cache) {
    CHECK(cache != nullptr, "a Program with cache layers needs a cache");
    CHECK(index >= 0 && static_cast<size_t>(index) < cache->shape().layers.size());
    const graph::CacheLayer& layer = cache->shape().layers[static_cast<size_t>(index)];
    limits.attends = true;
    limits.groups[static_cast<size_t>(layer.group)] = {
        .used = true, .window = layer.window, .blocks = cache->shape().blocks[static_cast<size_t>(layer.group)]};
}

Status check_rows(const Batch& batch, const StepLimits& limits) {
    const auto tokens = static_cast<int64_t>(batch.tokens.size());
    const auto outputs = static_cast<int64_t>(batch.output_rows.size());
    if (tokens > limits.extents.tokens)
        return fail("a step of {} tokens, but it was compiled for {}", tokens, limits.extents.tokens);
    if (outputs > limits.extents.outputs)
        return fail("a step of {} output rows, but it was compiled for {}", outputs, limits.extents.outputs);
    if (batch.positions.size() != batch.tokens.size())
        return fail("a step of {} tokens has {} positions", tokens, batch.positions.size());
    for (int32_t token : batch.tokens) {
        if (token < 0 || token >= limits.vocab)
            return fail("token id {} is not in the model's vocabulary of {}", token, limits.vocab);
    }
    for (int32_t position : batch.positions) {
        if (position < 0) return fail("position {} is negative", position);
    }
    for (int32_t row : batch.output_rows) {
        if (row < 0 || row >= tokens) return fail("output row {} of a step of {} tokens", row, tokens);
    }
    return Ok{};
}

// Only blocks that are read or written are looked at: those that a window has left may be gone.
Status check_blocks(const SequenceRows& sequence, int32_t steps, const StepLimits& limits) {
    const int64_t end = int64_t{sequence.past} + sequence.rows + steps - 1;
    for (size_t g = 0; g < limits.groups.size(); ++g) {
        const StepLimits::Group& group = limits.groups[g];
        if (!group.used) continue;
        const int64_t first = group.window == 0 ? 0 : std::max<int64_t>(0, int64_t{sequence.past} + 1 - group.window);
        for (int64_t i = first / limits.block_tokens; i * limits.block_tokens < end; ++i) {
            if (static_cast<size_t>(i) >= sequence.blocks[g].size())
                return fail("a sequence of {} tokens has a table of only {} cache blocks of {} tokens in group {}", end,
                            sequence.blocks[g].size(), limits.block_tokens, g);
            const int32_t block = sequence.blocks[g][static_cast<size_t>(i)];
            if (block < 0 || block >= group.blocks)
                return fail("cache block {} of group {}, which has {}", block, g, group.blocks);
        }
    }
    return Ok{};
}

Status check_sequences(const Batch& batch, const StepLimits& limits) {
    int64_t row = 0;
    for (const SequenceRows& sequence : batch.sequences) {
        if (sequence.first_row != row || sequence.rows < 0 || sequence.past < 0)
            return fail("a sequence has rows {} + {} after {} positions, but the step is at row {}", sequence.first_row,
                        sequence.rows, sequence.past, row);
        if (row + sequence.rows > static_cast<int64_t>(batch.tokens.size())) break;
        for (int32_t r = 0; r < sequence.rows; ++r) {
            const int32_t position = batch.positions[static_cast<size_t>(row + r)];
            if (position - sequence.past != r)
                return fail("row {} is at position {}, not {}", row + r, position, int64_t{sequence.past} + r);
        }
        TRY(check_blocks(sequence, batch.steps, limits));
        row += sequence.rows;
    }
    if (row != static_cast<int64_t>(batch.tokens.size()))
        return fail("the sequences of a step have {} rows but it has {} tokens", row, batch.tokens.size());
    return Ok{};
}

bool allows_some(std::span<const uint32_t> allowed, int64_t tokens) {
    const size_t words = mask_words(tokens);
    const uint32_t last = tokens % 32 == 0 ? ~0U : (1U << (tokens % 32)) - 1;
    const auto full = allowed.first(words - 1);
    return (allowed[words - 1] & last) != 0 ||
           std::any_of(full.begin(), full.end(), [](uint32_t word) { return word != 0; });
}

Status check_sampling(const Batch& batch, const StepLimits& limits) {
    if (batch.sampling.size() != batch.output_rows.size())
        return fail("{} output rows have {} sampling parameters", batch.output_rows.size(), batch.sampling.size());
    for (const SamplingRow& row : batch.sampling) {
        CHECK(row.params != nullptr);
        if (!row.allowed.empty() && row.allowed.size() < mask_words(limits.drawn_from))
            return fail("{} bits say which of {} tokens may be drawn", 32 * row.allowed.size(), limits.drawn_from);
    }
    return Ok{};
}

// Nothing but the drawn tokens may change from step to step.
Status check_steps(const Batch& batch, const StepLimits& limits) {
    if (batch.steps < 1 || batch.steps > limits.steps)
        return fail("{} steps in one batch, but the device takes 1 to {}", batch.steps, limits.steps);
    if (batch.steps == 1) return Ok{};
    if (!limits.samples || batch.output_rows.size() != batch.tokens.size())
        return fail("several steps in one batch need a token drawn for each of the {} rows", batch.tokens.size());
    for (size_t row = 0; row < batch.output_rows.size(); ++row) {
        if (batch.output_rows[row] != static_cast<int32_t>(row))
            return fail("several steps in one batch need outputs in the order of rows, but output {} is row {}", row,
                        batch.output_rows[row]);
        if (batch.sampling[row].params->penalizes())
            return fail("several steps in one batch cannot count the tokens they draw, as penalties need");
        if (!batch.sampling[row].allowed.empty())
            return fail("several steps in one batch cannot be told which tokens each of them may draw");
    }
    for (const SequenceRows& sequence : batch.sequences) {
        if (sequence.rows != 1)
            return fail("several steps in one batch need one row for each sequence, not {}", sequence.rows);
    }
    return Ok{};
}

}  // namespace

StepLimits step_limits(const graph::Program& program, const graph::Extents& extents, const KvCache* cache) {
    StepLimits limits;
    limits.extents = extents;
    if (cache != nullptr) {
        limits.block_tokens = cache->shape().block_tokens;
        limits.groups.resize(cache->shape().blocks.size());
        CHECK(limits.groups.size() <= kMaxCacheGroups);
    }
    for (const graph::Node& node : program.nodes) {
        if (node.op.as<op::Embed>() != nullptr && program.value(node.inputs[1]).name == graph::kTokens)
            limits.vocab = std::min(limits.vocab, program.value(node.inputs[0]).type.shape[0].count);
        if (node.op.as<op::Sample>() != nullptr) {
            limits.samples = true;
            limits.drawn_from = program.value(node.inputs[0]).type.cols();
        }
        if (const auto* write = node.op.as<op::KvWrite>()) use_layer(limits, write->cache, cache);
        if (const auto* attention = node.op.as<op::Attention>()) {
            use_layer(limits, attention->cache, cache);
            const graph::CacheLayer& layer = cache->shape().layers[static_cast<size_t>(attention->cache)];
            CHECK(layer.kv_heads == attention->kv_heads && layer.head_dim == attention->head_dim);
            CHECK(layer.window == 0 || (attention->window > 0 && attention->window <= layer.window));
        }
    }
    return limits;
}

Status find_allowed(const Batch& batch, const StepLimits& limits, const FindAllowed& find) {
    if (find && batch.limits_draws()) find();
    for (const SamplingRow& row : batch.sampling) {
        if (!row.allowed.empty() && !allows_some(row.allowed, limits.drawn_from))
            return fail("none of the {} tokens may be drawn", limits.drawn_from);
    }
    return Ok{};
}

Status check_step(const Batch& batch, const StepLimits& limits) {
    TRY(check_rows(batch, limits));
    if (limits.attends) TRY(check_sequences(batch, limits));
    if (limits.samples) TRY(check_sampling(batch, limits));
    return check_steps(batch, limits);
}

Status check_copies(const CacheShape& shape, int group, std::span<const std::pair<int32_t, int32_t>> from_to) {
    CHECK(group >= 0 && static_cast<size_t>(group) < shape.blocks.size());
    const int blocks = shape.blocks[static_cast<size_t>(group)];
    std::vector<int32_t> written;
    written.reserve(from_to.size());
    for (const auto& [from, to] : from_to) {
        for (int32_t block : {from, to}) {
            if (block < 0 || block >= blocks)
                return fail("cache block {} of group {}, which has {}", block, group, blocks);
        }
        written.push_back(to);
    }
    std::sort(written.begin(), written.end());
    if (const auto twice = std::adjacent_find(written.begin(), written.end()); twice != written.end())
        return fail("two cache blocks are copied to block {} of group {}", *twice, group);
    for (const auto& copy : from_to) {
        if (std::binary_search(written.begin(), written.end(), copy.first))
            return fail("cache block {} of group {} is copied from and to", copy.first, group);
    }
    return Ok{};
}

}  // namespace tandem::device
