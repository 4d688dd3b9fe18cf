#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "graph/builder.h"
#include "graph/ops.h"
#include "ops/op_test.h"

namespace tandem::test {

namespace {

struct SequenceCase {
    int past = 0;
    int rows = 1;
};

struct AttentionCase {
    op::Attention op;
    std::vector<SequenceCase> sequences;
    DType cache = DType::f32;
    int block_tokens = 4;
    uint64_t seed = 1;
    std::vector<float> sinks = {};  // one for each head
};

// Rows of one sequence: what is already in the cache, then the rows of the step.
struct SequenceData {
    std::vector<float> q, k, v;  // [past + rows, heads * head_dim] and twice [past + rows, kv_heads * head_dim]
    std::vector<int32_t> blocks;
};

std::vector<float> random_rows(Rng& rng, int rows, int cols) {
    std::vector<float> values(static_cast<size_t>(rows) * static_cast<size_t>(cols));
    for (float& value : values) value = rng.uniform(-1.0F, 1.0F);
    return values;
}

int blocks_of(const AttentionCase& c, const SequenceCase& s) {
    return (s.past + s.rows + c.block_tokens - 1) / c.block_tokens;
}

int total_blocks(const AttentionCase& c) {
    int total = 0;
    for (const SequenceCase& s : c.sequences) total += blocks_of(c, s);
    return total;
}

// Random rows, and block tables dealt from a shuffled deck so that no order in memory is relied on.
std::vector<SequenceData> make_data(const AttentionCase& c) {
    Rng rng(c.seed);
    std::vector<int32_t> deck(static_cast<size_t>(total_blocks(c)));
    std::iota(deck.begin(), deck.end(), 0);
    for (size_t i = deck.size(); i > 1; --i) std::swap(deck[i - 1], deck[static_cast<size_t>(rng.below(int(i)))]);
    std::vector<SequenceData> data;
    for (const SequenceCase& s : c.sequences) {
        const int positions = s.past + s.rows;
        SequenceData d;
        d.q = random_rows(rng, positions, c.op.heads * c.op.head_dim);
        d.k = random_rows(rng, positions, c.op.kv_heads * c.op.head_dim);
        d.v = random_rows(rng, positions, c.op.kv_heads * c.op.head_dim);
        for (int i = 0; i < blocks_of(c, s); ++i) {
            d.blocks.push_back(deck.back());
            deck.pop_back();
        }
        data.push_back(std::move(d));
    }
    return data;
}

// One step over rows [from, to) of each sequence, given as functions of the sequence.
struct StepRows {
    bool past;  // the rows already in the cache, else the rows of the step
    int from(const SequenceCase& s) const { return past ? 0 : s.past; }
    int to(const SequenceCase& s) const { return past ? s.past : s.past + s.rows; }
};

HostTensor gather(const AttentionCase& c, const std::vector<SequenceData>& data, StepRows step,
                  std::vector<float> SequenceData::*part, int cols) {
    std::vector<float> rows;
    for (size_t i = 0; i < data.size(); ++i) {
        const auto begin = (data[i].*part).begin();
        rows.insert(rows.end(), begin + int64_t{step.from(c.sequences[i])} * cols,
                    begin + int64_t{step.to(c.sequences[i])} * cols);
    }
    const auto count = static_cast<int64_t>(rows.size()) / cols;
    return tensor({count, cols}, rows);
}

device::Batch make_batch(const AttentionCase& c, const std::vector<SequenceData>& data, StepRows step) {
    device::Batch batch;
    for (size_t i = 0; i < data.size(); ++i) {
        device::SequenceRows rows{.first_row = static_cast<int32_t>(batch.tokens.size()),
                                  .rows = step.to(c.sequences[i]) - step.from(c.sequences[i]),
                                  .past = step.from(c.sequences[i]),
                                  .blocks = {}};
        rows.blocks[0] = data[i].blocks;
        for (int r = 0; r < rows.rows; ++r) {
            batch.tokens.push_back(0);
            batch.positions.push_back(rows.past + r);
        }
        batch.sequences.push_back(rows);
    }
    return batch;
}

std::vector<float> run_step(device::Backend& backend, std::shared_ptr<device::KvCache> cache, const AttentionCase& c,
                            const std::vector<SequenceData>& data, StepRows step) {
    const int q_cols = c.op.heads * c.op.head_dim;
    const int kv_cols = c.op.kv_heads * c.op.head_dim;
    const HostTensor q = gather(c, data, step, &SequenceData::q, q_cols);
    const HostTensor k = gather(c, data, step, &SequenceData::k, kv_cols);
    const HostTensor v = gather(c, data, step, &SequenceData::v, kv_cols);
    const auto rows = q.shape[0];

    graph::Graph g;
    graph::Weights weights;
    weights.add("q", {q.dtype, q.shape, q.bytes});
    weights.add("k", {k.dtype, k.shape, k.bytes});
    weights.add("v", {v.dtype, v.shape, v.bytes});
    graph::Tensor sinks;
    if (!c.sinks.empty()) {
        weights.add("sinks", {DType::f32, {c.op.heads}, std::as_bytes(std::span(c.sinks))});
        sinks = g.weight("sinks", graph::vector_type(DType::f32, c.op.heads));
    }
    g.cache(c.op.kv_heads, c.op.head_dim, c.op.window);
    const auto weight = [&](const char* name, int cols) {
        return g.weight(name, graph::matrix_type(DType::f32, graph::Dim::of(rows), cols));
    };
    const graph::Tensor written = g.kv_write(weight("k", kv_cols), weight("v", kv_cols), 0);
    // The past is only stored.
    g.result("y", step.past ? written : g.attention(weight("q", q_cols), written, c.op, sinks));
    auto executable = backend.compile(std::move(g).finish(), weights, std::move(cache),
                                      {.limits = {.tokens = rows, .outputs = 0}, .results = {"y"}});
    EXPECT_TRUE(executable) << executable.error().message;
    const device::Batch batch = make_batch(c, data, step);
    const Status status = device::run(**executable, batch);
    EXPECT_TRUE(status) << status.error().message;
    const auto values = device::result_as<float>(**executable, 0);
    return {values.begin(), values.end()};
}

std::vector<float> run_attention(device::Backend& backend, const AttentionCase& c,
                                 const std::vector<SequenceData>& data) {
    auto cache = backend.make_cache({.layers = {{c.op.kv_heads, c.op.head_dim, c.op.window, 0}},
                                     .dtype = c.cache,
                                     .block_tokens = c.block_tokens,
                                     .blocks = {total_blocks(c)}});
    EXPECT_TRUE(cache) << cache.error().message;
    const bool any_past = std::any_of(c.sequences.begin(), c.sequences.end(), [](auto& s) { return s.past > 0; });
    if (any_past) run_step(backend, *cache, c, data, {.past = true});
    return run_step(backend, *cache, c, data, {.past = false});
}

// Written from the definition, in double and without a cache.
std::vector<float> by_definition(const AttentionCase& c, const std::vector<SequenceData>& data) {
    std::vector<float> y;
    const int d = c.op.head_dim;
    for (size_t s = 0; s < data.size(); ++s) {
        for (int position = c.sequences[s].past; position < c.sequences[s].past + c.sequences[s].rows; ++position) {
            for (int head = 0; head < c.op.heads; ++head) {
                const int kv_head = head * c.op.kv_heads / c.op.heads;
                const float* q = data[s].q.data() + (int64_t{position} * c.op.heads + head) * d;
                std::vector<double> sum(static_cast<size_t>(d), 0.0);
                double total = c.sinks.empty() ? 0.0 : std::exp(double{c.sinks[static_cast<size_t>(head)]});
                for (int p = 0; p <= position; ++p) {
                    if (c.op.window > 0 && position - p >= c.op.window) continue;
                    const int64_t at = (int64_t{p} * c.op.kv_heads + kv_head) * d;
                    double score = 0.0;
                    for (int i = 0; i < d; ++i) score += double{q[i]} * data[s].k[static_cast<size_t>(at + i)];
                    score *= c.op.scale;
                    if (c.op.softcap > 0.0F) score = c.op.softcap * std::tanh(score / c.op.softcap);
                    total += std::exp(score);
                    for (int i = 0; i < d; ++i)
                        sum[static_cast<size_t>(i)] += std::exp(score) * data[s].v[static_cast<size_t>(at + i)];
                }
                for (int i = 0; i < d; ++i) y.push_back(static_cast<float>(sum[static_cast<size_t>(i)] / total));
            }
        }
    }
    return y;
}

// y is a mean of values of magnitude at most 1, weighted by exp(score). An error e of a score changes its weight by a
// factor 1 + e, so the mean by at most 2e. A score is a sum of head_dim products with magnitudes at most 1, times
// scale: e = sqrt(head_dim / 3) u * head_dim * scale / 3 with 8 deviations, plus the few roundings of exp. The
// weighted sum of n values adds its own sqrt(n).
Tolerance tolerance(const AttentionCase& c) {
    int longest = 0;
    for (const SequenceCase& s : c.sequences) longest = std::max(longest, s.past + s.rows);
    const double d = c.op.head_dim;
    const double score_error = (8.0 * std::sqrt(d / 3.0) + 4.0) * d * std::fabs(c.op.scale) / 3.0;
    return Tolerance::of_largest(1.0F, 2.0 * (score_error + 16.0) + 8.0 * std::sqrt(longest / 3.0));
}

void expect_same(const AttentionCase& c) {
    const std::vector<SequenceData> data = make_data(c);
    const std::vector<float> expected = run_attention(devices().front().use(), c, data);
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        expect_close(run_attention(device.use(), c, data), expected, expected, tolerance(c));
    }
}

op::Attention attention(int heads, int kv_heads, int head_dim) {
    return {.cache = 0,
            .heads = heads,
            .kv_heads = kv_heads,
            .head_dim = head_dim,
            .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

}  // namespace

TEST(Attention, ReferenceMatchesTheDefinition) {
    AttentionCase c{.op = attention(4, 2, 16), .sequences = {{.past = 9, .rows = 1}, {.past = 0, .rows = 6}}};
    for (int window : {0, 1, 3, 100}) {
        for (float softcap : {0.0F, 1.5F}) {
            c.op.window = window;
            c.op.softcap = softcap;
            SCOPED_TRACE(fmt::format("window {} softcap {}", window, softcap));
            const std::vector<SequenceData> data = make_data(c);
            const std::vector<float> expected = by_definition(c, data);
            expect_close(run_attention(devices().front().use(), c, data), expected, expected,
                         Tolerance::of_largest(1.0F, 4.0));
        }
    }
}

TEST(Attention, ASinkTakesItsShareAndGivesNothing) {
    for (const float size : {0.5F, 6.0F, 40.0F}) {  // the last is larger than every score
        AttentionCase c{.op = attention(4, 2, 64),
                        .sequences = {{.past = 700, .rows = 1}, {.past = 3, .rows = 20}, {.past = 0, .rows = 1}},
                        .block_tokens = 16,
                        .sinks = {size, -size, 0.0F, size / 2}};
        for (const int window : {0, 9}) {
            c.op.window = window;
            const std::vector<SequenceData> data = make_data(c);
            const std::vector<float> expected = by_definition(c, data);
            for (const Device& device : devices()) {
                SCOPED_TRACE(fmt::format("{}: {}", device.name, size));
                expect_close(run_attention(device.use(), c, data), expected, expected, tolerance(c));
            }
        }
    }
}

TEST(Attention, AContextOfOneGivesTheValueItself) {
    const AttentionCase c{.op = attention(2, 2, 32), .sequences = {{.past = 0, .rows = 1}}};
    const std::vector<SequenceData> data = make_data(c);
    for (const Device& device : devices()) EXPECT_EQ(run_attention(device.use(), c, data), data[0].v) << device.name;
}

TEST(Attention, GroupedHeadsAndHeadSizes) {
    for (int head_dim : {16, 40, 64, 80, 128, 256}) {
        for (int ratio : {1, 2, 4, 8}) {
            SCOPED_TRACE(fmt::format("head_dim {} ratio {}", head_dim, ratio));
            AttentionCase c{.op = attention(2 * ratio, 2, head_dim), .sequences = {{.past = 21, .rows = 1}}};
            expect_same(c);
            c.cache = DType::f16;
            c.sequences = {{.past = 5, .rows = 3}, {.past = 0, .rows = 2}};
            expect_same(c);
        }
    }
}

TEST(Attention, HeadSizesThatNoVectorDivides) {
    for (int head_dim : {1, 3, 17, 33}) {
        for (DType cache : {DType::f32, DType::f16}) {
            SCOPED_TRACE(fmt::format("head_dim {}", head_dim));
            expect_same({.op = attention(3, 1, head_dim), .sequences = {{.past = 6, .rows = 2}}, .cache = cache});
        }
    }
}

// A block of 32 numbers of at most 1 has steps of d = 1/127, so each is off by d/2, and by 2^-11 more where the scale,
// an f16, came out too small for the largest. A mean of values is off by no more. A score is off by head_dim
// independent errors of deviation d / sqrt(12), times q with an rms of 1 / sqrt(3), times scale = 1 / sqrt(head_dim): d
// / 6. With 8 deviations, and a change of the mean by at most twice that:
TEST(Attention, AnInt8CacheIsAsCloseToTheDefinitionAsItsSteps) {
    constexpr double kStep = 1.0 / 127.0;
    const Tolerance close{.absolute = kStep / 2 + 0x1p-11 + 2 * 8 * kStep / 6};
    for (int head_dim : {32, 64, 96, 128, 256}) {
        SCOPED_TRACE(head_dim);
        const AttentionCase c{.op = attention(4, 2, head_dim),
                              .sequences = {{.past = 60, .rows = 1}, {.past = 3, .rows = 20}, {.past = 0, .rows = 1}},
                              .cache = DType::q8_0,
                              .block_tokens = 8};
        const std::vector<SequenceData> data = make_data(c);
        const std::vector<float> expected = by_definition(c, data);
        for (const Device& device : devices()) {
            SCOPED_TRACE(device.name);
            expect_close(run_attention(device.use(), c, data), expected, expected, close);
        }
        expect_same(c);
    }
}

TEST(Attention, AnInt8CacheIsRefusedForHeadsThatItsBlocksDoNotDivide) {
    for (const Device& device : devices()) {
        const auto refused = device.use().make_cache(
            {.layers = {{2, 48, 0, 0}}, .dtype = DType::q8_0, .block_tokens = 8, .blocks = {4}});
        ASSERT_FALSE(refused) << device.name;
        EXPECT_NE(refused.error().message.find("multiple of 32 elements, but this model's have 48"), std::string::npos);
    }
}

TEST(Attention, WindowEdges) {
    for (int window : {1, 2, 7, 8, 9, 16, 17}) {
        AttentionCase c{.op = attention(4, 2, 32),
                        .sequences = {{.past = 16, .rows = 1}, {.past = 7, .rows = 1}, {.past = 3, .rows = 11}},
                        .block_tokens = 8};
        c.op.window = window;
        SCOPED_TRACE(fmt::format("window {}", window));
        expect_same(c);
    }
}

TEST(Attention, MixedSequencesInOneBatch) {
    for (DType cache : {DType::f32, DType::f16, DType::q8_0}) {
        AttentionCase c{.op = attention(8, 4, 64),
                        .sequences = {{.past = 70, .rows = 1},
                                      {.past = 0, .rows = 19},
                                      {.past = 33, .rows = 8},
                                      {.past = 0, .rows = 1},
                                      {.past = 1, .rows = 2}},
                        .cache = cache,
                        .block_tokens = 16,
                        .seed = 9};
        expect_same(c);
        c.op.window = 20;
        c.op.softcap = 2.0F;
        expect_same(c);
    }
}

TEST(Attention, LongContextsAreSplitWithoutChangingTheResult) {
    for (DType cache : {DType::f32, DType::f16, DType::q8_0}) {
        for (int past : {511, 1000, 1501}) {
            AttentionCase c{.op = attention(2, 1, 64),
                            .sequences = {{.past = past, .rows = 1}},
                            .cache = cache,
                            .block_tokens = 32};
            SCOPED_TRACE(fmt::format("past {}", past));
            expect_same(c);
        }
    }
}

TEST(Attention, LargeScoresDoNotOverflow) {
    AttentionCase c{.op = attention(2, 1, 64), .sequences = {{.past = 40, .rows = 3}}};
    c.op.scale = 50.0F;  // scores of several hundred: exp() of them is infinite
    const std::vector<SequenceData> data = make_data(c);
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        const std::vector<float> y = run_attention(device.use(), c, data);
        EXPECT_TRUE(std::all_of(y.begin(), y.end(), [](float value) { return std::isfinite(value); }));
    }
    expect_same(c);
}

TEST(Attention, PrefillInChunksEqualsPrefillAtOnce) {
    const op::Attention op = attention(4, 2, 32);
    const AttentionCase whole{.op = op, .sequences = {{.past = 0, .rows = 24}}};
    const AttentionCase chunk{.op = op, .sequences = {{.past = 17, .rows = 7}}};
    const std::vector<SequenceData> data = make_data(whole);
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        const std::vector<float> all = run_attention(device.use(), whole, data);
        const std::vector<float> last = run_attention(device.use(), chunk, data);
        expect_close(last, {all.end() - static_cast<int64_t>(last.size()), all.end()}, last, tolerance(whole));
    }
}

TEST(Attention, ABatchedSequenceIsAsAlone) {
    const AttentionCase both{.op = attention(4, 2, 32), .sequences = {{.past = 12, .rows = 1}, {.past = 5, .rows = 1}}};
    const std::vector<SequenceData> data = make_data(both);
    const AttentionCase alone{.op = both.op, .sequences = {both.sequences[1]}};
    SequenceData second = data[1];
    std::iota(second.blocks.begin(), second.blocks.end(), 0);
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        const std::vector<float> y = run_attention(device.use(), both, data);
        const std::vector<float> y_alone = run_attention(device.use(), alone, {second});
        expect_close({y.begin() + static_cast<int64_t>(y.size() / 2), y.end()}, y_alone, y_alone, tolerance(both));
    }
}

}  // namespace tandem::test
