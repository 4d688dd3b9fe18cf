// Cache blocks copied on the device, as copy-on-write needs them.
#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <numeric>

#include "base/float16.h"
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
        const Status submitted = executable_->submit(batch, {});
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

// What a cache of one layer of two heads has in host memory for a head of a token, decoded by its layout.
class HostView {
  public:
    HostView(const device::KvCache& cache, int head_dim)
        : layout_(cache.host_layout(0)), dtype_(cache.shape().dtype), head_dim_(head_dim) {}

    float read(std::span<const std::byte> memory, int block, int head, int token, int i) const {
        if (dtype_ == DType::f32) return load<float>(memory, element(block, head, token, i));
        if (dtype_ == DType::f16) return f16_to_f32(load<uint16_t>(memory, element(block, head, token, i)));
        const float scale = f16_to_f32(load<uint16_t>(memory, layout_.scale(block, head, token, i / kRun)));
        return scale * static_cast<float>(load<int8_t>(memory, element(block, head, token, i)));
    }

    // Every element becomes `value`, which is a small integer.
    void write(std::span<std::byte> memory, int block, int head, int token, int value) const {
        for (int i = 0; i < head_dim_; ++i) {
            const uint64_t at = element(block, head, token, i);
            if (dtype_ == DType::f32) store(memory, at, static_cast<float>(value));
            if (dtype_ == DType::f16) store(memory, at, f32_to_f16(static_cast<float>(value)));
            if (dtype_ != DType::q8_0) continue;
            store(memory, at, static_cast<int8_t>(value));
            store(memory, layout_.scale(block, head, token, i / kRun), f32_to_f16(1.0F));
        }
    }

  private:
    static constexpr int kRun = 32;

    uint64_t element(int block, int head, int token, int i) const {
        if (dtype_ != DType::q8_0) return layout_.element(block, head, token) + row_bytes(dtype_, i);
        return layout_.element(block, head, token, i / kRun) + static_cast<uint64_t>(i % kRun);
    }

    template <typename T>
    static T load(std::span<const std::byte> memory, uint64_t at) {
        T value{};
        std::memcpy(&value, memory.subspan(at, sizeof(T)).data(), sizeof(T));
        return value;
    }
    template <typename T>
    static void store(std::span<std::byte> memory, uint64_t at, T value) {
        std::memcpy(memory.subspan(at, sizeof(T)).data(), &value, sizeof(T));
    }

    device::CacheLayout layout_;
    DType dtype_;
    int head_dim_;
};

bool is_page_aligned(std::span<const std::byte> memory) {
    return reinterpret_cast<uintptr_t>(memory.data()) % 4096 == 0 && memory.size() % 4096 == 0;
}

// A layer of two kv heads whose keys and values of a token are the rows of a table, and attention over them.
class SharedCache {
  public:
    static constexpr int kHeadDim = 64;
    static constexpr int kBlockTokens = 8;
    static constexpr int kTokens = 12;  // a block and a half

    SharedCache(device::Backend& backend, DType dtype) {
        Rng rng(5);
        keys_ = uniform(rng, DType::f32, {kTokens, 2 * kHeadDim});
        values_ = uniform(rng, DType::f32, {kTokens, 2 * kHeadDim});
        const HostTensor zeros = tensor({kTokens, 2 * kHeadDim}, std::vector<float>(kTokens * 2 * kHeadDim, 0.0F));
        graph::Graph g;
        const auto given = [&](const char* name, const HostTensor& t) {
            weights_.add_owned(name, t.dtype, t.shape, t.bytes);
            return g.embed(g.weight(name, graph::matrix_type(DType::f32, graph::Dim::of(kTokens), 2 * kHeadDim)),
                           g.tokens());
        };
        const graph::Tensor zero = given("zero", zeros);
        const int cache = g.cache(2, kHeadDim, 0);
        const op::Attention attention{.cache = cache, .heads = 2, .kv_heads = 2, .head_dim = kHeadDim};
        const graph::Tensor written = g.kv_write(given("keys", keys_), given("values", values_), cache);
        g.result("y", g.attention(zero, written, attention));
        const graph::Program program = std::move(g).finish();
        auto made = backend.make_cache(
            {.layers = program.caches, .dtype = dtype, .block_tokens = kBlockTokens, .blocks = {4}, .shared = true});
        EXPECT_TRUE(made) << made.error().message;
        cache_ = std::move(made).value();
        executable_ =
            backend.compile(program, weights_, cache_, {.limits = {.tokens = kTokens, .outputs = 0}, .results = {"y"}})
                .value();
    }

    device::KvCache& cache() { return *cache_; }
    std::vector<float> keys() const { return keys_.values(); }
    std::vector<float> values() const { return values_.values(); }

    // The last row, of zero queries: the mean of all values.
    std::vector<float> feed(const std::vector<int32_t>& tokens, int past, const std::vector<int32_t>& blocks) {
        device::Batch batch;
        batch.tokens = tokens;
        batch.positions.resize(tokens.size());
        std::iota(batch.positions.begin(), batch.positions.end(), past);
        batch.sequences = {{.first_row = 0, .rows = static_cast<int32_t>(tokens.size()), .past = past, .blocks = {}}};
        batch.sequences[0].blocks[0] = blocks;
        const Status done = device::run(*executable_, batch);
        EXPECT_TRUE(done) << done.error().message;
        const auto rows = device::result_as<float>(*executable_, 0);
        return {rows.end() - 2 * kHeadDim, rows.end()};
    }

  private:
    HostTensor keys_, values_;
    graph::Weights weights_;
    std::shared_ptr<device::KvCache> cache_;
    std::unique_ptr<device::Executable> executable_;
};

}  // namespace

TEST(KvCache, SharedOnesAreReadAndWrittenInHostMemory) {
    const std::vector<int32_t> blocks{2, 1};
    for (const DType dtype : {DType::f32, DType::f16, DType::q8_0}) {
        for (const Device& device : devices()) {
            SCOPED_TRACE(device.name + " " + std::string(name(dtype)));
            SharedCache shared(device.use(), dtype);
            const HostView view(shared.cache(), SharedCache::kHeadDim);
            std::vector<int32_t> tokens(SharedCache::kTokens - 1);
            std::iota(tokens.begin(), tokens.end(), 0);
            shared.feed(tokens, 0, blocks);
            ASSERT_TRUE(shared.cache().copy_blocks(0, std::vector<std::pair<int32_t, int32_t>>{{2, 3}}));
            ASSERT_TRUE(shared.cache().settle());
            const auto keys = shared.cache().host_keys(0), values = shared.cache().host_values(0);
            ASSERT_TRUE(is_page_aligned(keys) && is_page_aligned(values));

            // What the step wrote is there, for each token, head and element; and so is the copy.
            const std::vector<float> expected_keys = shared.keys(), expected_values = shared.values();
            const double error = dtype == DType::f32 ? 0.0 : dtype == DType::f16 ? 0x1p-11 : 0.5 / 127 + 0x1p-11;
            for (int n = 0; n < 2 * SharedCache::kHeadDim * static_cast<int>(tokens.size()); ++n) {
                const int token = n / (2 * SharedCache::kHeadDim), i = n % SharedCache::kHeadDim;
                const int head = n / SharedCache::kHeadDim % 2, slot = token % SharedCache::kBlockTokens;
                const int block = blocks[static_cast<size_t>(token / SharedCache::kBlockTokens)];
                ASSERT_NEAR(view.read(keys, block, head, slot, i), expected_keys[static_cast<size_t>(n)], error);
                ASSERT_NEAR(view.read(values, block, head, slot, i), expected_values[static_cast<size_t>(n)], error);
                if (block == 2) {
                    ASSERT_EQ(view.read(keys, 3, head, slot, i), view.read(keys, 2, head, slot, i));
                }
            }

            // What the host writes is what the next step attends to, beside the one token of its own. Queries are
            // zero, so that every token counts the same.
            for (int token = 0; token < SharedCache::kTokens; ++token) {
                const int block = blocks[static_cast<size_t>(token / SharedCache::kBlockTokens)];
                for (int head : {0, 1}) {
                    const int slot = token % SharedCache::kBlockTokens;
                    view.write(keys, block, head, slot, 0);
                    view.write(values, block, head, slot, 12 * (head + 1));
                }
            }
            const std::vector<float> mean = shared.feed({11}, 11, blocks);
            for (int i = 0; i < 2 * SharedCache::kHeadDim; ++i) {
                const int own_at = 11 * 2 * SharedCache::kHeadDim + i, head = i / SharedCache::kHeadDim;
                const float own = expected_values[static_cast<size_t>(own_at)];
                const float others = 12.0F * static_cast<float>(head + 1);
                ASSERT_NEAR(mean[static_cast<size_t>(i)], (11.0F * others + own) / 12.0F, 0.02F) << i;
            }
        }
    }
}

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
