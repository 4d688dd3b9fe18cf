#include "vulkan/kernels/heads.h"

#include <algorithm>
#include <cmath>

#include "unit/vulkan/paged_step.h"
#include "vulkan/kernels/attention.h"
#include "vulkan/kernels/rope.h"

namespace tandem::vulkan {
namespace {

struct HeadsCase {
    PagedShape shape;
    int heads = 4;
    uint32_t splits = 1;
    uint32_t v_splits = 0;  // not 0: v is apart
    bool norm = true;
    op::Rope rope = {};
    bool v_is_k = false;
    bool norms_v = false;
    op::ScaleByPosition q_scale = {};

    int all_heads() const { return heads + 2 * shape.kv_heads; }
    int heads_together() const { return v_splits == 0 && !v_is_k ? all_heads() : heads + shape.kv_heads; }
};

op::Rope rope_of(int head_dim, int pairs, op::RopeLayout layout) {
    op::Rope rope{.head_dim = head_dim, .layout = layout, .magnitude = 1.25F, .inv_freq = {}};
    for (int i = 0; i < pairs; ++i) {
        rope.inv_freq.push_back(static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / pairs)));
    }
    return rope;
}

constexpr float kEps = 1e-6F;

struct Inputs {
    std::vector<float> qkv, v, q_norm, k_norm;
};

// A head of q, k or v, in double precision.
std::vector<double> reference(const HeadsCase& c, const Inputs& in, const PagedStep& step, uint32_t row, int head) {
    const auto dim = static_cast<size_t>(c.shape.head_dim);
    const bool is_v = head >= c.heads + c.shape.kv_heads;
    const bool apart = head >= c.heads_together() && !c.v_is_k;
    const auto heads = static_cast<size_t>(apart ? c.shape.kv_heads : c.heads_together());
    const auto index = static_cast<size_t>(apart              ? head - c.heads_together()
                                           : is_v && c.v_is_k ? head - c.shape.kv_heads
                                                              : head);
    const std::vector<float>& from = apart ? in.v : in.qkv;
    std::vector<double> x(dim);
    double squares = 0;
    for (size_t i = 0; i < dim; ++i) {
        for (size_t s = 0; s < (apart ? c.v_splits : c.splits); ++s) {
            x[i] += double{from[((s * step.bucket_rows() + row) * heads + index) * dim + i]};
        }
        squares += x[i] * x[i];
    }
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(dim) + double{kEps});
    if (is_v) {
        for (double& each : x) each *= c.norms_v ? inverse : 1;
        return x;
    }
    if (c.norm) {
        const std::vector<float>& weight = head < c.heads ? in.q_norm : in.k_norm;
        for (size_t i = 0; i < dim; ++i) x[i] *= inverse * double{weight[i]};
    }
    const size_t pairs = c.rope.inv_freq.size();
    for (size_t i = 0; i < pairs; ++i) {
        const bool interleaved = c.rope.layout == op::RopeLayout::interleaved;
        double& a = x[interleaved ? 2 * i : i];
        double& b = x[interleaved ? 2 * i + 1 : i + pairs];
        const double angle = step.position(row) * double{c.rope.inv_freq[i]};
        const double turned = (a * std::cos(angle) - b * std::sin(angle)) * double{c.rope.magnitude};
        b = (b * std::cos(angle) + a * std::sin(angle)) * double{c.rope.magnitude};
        a = turned;
    }
    const double growth = 1 + double{c.q_scale.growth} * std::log(1.0 + step.position(row) / c.q_scale.every);
    for (double& each : x) each *= head < c.heads ? growth : 1;
    return x;
}

// f16 rounds to 2^-11; what comes before, in f32, is off by some 2^-20 of the head's size. int8 rounds to half of 1/127
// of the largest of 32, and its scale is an f16.
void expect_head(const float* actual, const std::vector<double>& expected, DType type, const std::string& what) {
    for (size_t i = 0; i < expected.size(); ++i) {
        double allowed = std::abs(expected[i]) * 0x1p-11 + 0x1p-18;
        if (type == DType::q8_0) {
            double largest = 0;
            for (size_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) largest = std::max(largest, std::abs(expected[j]));
            allowed += largest * (0.5 / 127 + 0x1p-11);
        }
        ASSERT_NEAR(double{actual[i]}, expected[i], allowed) << what << ", element " << i;
    }
}

Inputs inputs_of(const HeadsCase& c, PagedStep& step) {
    const auto dim = static_cast<size_t>(c.shape.head_dim);
    const size_t row_elements = step.bucket_rows() * dim;
    return {step.uniform(c.splits * row_elements * static_cast<size_t>(c.heads_together())),
            step.uniform(std::max(c.v_splits, 1U) * row_elements * static_cast<size_t>(c.shape.kv_heads)),
            step.uniform(dim), step.uniform(dim)};
}

HeadsCall call_of(const HeadsCase& c, const Inputs& in, const PagedStep& step, const Buffer& q) {
    return {.qkv = gpu().upload(in.qkv).address,
            .kv_sets = c.v_splits == 0 && !c.v_is_k ? 2U : 1U,
            .splits = c.splits,
            .v = gpu().upload(in.v).address,
            .v_splits = c.v_splits,
            .rows = step.bucket_rows(),
            .heads = static_cast<uint32_t>(c.heads),
            .q_norm = c.norm ? gpu().upload(in.q_norm).address : 0,
            .k_norm = c.norm ? gpu().upload(in.k_norm).address : 0,
            .eps = kEps,
            .norms_v = c.norms_v,
            .q_scale = c.q_scale,
            .rope = c.rope.inv_freq.empty() ? nullptr : &c.rope,
            .turns = gpu().upload(turns_of(c.rope.inv_freq)).address,
            .cache = step.cache(),
            .layer = 0,
            .step = step.addresses(),
            .q = q.address};
}

Buffer query_buffer(const HeadsCase& c, const PagedStep& step) {
    return gpu().buffer(static_cast<size_t>(step.bucket_rows()) * static_cast<size_t>(c.heads) *
                        static_cast<size_t>(c.shape.head_dim) * sizeof(uint16_t));
}

void run_and_check(const HeadsCase& c) {
    PagedStep step(c.shape);
    const auto dim = static_cast<size_t>(c.shape.head_dim);
    const Inputs in = inputs_of(c, step);
    const Buffer q = query_buffer(c, step);
    gpu().run([&](Recorder& recorder) {
        return record_heads(recorder, gpu().device()->capabilities(), call_of(c, in, step, q));
    });
    step.download();
    const std::vector<float> queries = from_f16(gpu().read<uint16_t>(q));
    for (uint32_t row = 0; row < step.rows(); ++row) {
        for (int head = 0; head < c.all_heads(); ++head) {
            const std::string what = fmt::format("row {}, head {}", row, head);
            const int kv_head = (head - c.heads) % c.shape.kv_heads;
            const size_t cached = step.element(step.sequence(row), step.position(row), std::max(kv_head, 0));
            const float* actual = head < c.heads
                                      ? &queries[(row * static_cast<size_t>(c.heads) + static_cast<size_t>(head)) * dim]
                                  : head < c.heads + c.shape.kv_heads ? &step.keys()[cached]
                                                                      : &step.values()[cached];
            const DType type = head < c.heads ? DType::f16 : c.shape.cache;
            expect_head(actual, reference(c, in, step, row, head), type, what);
        }
    }
}

TEST(Heads, NormsTurnsAndWritesTheCache) {
    for (int head_dim : {64, 96, 128, 256}) {
        for (uint32_t splits : {1U, 3U}) {
            SCOPED_TRACE(testing::Message() << "heads of " << head_dim << ", splits " << splits);
            run_and_check({.shape = {.kv_heads = 2, .head_dim = head_dim, .sequences = {{.past = 1000}}},
                           .splits = splits,
                           .rope = rope_of(head_dim, head_dim / 2, op::RopeLayout::half)});
        }
    }
}

TEST(Heads, TakeValuesFromAProductOfTheirOwn) {
    for (uint32_t v_splits : {1U, 3U}) {
        run_and_check({.shape = {.kv_heads = 2,
                                 .head_dim = 64,
                                 .padding = 3,
                                 .sequences = {{.past = 0, .rows = 5}, {.past = 40}}},
                       .splits = 2,
                       .v_splits = v_splits,
                       .rope = rope_of(64, 32, op::RopeLayout::half)});
    }
}

TEST(Heads, TakeTheKeysForValuesAndNormThem) {
    HeadsCase c{
        .shape = {.kv_heads = 2, .head_dim = 64, .padding = 3, .sequences = {{.past = 0, .rows = 5}, {.past = 40}}},
        .splits = 2,
        .rope = rope_of(64, 32, op::RopeLayout::half),
        .v_is_k = true,
        .norms_v = true};
    run_and_check(c);
    c.v_is_k = false;
    run_and_check(c);
    c.v_splits = 3;
    run_and_check(c);
}

TEST(Heads, OfQueriesGrowWithThePosition) {
    run_and_check({.shape = {.kv_heads = 2, .head_dim = 64, .sequences = {{.past = 0, .rows = 5}, {.past = 400}}},
                   .norm = false,
                   .rope = rope_of(64, 32, op::RopeLayout::half),
                   .q_scale = {.growth = 0.1F, .every = 100}});
}

TEST(Heads, WriteACacheOfInt8) {
    for (int head_dim : {32, 96, 128, 256}) {
        SCOPED_TRACE(head_dim);
        run_and_check({.shape = {.kv_heads = 2,
                                 .head_dim = head_dim,
                                 .block_tokens = 8,
                                 .padding = 3,
                                 .cache = DType::q8_0,
                                 .sequences = {{.past = 0, .rows = 19}, {.past = 40}, {.past = 15, .rows = 2}}},
                       .splits = 2,
                       .rope = rope_of(head_dim, head_dim / 2, op::RopeLayout::half)});
    }
}

TEST(Heads, TakesEveryKindOfRope) {
    for (op::RopeLayout layout : {op::RopeLayout::half, op::RopeLayout::interleaved}) {
        for (int pairs : {0, 1, 6, 16, 32}) {
            SCOPED_TRACE(testing::Message() << "layout " << static_cast<int>(layout) << ", pairs " << pairs);
            run_and_check({.shape = {.kv_heads = 1, .head_dim = 64, .sequences = {{.past = 33}}},
                           .heads = 3,
                           .norm = false,
                           .rope = rope_of(64, pairs, layout)});
        }
    }
}

TEST(Heads, OfManyRowsGoToTheirOwnSequences) {
    for (int block_tokens : {16, 32}) {
        run_and_check({.shape = {.kv_heads = 2,
                                 .head_dim = 128,
                                 .block_tokens = block_tokens,
                                 .padding = 5,
                                 .sequences = {{.past = 0, .rows = 35}, {.past = 40}, {.past = 15, .rows = 2}}},
                       .splits = 2,
                       .rope = rope_of(128, 64, op::RopeLayout::half)});
    }
}

// What attention gives, and what is in the cache afterwards.
struct Attended {
    std::vector<std::byte> y;
    std::vector<float> keys, values;
};

Attended attend(const HeadsCase& c, const AttentionTuning& tuning, bool makes_heads) {
    PagedStep step(c.shape);
    const Inputs in = inputs_of(c, step);
    step.fill();
    const op::Attention op{.heads = c.heads,
                           .kv_heads = c.shape.kv_heads,
                           .head_dim = c.shape.head_dim,
                           .scale = 0.0883883476F,
                           .window = 90};
    EXPECT_TRUE(attention_makes_heads(tuning, gpu().device()->capabilities(), op));
    const uint64_t cols = static_cast<uint64_t>(c.heads) * static_cast<uint64_t>(c.shape.head_dim);
    const Buffer q = query_buffer(c, step);
    const Buffer y = gpu().buffer(activation_bytes(ActivationFormat::f32, step.bucket_rows(), cols));
    const Buffer scratch = gpu().buffer(attention_scratch_bytes(tuning, op, step.bucket_rows()));
    const HeadsCall heads = call_of(c, in, step, q);
    AttentionCall call{.q = q.address,
                       .rows = step.bucket_rows(),
                       .op = op,
                       .cache = step.cache(),
                       .step = step.addresses(),
                       .scratch = scratch.address,
                       .y = y.address,
                       .one_row_each = true};
    if (makes_heads) {
        call.heads = &heads;
        call.heads_block = gpu().upload(std::vector<kernels::HeadsBlock>{heads_block(heads)}).address;
    }
    gpu().run([&](Recorder& recorder) -> Status {
        if (!makes_heads) TRY(record_heads(recorder, gpu().device()->capabilities(), heads));
        return record_attention(recorder, tuning, gpu().device()->capabilities(), call);
    });
    step.download();
    return {gpu().read<std::byte>(y), step.keys(), step.values()};
}

void expect_the_same(const HeadsCase& c, const AttentionTuning& tuning) {
    const Attended apart = attend(c, tuning, false), at_once = attend(c, tuning, true);
    EXPECT_EQ(at_once.y, apart.y);
    const auto bits = [](const std::vector<float>& values) {
        std::vector<uint32_t> all(values.size());  // NaN where nothing was ever written
        std::memcpy(all.data(), values.data(), values.size() * sizeof(float));
        return all;
    };
    EXPECT_EQ(bits(at_once.keys), bits(apart.keys));
    EXPECT_EQ(bits(at_once.values), bits(apart.values));
}

TEST(Heads, MadeByAttentionAreTheSame) {
    const std::vector<PagedSequence> several = {{.past = 0}, {.past = 100}, {.past = 31}, {.past = 64}};
    const HeadsCase plain{.shape = {.kv_heads = 2, .head_dim = 128, .padding = 2, .sequences = several},
                          .splits = 3,
                          .rope = rope_of(128, 64, op::RopeLayout::half)};
    expect_the_same(plain, {.groups = 60});                             // splits of the positions
    expect_the_same(plain, {.matrix_lanes = 96, .matrix_groups = 24});  // three teams of lanes for four heads
    HeadsCase other = plain;
    other.shape.cache = DType::q8_0;
    other.shape.head_dim = 96;
    other.norm = false;
    other.v_splits = 2;
    other.heads = 6;
    other.rope = rope_of(96, 40, op::RopeLayout::interleaved);
    expect_the_same(other, {});
    other.norm = other.norms_v = other.v_is_k = true;
    other.v_splits = 0;
    other.q_scale = {.growth = 0.1F, .every = 40};
    expect_the_same(other, {});
}

}  // namespace
}  // namespace tandem::vulkan
