#include "cpu/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "device/step_check.h"
#include "graph/builder.h"

namespace tandem::cpu {

namespace {

using testing::HasSubstr;

constexpr int kVocab = 10;
constexpr int kDim = 4;

// embed -> kv_write, attention -> selected rows -> logits -> next
graph::Program tiny_program() {
    graph::Graph g;
    const graph::Tensor table = g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(kVocab), kDim));
    const graph::Tensor x = g.embed(table, g.tokens());
    const int cache = g.cache(1, kDim, 0);
    const graph::Tensor y =
        g.attention(x, g.kv_write(x, x, cache), {.cache = cache, .heads = 1, .kv_heads = 1, .head_dim = kDim});
    const graph::Tensor logits = g.linear(table, g.select_rows(y, g.output_rows()));
    g.result("logits", logits);
    g.result("next", g.sample(logits));
    return std::move(g).finish();
}

class TinyProgram : public testing::Test {
  protected:
    TinyProgram() {
        std::vector<std::byte> bytes(kVocab * kDim * sizeof(float));
        for (int i = 0; i < kVocab * kDim; ++i) {
            const float value = static_cast<float>(i % 7) - 3.0F;
            std::memcpy(bytes.data() + static_cast<size_t>(i) * sizeof(float), &value, sizeof(float));
        }
        weights_.add_owned("table", DType::f32, {kVocab, kDim}, bytes);
        backend_ = make_backend({.threads = 2}).value();
        cache_ =
            backend_->make_cache({.layers = program_.caches, .dtype = DType::f16, .block_tokens = 2, .blocks = {3}})
                .value();
    }

    Result<std::unique_ptr<device::Executable>> compile(std::vector<std::string> results = {"logits", "next"}) {
        return backend_->compile(program_, weights_, cache_,
                                 {.limits = {.tokens = 4, .outputs = 2}, .results = std::move(results)});
    }

    // Three tokens of one sequence, the last of which is sampled.
    device::Batch batch() {
        device::Batch batch{.tokens = {1, 2, 9},
                            .positions = {0, 1, 2},
                            .sequences = {{.first_row = 0, .rows = 3, .past = 0, .blocks = {}}},
                            .output_rows = {2},
                            .sampling = {{.params = &greedy_, .history = {}}}};
        batch.sequences[0].blocks[0] = blocks_;
        return batch;
    }

    std::string submit_error(const device::Batch& bad) {
        auto executable = compile().value();
        const Status status = executable->submit(bad, {});
        return status ? "no error" : status.error().message;
    }

    graph::Program program_ = tiny_program();
    graph::Weights weights_;
    std::unique_ptr<device::Backend> backend_;
    std::shared_ptr<device::KvCache> cache_;
    device::SamplingParams greedy_;
    std::vector<int32_t> blocks_ = {2, 0};
};

}  // namespace

TEST_F(TinyProgram, RunsAndGivesResultsInTheOrderAsked) {
    auto executable = compile({"next", "logits"}).value();
    ASSERT_TRUE(device::run(*executable, batch()));
    const auto next = device::result_as<int32_t>(*executable, 0);
    const auto logits = device::result_as<float>(*executable, 1);
    ASSERT_EQ(next.size(), 1U);
    ASSERT_EQ(logits.size(), static_cast<size_t>(kVocab));
    EXPECT_EQ(next[0], std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TEST_F(TinyProgram, AStepAtATimeEqualsAllAtOnce) {
    auto executable = compile().value();
    ASSERT_TRUE(device::run(*executable, batch()));
    const auto at_once = device::result_as<float>(*executable, 0);
    const std::vector<float> expected(at_once.begin(), at_once.end());
    const device::Batch all = batch();
    for (int i = 0; i < 3; ++i) {
        device::Batch one = all;
        one.tokens = {all.tokens[static_cast<size_t>(i)]};
        one.positions = {i};
        one.sequences[0].rows = 1;
        one.sequences[0].past = i;
        one.output_rows = {0};
        ASSERT_TRUE(device::run(*executable, one));
    }
    const auto stepped = device::result_as<float>(*executable, 0);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(stepped[i], expected[i], 1e-5F);
}

TEST_F(TinyProgram, NothingToDoIsFine) {
    auto executable = compile().value();
    EXPECT_TRUE(device::run(*executable, {}));
    EXPECT_EQ(executable->result(0).size(), 0U);
}

TEST_F(TinyProgram, AMissingWeightIsNamed) {
    weights_ = {};
    EXPECT_THAT(compile().error().message, HasSubstr("'table'"));
}

TEST_F(TinyProgram, AWeightOfAnotherTypeOrShapeIsNamed) {
    weights_ = {};
    weights_.add_owned("table", DType::f16, {kVocab, kDim}, std::vector<std::byte>(kVocab * kDim * 2));
    EXPECT_THAT(compile().error().message, HasSubstr("'table' is f16[10, 4] but the model needs f32[10, 4]"));
    weights_ = {};
    weights_.add_owned("table", DType::f32, {kDim, kVocab}, std::vector<std::byte>(kVocab * kDim * 4));
    EXPECT_THAT(compile().error().message, HasSubstr("f32[4, 10]"));
    weights_ = {};
    weights_.add_owned("table", DType::f32, {kVocab, kDim}, std::vector<std::byte>(7));
    EXPECT_THAT(compile().error().message, HasSubstr("7 bytes"));
}

TEST_F(TinyProgram, WeightsThatAreNotAlignedWork) {
    auto executable = compile().value();
    ASSERT_TRUE(device::run(*executable, batch()));
    const auto aligned = device::result_as<float>(*executable, 0);
    std::vector<std::byte> shifted(1);
    const auto data = weights_.find("table")->data;
    shifted.insert(shifted.end(), data.begin(), data.end());
    graph::Weights weights;
    weights.add("table", {DType::f32, {kVocab, kDim}, std::span(shifted).subspan(1)});
    auto other =
        backend_->compile(program_, weights, cache_, {.limits = {.tokens = 4, .outputs = 2}, .results = {"logits"}})
            .value();
    ASSERT_TRUE(device::run(*other, batch()));
    const auto realigned = device::result_as<float>(*other, 0);
    EXPECT_TRUE(std::equal(aligned.begin(), aligned.end(), realigned.begin(), realigned.end()));
}

TEST_F(TinyProgram, ABadBatchIsRefusedAndNamesTheValue) {
    device::Batch bad = batch();
    bad.tokens[1] = kVocab;
    EXPECT_THAT(submit_error(bad), HasSubstr("token id 10 "));
    bad = batch();
    bad.tokens[1] = -1;
    EXPECT_THAT(submit_error(bad), HasSubstr("token id -1 "));
    bad = batch();
    bad.positions[2] = 5;
    EXPECT_THAT(submit_error(bad), HasSubstr("position 5"));
    bad = batch();
    bad.positions.pop_back();
    EXPECT_THAT(submit_error(bad), HasSubstr("2 positions"));
    bad = batch();
    bad.output_rows[0] = 3;
    EXPECT_THAT(submit_error(bad), HasSubstr("output row 3"));
    bad = batch();
    bad.sampling.clear();
    EXPECT_THAT(submit_error(bad), HasSubstr("0 sampling"));
    bad = batch();
    bad.tokens.resize(5);
    EXPECT_THAT(submit_error(bad), HasSubstr("5 tokens"));
    bad = batch();
    bad.output_rows = {0, 1, 2};
    EXPECT_THAT(submit_error(bad), HasSubstr("3 output rows"));
}

TEST_F(TinyProgram, MasksThatAllowNothingOrDoNotCoverTheVocabularyAreRefused) {
    device::Batch bad = batch();
    const std::vector<uint32_t> beyond = {~0U << kVocab, ~0U};  // only tokens that there are not
    bad.sampling[0].allowed = beyond;
    EXPECT_THAT(submit_error(bad), HasSubstr("none of the 10 tokens"));
    device::StepLimits limits;
    limits.extents = {.tokens = 1, .outputs = 1};
    limits.samples = true;
    limits.drawn_from = 33;
    limits.steps = 4;
    device::Batch one;
    one.tokens = {1};
    one.positions = {0};
    one.output_rows = {0};
    one.sampling = {{.params = &greedy_, .history = {}}};
    const std::vector<uint32_t> last = {0, 1};
    one.sampling[0].allowed = last;
    EXPECT_TRUE(device::check_step(one, limits));
    one.sampling[0].allowed = std::span(last).first(1);
    EXPECT_THAT(device::check_step(one, limits).error().message, HasSubstr("32 bits say which of 33 tokens"));
    one.sampling[0].allowed = last;
    one.steps = 2;
    EXPECT_THAT(device::check_step(one, limits).error().message, HasSubstr("which tokens each of them may draw"));
}

TEST_F(TinyProgram, BadSequencesAndBlocksAreRefused) {
    device::Batch bad = batch();
    blocks_ = {2, 3};
    EXPECT_THAT(submit_error(bad), HasSubstr("cache block 3"));
    blocks_ = {-1, 0};
    EXPECT_THAT(submit_error(bad), HasSubstr("cache block -1"));
    blocks_ = {2, 0};
    bad.sequences[0].blocks[0] = std::span(blocks_).first(1);
    EXPECT_THAT(submit_error(bad), HasSubstr("table of only 1"));
    bad = batch();
    bad.sequences[0].rows = 2;
    EXPECT_THAT(submit_error(bad), HasSubstr("2 rows"));
    bad.sequences[0].rows = 4;
    EXPECT_THAT(submit_error(bad), HasSubstr("3 tokens"));
    bad.sequences[0].rows = -1;
    EXPECT_NE(submit_error(bad), "no error");
    bad = batch();
    bad.sequences.clear();
    EXPECT_NE(submit_error(bad), "no error");
}

TEST(Backend, DescribesTheMachine) {
    const auto backend = make_backend({.threads = 3}).value();
    const device::Description& description = backend->describe();
    EXPECT_EQ(description.name, "cpu");
    EXPECT_FALSE(description.hardware.empty());
    EXPECT_THAT(description.details, HasSubstr("3 threads"));
    ASSERT_EQ(description.pools.size(), 1U);
    EXPECT_GT(description.pools[0].size_bytes, description.pools[0].free_bytes);
    EXPECT_THAT(make_backend({.threads = 1, .reference = true}).value()->describe().details,
                HasSubstr("1 thread, reference"));
}

TEST(Backend, RefusesAnAbsurdNumberOfThreads) {
    EXPECT_FALSE(make_backend({.threads = -1}));
    EXPECT_FALSE(make_backend({.threads = 1000000}));
}

TEST(Backend, RefusesACacheThatDoesNotFit) {
    const auto backend = make_backend({.threads = 1}).value();
    const auto cache = backend->make_cache(
        {.layers = {{1024, 1024, 0, 0}}, .dtype = DType::f32, .block_tokens = 1 << 16, .blocks = {1 << 10}});
    ASSERT_FALSE(cache);
    EXPECT_THAT(cache.error().message, HasSubstr("MiB"));
    EXPECT_THAT(cache.error().message, HasSubstr("context"));
}

}  // namespace tandem::cpu
