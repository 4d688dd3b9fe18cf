// Cache blocks copied on the device, as copy-on-write needs them.
#include <gmock/gmock.h>

#include <array>
#include <numeric>

#include "graph/builder.h"
#include "graph/ops.h"
#include "ops/op_test.h"

namespace tandem::test {

namespace {

using testing::HasSubstr;
using Copies = std::vector<std::pair<int32_t, int32_t>>;
using Tables = std::array<std::vector<int32_t>, 2>;

constexpr int kVocab = 40;
constexpr int kDim = 16;
constexpr int kWindow = 3;

// Three layers in two groups, whose attentions are added up.
class CachedTokens {
  public:
    explicit CachedTokens(device::Backend& backend) {
        Rng rng(3);
        const HostTensor table = uniform(rng, DType::f32, {kVocab, kDim});
        weights_.add_owned("table", table.dtype, table.shape, table.bytes);
        graph::Graph g;
        const graph::Tensor x =
            g.embed(g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(kVocab), kDim)), g.tokens());
        graph::Tensor sum = x;
        for (int window : {0, kWindow, 0}) {
            const int cache = g.cache(2, kDim / 2, window);
            const op::Attention op{.cache = cache, .heads = 2, .kv_heads = 2, .head_dim = kDim / 2, .window = window};
            sum = g.add(sum, g.attention(sum, g.kv_write(sum, x, cache), op));
        }
        g.result("y", sum);
        const graph::Program program = std::move(g).finish();
        cache_ = backend.make_cache({.layers = program.caches, .block_tokens = 4, .blocks = {6, 6}}).value();
        executable_ =
            backend.compile(program, weights_, cache_, {.limits = {.tokens = 8, .outputs = 0}, .results = {"y"}})
                .value();
    }

    // Feeds tokens at the positions from `past` on, copies while the step may still run, and returns the last row.
    std::vector<float> feed(const std::vector<int32_t>& tokens, int past, const Tables& tables,
                            const std::array<Copies, 2>& copies = {}) {
        device::Batch batch;
        batch.tokens = tokens;
        batch.positions.resize(tokens.size());
        std::iota(batch.positions.begin(), batch.positions.end(), past);
        batch.sequences = {{.first_row = 0, .rows = static_cast<int32_t>(tokens.size()), .past = past, .blocks = {}}};
        for (size_t g = 0; g < tables.size(); ++g) batch.sequences[0].blocks[g] = tables[g];
        const Status submitted = executable_->submit(batch);
        EXPECT_TRUE(submitted) << submitted.error().message;
        for (int g = 0; g < 2; ++g) {
            const Status copied = cache_->copy_blocks(g, copies[static_cast<size_t>(g)]);
            EXPECT_TRUE(copied) << copied.error().message;
        }
        const Status done = executable_->wait();
        EXPECT_TRUE(done) << done.error().message;
        const auto rows = device::result_as<float>(*executable_, 0);
        return {rows.end() - kDim, rows.end()};
    }

    std::string copy_error(int group, const Copies& copies) {
        const Status copied = cache_->copy_blocks(group, copies);
        return copied ? "no error" : copied.error().message;
    }

  private:
    graph::Weights weights_;
    std::shared_ptr<device::KvCache> cache_;
    std::unique_ptr<device::Executable> executable_;
};

}  // namespace

TEST(KvCache, CopiedBlocksHoldWhatTheirOriginalsHeld) {
    const Tables original = {{{0, 1, 2}, {0, 1, 2}}};
    const Tables copied = {{{4, 3, 5}, {0, 5, 3}}};  // the window has left block 0
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        CachedTokens cached(device.use());
        cached.feed({1, 2, 3, 4, 5, 6, 7, 8}, 0, original, {{{{0, 4}, {1, 3}}, {{1, 5}}}});
        const std::vector<float> expected = cached.feed({9}, 8, original);
        EXPECT_EQ(cached.feed({9}, 8, copied), expected);
        const Tables others = {{{4, 2, 5}, {0, 5, 3}}};
        EXPECT_NE(cached.feed({9}, 8, others), expected);

        cached.feed({21, 22, 23, 24, 25, 26, 27, 28}, 0, original);
        EXPECT_NE(cached.feed({9}, 8, original), expected);
        EXPECT_EQ(cached.feed({9}, 8, copied), expected) << "copies do not change with their originals";
    }
}

TEST(KvCache, RefusesCopiesOfBlocksThatAreNotThereOrDependOnTheirOrder) {
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        CachedTokens cached(device.use());
        EXPECT_EQ(cached.copy_error(1, {}), "no error");
        EXPECT_THAT(cached.copy_error(0, {{0, 6}}), HasSubstr("cache block 6 of group 0, which has 6"));
        EXPECT_THAT(cached.copy_error(1, {{-1, 0}}), HasSubstr("cache block -1 of group 1"));
        EXPECT_THAT(cached.copy_error(0, {{0, 2}, {1, 2}}), HasSubstr("copied to block 2"));
        EXPECT_THAT(cached.copy_error(0, {{0, 2}, {2, 3}}), HasSubstr("block 2 of group 0 is copied from and to"));
        EXPECT_THAT(cached.copy_error(0, {{1, 1}}), HasSubstr("copied from and to"));
    }
}

}  // namespace tandem::test
