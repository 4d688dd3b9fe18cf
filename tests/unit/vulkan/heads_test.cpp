#include "vulkan/kernels/heads.h"

#include <algorithm>
#include <cmath>

#include "unit/vulkan/paged_step.h"
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

    int all_heads() const { return heads + 2 * shape.kv_heads; }
    int heads_together() const { return v_splits == 0 ? all_heads() : heads + shape.kv_heads; }
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
    const bool apart = head >= c.heads_together();
    const auto heads = static_cast<size_t>(apart ? c.shape.kv_heads : c.heads_together());
    const auto index = static_cast<size_t>(apart ? head - c.heads_together() : head);
    const std::vector<float>& from = apart ? in.v : in.qkv;
    std::vector<double> x(dim);
    double squares = 0;
    for (size_t i = 0; i < dim; ++i) {
        for (size_t s = 0; s < (apart ? c.v_splits : c.splits); ++s) {
            x[i] += double{from[((s * step.bucket_rows() + row) * heads + index) * dim + i]};
        }
        squares += x[i] * x[i];
    }
    if (head >= c.heads + c.shape.kv_heads) return x;
    if (c.norm) {
        const std::vector<float>& weight = head < c.heads ? in.q_norm : in.k_norm;
        const double inverse = 1 / std::sqrt(squares / static_cast<double>(dim) + double{kEps});
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

void run_and_check(const HeadsCase& c) {
    PagedStep step(c.shape);
    const auto dim = static_cast<size_t>(c.shape.head_dim);
    const size_t row_elements = step.bucket_rows() * dim;
    const Inputs in{step.uniform(c.splits * row_elements * static_cast<size_t>(c.heads_together())),
                    step.uniform(std::max(c.v_splits, 1U) * row_elements * static_cast<size_t>(c.shape.kv_heads)),
                    step.uniform(dim), step.uniform(dim)};
    const Buffer qkv = gpu().upload(in.qkv), v = gpu().upload(in.v);
    const Buffer q_norm = gpu().upload(in.q_norm), k_norm = gpu().upload(in.k_norm);
    const Buffer turns = gpu().upload(turns_of(c.rope.inv_freq));
    const Buffer q = gpu().buffer(step.bucket_rows() * static_cast<size_t>(c.heads) * dim * sizeof(uint16_t));
    gpu().run([&](Recorder& recorder) {
        return record_heads(recorder, gpu().device()->capabilities(),
                            {.qkv = qkv.address,
                             .splits = c.splits,
                             .v = v.address,
                             .v_splits = c.v_splits,
                             .rows = step.bucket_rows(),
                             .heads = static_cast<uint32_t>(c.heads),
                             .q_norm = c.norm ? q_norm.address : 0,
                             .k_norm = c.norm ? k_norm.address : 0,
                             .eps = kEps,
                             .rope = c.rope.inv_freq.empty() ? nullptr : &c.rope,
                             .turns = turns.address,
                             .cache = step.cache(),
                             .layer = 0,
                             .step = step.addresses(),
                             .q = q.address});
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

}  // namespace
}  // namespace tandem::vulkan
