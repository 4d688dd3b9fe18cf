#include "vulkan/kernels/attention.h"

#include <algorithm>
#include <cmath>

#include "unit/vulkan/activations.h"
#include "unit/vulkan/paged_step.h"

namespace tandem::vulkan {
namespace {

struct AttentionCase {
    op::Attention op;
    PagedShape shape;
    AttentionTuning tuning = {};
    ActivationFormat format = ActivationFormat::f32;
    bool sinks = false;

    bool one_row_each() const {
        return std::all_of(shape.sequences.begin(), shape.sequences.end(),
                           [](const PagedSequence& sequence) { return sequence.rows == 1; });
    }
};

AttentionCase gemma(std::vector<PagedSequence> sequences, int window = 0) {
    AttentionCase c{.op = {.heads = 4, .kv_heads = 2, .head_dim = 128, .scale = 0.0883883476F, .window = window},
                    .shape = {.kv_heads = 2, .head_dim = 128, .block_tokens = 32}};
    c.shape.sequences = std::move(sequences);
    return c;
}

// Of a head: some weigh next to nothing, others more than all positions.
float sink_of(int head) {
    return 3.0F * static_cast<float>(head % 4) - 4.0F;
}

// softmax(scale q k^T) v in double precision.
std::vector<double> reference(const AttentionCase& c, const PagedStep& step, const std::vector<float>& q, uint32_t row,
                              int head) {
    const auto dim = static_cast<size_t>(c.op.head_dim);
    const int last = step.position(row), first = c.op.window == 0 ? 0 : std::max(0, last + 1 - c.op.window);
    const int kv_head = head / (c.op.heads / c.op.kv_heads);
    const size_t at = (row * static_cast<size_t>(c.op.heads) + static_cast<size_t>(head)) * dim;
    std::vector<double> scores;
    for (int position = first; position <= last; ++position) {
        const size_t element = step.element(step.sequence(row), position, kv_head);
        double score = 0;
        for (size_t i = 0; i < dim; ++i) score += double{q[at + i]} * double{step.keys()[element + i]};
        score *= double{c.op.scale};
        if (c.op.softcap != 0) score = double{c.op.softcap} * std::tanh(score / double{c.op.softcap});
        scores.push_back(score);
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = c.sinks ? std::exp(double{sink_of(head)} - largest) : 0;
    std::vector<double> y(dim);
    for (int position = first; position <= last; ++position) {
        const double weight = std::exp(scores[static_cast<size_t>(position - first)] - largest);
        const size_t element = step.element(step.sequence(row), position, kv_head);
        sum += weight;
        for (size_t i = 0; i < dim; ++i) y[i] += weight * double{step.values()[element + i]};
    }
    for (double& value : y) value /= sum;
    return y;
}

// All numbers are at most one: a score sums head_dim products, and its error moves the weights; a result sums as many
// weights as there are positions. Softcap and exp may be off by a few units more.
double tolerance(const AttentionCase& c, int positions) {
    const double dim = c.op.head_dim;
    const double score = dim * dim * double{c.op.scale};
    // products of matrices take weights as f16, each off by half of its last bit
    const double weights = c.one_row_each() ? 0 : 0x1p-11;
    // and keys and values of int8 too: a score sums sqrt(head_dim) of their errors, and its own moves weights twice
    const bool rounded = c.shape.cache == DType::q8_0 && !c.one_row_each();
    const double elements = rounded ? 0x1p-12 * (1 + 16 * std::sqrt(dim) * double{c.op.scale}) : 0;
    return 0x1p-24 * (2 * score + positions + 64) + weights + elements;
}

std::vector<std::byte> run_and_check(const AttentionCase& c, const Buffer* shared_scratch = nullptr) {
    PagedStep step(c.shape);
    step.fill();
    const size_t cols = static_cast<size_t>(c.op.heads) * static_cast<size_t>(c.op.head_dim);
    const std::vector<float> q = step.uniform(step.bucket_rows() * cols);
    const Buffer q_buffer = gpu().upload(to_f16(q));
    std::vector<float> sinks;
    for (int head = 0; head < c.op.heads; ++head) sinks.push_back(sink_of(head));
    const Buffer sinks_buffer = gpu().upload(sinks);
    const Buffer y = gpu().buffer(activation_bytes(c.format, step.bucket_rows(), cols));
    const Buffer scratch = shared_scratch != nullptr
                               ? *shared_scratch
                               : gpu().buffer(attention_scratch_bytes(c.tuning, c.op, step.bucket_rows()));
    EXPECT_TRUE(attention_supported(c.tuning, gpu().device()->capabilities(), c.op, step.cache()));
    const auto attend = [&] {
        gpu().run([&](Recorder& recorder) {
            return record_attention(recorder, c.tuning, gpu().device()->capabilities(),
                                    {.q = q_buffer.address,
                                     .rows = step.bucket_rows(),
                                     .op = c.op,
                                     .cache = step.cache(),
                                     .step = step.addresses(),
                                     .scratch = scratch.address,
                                     .y = y.address,
                                     .format = c.format,
                                     .sinks = c.sinks ? sinks_buffer.address : 0,
                                     .one_row_each = c.one_row_each()});
        });
    };
    attend();
    std::vector<std::byte> once = gpu().read<std::byte>(y);
    const auto counters = gpu().read<uint32_t>(scratch);
    for (uint32_t i = 0; i < step.bucket_rows() * static_cast<uint32_t>(c.op.kv_heads); ++i) {
        EXPECT_EQ(counters[i], 0U) << "counter " << i << " is not back at zero";
    }
    attend();
    EXPECT_EQ(gpu().read<std::byte>(y), once) << "a second run differs";

    const ReadActivations read = read_activations(y, c.format, step.bucket_rows(), cols);
    for (uint32_t row = 0; row < step.rows(); ++row) {
        for (int head = 0; head < c.op.heads; ++head) {
            const std::vector<double> expected = reference(c, step, q, row, head);
            const double allowed = tolerance(c, step.position(row) + 1);
            for (size_t i = 0; i < expected.size(); ++i) {
                const size_t at = row * cols + static_cast<size_t>(head) * expected.size() + i;
                const double error = std::abs(double{read.values[at]} - expected[i]);
                if (!(error <= allowed + double{read.error[at]})) {
                    ADD_FAILURE() << "row " << row << ", head " << head << ", element " << i << ": " << read.values[at]
                                  << " instead of " << expected[i];
                    return once;
                }
            }
        }
    }
    return once;
}

TEST(Attention, OfOneRowAgreesWithDoublePrecisionForContextsOfAnyLength) {
    for (int past : {0, 1, 15, 31, 32, 33, 100, 511, 700}) {
        SCOPED_TRACE(past);
        run_and_check(gemma({{.past = past}}));
    }
}

TEST(Attention, ReadsACacheOfInt8) {
    AttentionCase c = gemma({{.past = 0}, {.past = 100}, {.past = 31}}, 40);
    c.shape.cache = DType::q8_0;
    run_and_check(c);
    c.shape.sequences = {{.past = 70}, {.past = 9, .rows = 30}, {.past = 50, .rows = 3}};
    run_and_check(c);
    c.op.head_dim = c.shape.head_dim = 96;
    c.shape.block_tokens = 8;
    run_and_check(c);
}

TEST(Attention, SeesOnlyTheWindow) {
    for (int window : {1, 2, 31, 32, 33, 64, 100}) {
        for (int past : {0, 31, 32, 63, 64, 99, 100, 150}) {
            SCOPED_TRACE(testing::Message() << "window " << window << ", past " << past);
            run_and_check(gemma({{.past = past}}, window));
        }
    }
}

TEST(Attention, WritesEveryFormat) {
    for (ActivationFormat format : {ActivationFormat::f32, ActivationFormat::q8, ActivationFormat::f16}) {
        for (uint32_t groups : {1U, 264U}) {
            SCOPED_TRACE(testing::Message() << "format " << static_cast<int>(format) << ", groups " << groups);
            AttentionCase c = gemma({{.past = 200}, {.past = 3}});
            c.format = format;
            c.tuning.groups = groups;
            run_and_check(c);
        }
    }
}

struct Heads {
    int kv_heads, group, head_dim;
};

void run_and_check_heads(const Heads& heads, uint32_t lanes) {
    SCOPED_TRACE(testing::Message() << heads.kv_heads << " x " << heads.group << " heads of " << heads.head_dim
                                    << ", lanes " << lanes);
    run_and_check({.op = {.heads = heads.kv_heads * heads.group,
                          .kv_heads = heads.kv_heads,
                          .head_dim = heads.head_dim,
                          .scale = 0.1F},
                   .shape = {.kv_heads = heads.kv_heads,
                             .head_dim = heads.head_dim,
                             .block_tokens = 16,
                             .sequences = {{.past = 90}}},
                   .tuning = {.lanes = lanes, .groups = 4},
                   .format = ActivationFormat::q8});
}

TEST(Attention, TakesEveryShapeOfHeads) {
    for (const Heads& heads :
         {Heads{1, 1, 32}, {1, 3, 64}, {2, 2, 96}, {1, 5, 160}, {1, 2, 224}, {1, 8, 256}, {1, 3, 512}}) {
        run_and_check_heads(heads, 128);
    }
}

TEST(Attention, TakesEveryNumberOfLanes) {
    for (uint32_t lanes : {64U, 256U}) {
        run_and_check_heads({1, 1, 96}, lanes);
        run_and_check_heads({1, 2, 256}, lanes);
    }
}

TEST(Attention, OfABatchReadsEachSequenceForItself) {
    AttentionCase c = gemma({{.past = 0}, {.past = 300}, {.past = 17}, {.past = 31}, {.past = 64}}, 100);
    c.shape.padding = 3;
    for (uint32_t groups : {10U, 60U}) {
        c.tuning.groups = groups;
        for (int block_tokens : {16, 64}) {
            SCOPED_TRACE(testing::Message() << "groups " << groups << ", block_tokens " << block_tokens);
            c.shape.block_tokens = block_tokens;
            run_and_check(c);
        }
    }
}

TEST(Attention, OfOneRowByMatricesAgreesToo) {
    const auto check = [](AttentionCase c) {
        c.tuning.matrix_lanes = 64;
        c.tuning.matrix_groups = c.tuning.groups;
        run_and_check(c);
    };
    for (int past : {0, 15, 31, 100, 300}) {
        SCOPED_TRACE(past);
        check(gemma({{.past = past}, {.past = 40}}));
        check(gemma({{.past = past}, {.past = 40}}, 33));
    }
    AttentionCase batch = gemma({{.past = 0}, {.past = 300}, {.past = 17}, {.past = 64}}, 100);
    batch.shape.padding = 3;
    batch.shape.block_tokens = 16;
    batch.tuning.groups = 60;
    check(batch);
    batch.shape.sequences = {{.past = 70}, {.past = 9, .rows = 30}, {.past = 50}};
    check(batch);
    check({.op = {.heads = 6, .kv_heads = 2, .head_dim = 256, .scale = 0.5F, .softcap = 1.5F},
           .shape = {.kv_heads = 2, .head_dim = 256, .block_tokens = 32, .sequences = {{.past = 77}, {.past = 5}}}});
}

TEST(Attention, CapsScores) {
    AttentionCase c = gemma({{.past = 77}});
    c.op.softcap = 1.5F;
    c.op.scale = 0.5F;
    run_and_check(c);
}

TEST(Attention, WeighsASinkAsAScoreWithoutAValue) {
    AttentionCase c = gemma({{.past = 300}, {.past = 2}}, 100);
    c.sinks = true;
    for (uint32_t groups : {1U, 264U}) {  // of one split and of several
        SCOPED_TRACE(testing::Message() << "groups " << groups);
        c.tuning.groups = c.tuning.matrix_groups = groups;
        run_and_check(c);
        c.tuning.matrix_lanes = 64;
        run_and_check(c);
        c.tuning.matrix_lanes = 0;
    }
    c.op.heads = 4 * c.op.kv_heads;
    c.op.head_dim = c.shape.head_dim = 64;
    c.shape.sequences = {{.past = 70}, {.past = 9, .rows = 30}, {.past = 0, .rows = 40}};
    c.format = ActivationFormat::f16;
    run_and_check(c);
    c.tuning.lane_rows = 32;
    run_and_check(c);
}

TEST(Attention, OfManyRowsIsMadeInPartsWhereHeadsAreWide) {
    for (const Heads& heads : {Heads{1, 2, 512}, {1, 1, 384}}) {
        SCOPED_TRACE(heads.head_dim);
        AttentionCase c{.op = {.heads = heads.kv_heads * heads.group,
                               .kv_heads = heads.kv_heads,
                               .head_dim = heads.head_dim,
                               .scale = 0.05F},
                        .shape = {.kv_heads = heads.kv_heads,
                                  .head_dim = heads.head_dim,
                                  .block_tokens = 16,
                                  .sequences = {{.past = 20, .rows = 33}, {.past = 40}}},
                        .format = ActivationFormat::f16};
        run_and_check(c);
        c.tuning.lane_rows = c.tuning.matrix_lanes = 64;  // which are for others
        run_and_check(c);
    }
}

TEST(Attention, OfFewRowsOfASequenceIsCausal) {
    run_and_check(gemma({{.past = 0, .rows = 4}, {.past = 50}, {.past = 33, .rows = 9}}, 20));
}

TEST(Attention, OfManyRowsOfASequenceIsCausal) {
    for (int past : {0, 5, 100}) {
        for (int rows : {16, 17, 140}) {
            SCOPED_TRACE(testing::Message() << "past " << past << ", rows " << rows);
            run_and_check(gemma({{.past = past, .rows = rows}}));
        }
    }
}

TEST(Attention, OfManyRowsSeesOnlyTheWindow) {
    for (int window : {1, 15, 32, 50, 200}) {
        SCOPED_TRACE(window);
        run_and_check(gemma({{.past = 40, .rows = 135}}, window));
    }
}

TEST(Attention, OfManyRowsTakesEveryShapeOfHeads) {
    for (const Heads& heads : {Heads{1, 1, 32}, {2, 3, 96}, {1, 2, 256}}) {
        SCOPED_TRACE(heads.head_dim);
        run_and_check({.op = {.heads = heads.kv_heads * heads.group,
                              .kv_heads = heads.kv_heads,
                              .head_dim = heads.head_dim,
                              .scale = 0.1F},
                       .shape = {.kv_heads = heads.kv_heads,
                                 .head_dim = heads.head_dim,
                                 .block_tokens = 16,
                                 .sequences = {{.past = 20, .rows = 33}}},
                       .format = ActivationFormat::f16});
    }
}

TEST(Attention, OfManyRowsInRegistersAgreesToo) {
    const auto check = [](AttentionCase c, uint32_t rows, uint32_t positions) {
        SCOPED_TRACE(testing::Message() << "tiles of " << rows << " x " << positions << ", window " << c.op.window
                                        << ", heads of " << c.op.head_dim);
        c.tuning.lane_rows = rows;
        c.tuning.lane_positions = positions;
        run_and_check(c);
    };
    AttentionCase narrow{.op = {.heads = 2, .kv_heads = 1, .head_dim = 64, .scale = 0.125F},
                         .shape = {.kv_heads = 1, .head_dim = 64, .block_tokens = 16}};
    for (int past : {0, 100}) {
        for (int rows : {16, 17, 140}) {
            SCOPED_TRACE(testing::Message() << "past " << past << ", rows " << rows);
            narrow.shape.sequences = {{.past = past, .rows = rows}};
            check(narrow, 64, 32);
        }
    }
    narrow.shape.sequences = {{.past = 40, .rows = 70}};
    for (int window : {1, 15, 32, 50}) {
        narrow.op.window = window;
        check(narrow, 64, 32);
    }
    check(gemma({{.past = 30, .rows = 40}}, 50), 32, 32);
    AttentionCase wide{.op = {.heads = 3, .kv_heads = 1, .head_dim = 256, .scale = 0.1F},
                       .shape = {.kv_heads = 1, .head_dim = 256, .block_tokens = 16},
                       .format = ActivationFormat::f16};
    wide.shape.sequences = {{.past = 20, .rows = 33}};
    check(wide, 16, 16);
    AttentionCase mixed{
        .op = {.heads = 2, .kv_heads = 2, .head_dim = 64, .scale = 0.1F, .window = 64},
        .shape = {.kv_heads = 2, .head_dim = 64, .block_tokens = 32, .padding = 7, .cache = DType::q8_0},
        .format = ActivationFormat::f16};
    mixed.shape.sequences = {{.past = 70}, {.past = 9, .rows = 30}, {.past = 0, .rows = 40}};
    mixed.op.softcap = 5.0F;
    check(mixed, 48, 32);
}

TEST(Attention, OfAMixedStepMakesTilesAndSingleRowsSideBySide) {
    for (ActivationFormat format : {ActivationFormat::f32, ActivationFormat::q8, ActivationFormat::f16}) {
        SCOPED_TRACE(testing::Message() << "format " << static_cast<int>(format));
        AttentionCase c =
            gemma({{.past = 70}, {.past = 9, .rows = 30}, {.past = 200, .rows = 3}, {.past = 0, .rows = 40}}, 64);
        c.shape.padding = 7;
        c.format = format;
        c.op.softcap = 5.0F;
        run_and_check(c);
    }
}

// Runs a case in scratch memory that other cases have used.
TEST(Attention, SharesItsScratchMemoryAmongStepsOfDifferentSizes) {
    const Buffer scratch = gpu().buffer(attention_scratch_bytes({}, gemma({}).op, 64));
    for (int sequences : {1, 8, 2, 64, 1}) {
        SCOPED_TRACE(sequences);
        run_and_check(gemma(std::vector<PagedSequence>(static_cast<size_t>(sequences), {.past = 150})), &scratch);
    }
}

TEST(Attention, TakesSingleRowsInTurnWhereThereAreMany) {
    AttentionCase c = gemma({{.past = 3, .rows = 16}});
    for (int i = 0; i < 100; ++i) c.shape.sequences.push_back({.past = i % 40});
    run_and_check(c);
}

}  // namespace
}  // namespace tandem::vulkan
