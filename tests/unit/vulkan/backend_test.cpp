#include "vulkan/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "graph/builder.h"
#include "graph/ops.h"
#include "vulkan/shared_gpu.h"

namespace tandem::vulkan {
namespace {

using testing::HasSubstr;

// logits = rows of a table chosen by the tokens, twice
struct Doubled {
    graph::Program program;
    graph::Weights weights;

    Doubled() {
        graph::Graph g;
        const graph::Tensor table = g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(3), 4));
        const graph::Tensor x = g.embed(table, g.tokens());
        g.result("logits", g.add(x, x));
        program = std::move(g).finish();
        const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
        const auto bytes = std::as_bytes(std::span(values));
        weights.add_owned("table", DType::f32, {3, 4}, {bytes.begin(), bytes.end()});
    }

    Result<std::unique_ptr<device::Executable>> compile(device::Backend& backend) const {
        return backend.compile(program, weights, nullptr,
                               {.limits = {.tokens = 4, .outputs = 0}, .results = {"logits"}});
    }
};

std::vector<float> row_of(device::Executable& executable, int32_t token) {
    device::Batch batch;
    batch.tokens = {token};
    batch.positions = {0};
    const Status done = device::run(executable, batch);
    EXPECT_TRUE(done) << done.error().message;
    const auto row = device::result_as<float>(executable, 0);
    return {row.begin(), row.end()};
}

TEST(VulkanBackend, OpensALostDeviceAgain) {
    const std::shared_ptr<SharedGpu> gpu = open_gpu({.validation = true}).value();
    const auto backend = make_backend(gpu).value();
    const Doubled doubled;
    const auto compiled = doubled.compile(*backend);
    ASSERT_TRUE(compiled) << compiled.error().message;
    const auto& before = *compiled;
    EXPECT_EQ(row_of(*before, 1), (std::vector<float>{10, 12, 14, 16}));

    lose_device(*gpu);
    device::Batch batch;
    batch.tokens = {1};
    batch.positions = {0};
    const Status failed = device::run(*before, batch);
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().message, HasSubstr("was lost"));

    const auto after = doubled.compile(*backend).value();
    EXPECT_EQ(row_of(*after, 2), (std::vector<float>{18, 20, 22, 24}));
    EXPECT_FALSE(device::run(*before, batch)) << "what was made for the lost device stays unusable";
}

TEST(VulkanBackend, SharesOneDeviceWithOthersInOtherThreads) {
    const std::shared_ptr<SharedGpu> gpu = open_gpu({.validation = true}).value();
    const int messages = Device::validation_messages();
    const auto work = [&](int32_t token, const std::vector<float>& expected) {
        const auto backend = make_backend(gpu).value();
        const Doubled doubled;
        const auto executable = doubled.compile(*backend).value();
        for (int i = 0; i < 50; ++i) EXPECT_EQ(row_of(*executable, token), expected);
    };
    std::thread other([&] { work(0, {2, 4, 6, 8}); });
    work(2, {18, 20, 22, 24});
    other.join();
    EXPECT_EQ(Device::validation_messages(), messages);
    const auto first = make_backend(gpu).value();
    const auto second = make_backend(gpu).value();
    const Doubled doubled;
    const auto before = doubled.compile(*first).value();
    lose_device(*gpu);
    const auto after = doubled.compile(*second).value();
    EXPECT_EQ(row_of(*after, 1), (std::vector<float>{10, 12, 14, 16})) << "opened again for whoever asks first";
}

TEST(VulkanBackend, SaysWhatIsFreeNow) {
    const std::shared_ptr<SharedGpu> gpu = open_gpu({.device_limit_bytes = uint64_t{1} << 30}).value();
    const auto backend = make_backend(gpu).value();
    const uint64_t before = backend->describe().pools.front().free_bytes;
    const Doubled doubled;
    const auto executable = doubled.compile(*backend).value();
    const uint64_t during = make_backend(gpu).value()->describe().pools.front().free_bytes;
    EXPECT_LT(during, before) << "for every backend of the GPU";
}

// The kernels that steps of one to four rows take are compiled by then, and no others.
TEST(VulkanBackend, HasAllThatAStepNeedsWhenItIsReady) {
    const std::shared_ptr<SharedGpu> gpu = open_gpu({}).value();
    const auto backend = make_backend(gpu).value();
    const PipelineCache& pipelines = *gpu->opened().value()->pipelines;
    const Doubled doubled;
    const auto compile = [&](bool ready, std::vector<double>* told) {
        return backend->compile(doubled.program, doubled.weights, nullptr,
                                {.limits = {.tokens = 4, .outputs = 0},
                                 .results = {"logits"},
                                 .ready = ready,
                                 .progress = [told](double done) -> Status {
                                     if (told != nullptr) told->push_back(done);
                                     return Ok{};
                                 }});
    };
    const size_t none = pipelines.size();
    const auto lazy = compile(false, nullptr).value();
    EXPECT_EQ(pipelines.size(), none);
    std::vector<double> told;
    const auto ready = compile(true, &told).value();
    const size_t made = pipelines.size();
    EXPECT_GT(made, none);
    EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
    EXPECT_GE(told.back(), 0.9);
    EXPECT_EQ(row_of(*ready, 1), (std::vector<float>{10, 12, 14, 16}));
    device::Batch all;
    all.tokens = {0, 1, 2, 0};
    all.positions = {0, 1, 2, 3};
    EXPECT_TRUE(device::run(*ready, all));
    EXPECT_EQ(pipelines.size(), made);
}

TEST(VulkanBackend, IsToldToStopWhileItGetsReady) {
    const auto backend = make_backend(Options{}).value();
    const Doubled doubled;
    const auto stopped = backend->compile(
        doubled.program, doubled.weights, nullptr,
        {.limits = {.tokens = 4, .outputs = 0}, .results = {"logits"}, .ready = true, .progress = [](double) -> Status {
             return fail("not wanted any more");
         }});
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().message, "not wanted any more");
}

// The mean of the rows of a table that a sequence's tokens choose, by way of the cache; and a draw from it.
struct Remembering {
    static constexpr int kDim = 32;
    graph::Program program;
    graph::Weights weights;

    Remembering() {
        graph::Graph g;
        const graph::Tensor table = g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(2), kDim));
        const int layer = g.cache(1, kDim, 0);
        const graph::Tensor x = g.embed(table, g.tokens());
        const op::Attention alike{.cache = layer, .heads = 1, .kv_heads = 1, .head_dim = kDim, .scale = 0};
        const graph::Tensor mean = g.attention(x, g.kv_write(x, x, layer), alike);
        g.result("mean", mean);
        g.result("next", g.sample(g.select_rows(mean, g.output_rows())));
        program = std::move(g).finish();
        std::vector<float> values(2 * kDim, 4.0F);
        std::fill(values.begin() + kDim, values.end(), 2.0F);
        const auto bytes = std::as_bytes(std::span(values));
        weights.add_owned("table", DType::f32, {2, kDim}, {bytes.begin(), bytes.end()});
    }

    std::unique_ptr<device::Executable> compile(device::Backend& backend, std::shared_ptr<device::KvCache> cache,
                                                const char* result) const {
        return backend
            .compile(program, weights, std::move(cache), {.limits = {.tokens = 1, .outputs = 1}, .results = {result}})
            .value();
    }

    static device::Batch step(int32_t token, int32_t position, std::span<const int32_t> blocks) {
        device::Batch batch;
        batch.tokens = {token};
        batch.positions = {position};
        batch.sequences = {{.rows = 1, .past = position, .blocks = {blocks}}};
        return batch;
    }
};

// Another program that runs in the middle of submit() sees the forward pass's row in the cache, so the device has it by
// then; and the draw, which is for wait() to bring, obeys what is found only there.
TEST(VulkanBackend, AsksForWhatIsAllowedWhenItHasTheForwardPass) {
    const auto backend = make_backend({.validation = true}).value();
    const Remembering model;
    const std::shared_ptr<device::KvCache> cache =
        backend->make_cache({.layers = model.program.caches, .dtype = DType::f32, .block_tokens = 16, .blocks = {1}})
            .value();
    const auto draws = model.compile(*backend, cache, "next");
    const auto reads = model.compile(*backend, cache, "mean");
    const std::vector<int32_t> blocks = {0};
    const device::SamplingParams greedy;
    std::vector<uint32_t> allowed(1);
    std::vector<float> met;
    device::Batch batch = Remembering::step(0, 0, blocks);
    batch.output_rows = {0};
    batch.sampling = {{.params = &greedy, .history = {}, .draw = 0, .allowed = allowed}};
    const device::FindAllowed find_allowed = [&] {
        const Status read = device::run(*reads, Remembering::step(1, 1, blocks));
        EXPECT_TRUE(read) << read.error().message;
        const auto row = device::result_as<float>(*reads, 0);
        met.assign(row.begin(), row.end());
        allowed[0] = 1U << 5U;
    };
    const Status submitted = draws->submit(batch, find_allowed);
    ASSERT_TRUE(submitted) << submitted.error().message;
    EXPECT_EQ(met, std::vector<float>(Remembering::kDim, 3)) << "of the row with 4, and its own with 2";
    ASSERT_TRUE(draws->wait());
    EXPECT_EQ(device::result_as<int32_t>(*draws, 0)[0], 5);
}

// A step that draws ends with what feeds its token back, which nothing else takes.
TEST(VulkanBackend, IsReadyToDraw) {
    const std::shared_ptr<SharedGpu> gpu = open_gpu({.validation = true}).value();
    const auto backend = make_backend(gpu).value();
    const Remembering model;
    const std::shared_ptr<device::KvCache> cache =
        backend->make_cache({.layers = model.program.caches, .dtype = DType::f32, .block_tokens = 16, .blocks = {1}})
            .value();
    const auto draws = backend
                           ->compile(model.program, model.weights, cache,
                                     {.limits = {.tokens = 2, .outputs = 2}, .results = {"next"}, .ready = true})
                           .value();
    const PipelineCache& pipelines = *gpu->opened().value()->pipelines;
    const size_t made = pipelines.size();
    const std::vector<int32_t> blocks = {0};
    const device::SamplingParams greedy;
    device::Batch batch = Remembering::step(0, 0, blocks);
    batch.output_rows = {0};
    batch.sampling = {{.params = &greedy, .history = {}, .draw = 0, .allowed = {}}};
    batch.steps = 2;
    EXPECT_TRUE(device::run(*draws, batch));
    EXPECT_EQ(pipelines.size(), made);
}

TEST(VulkanBackend, SaysHowMuchMemoryIsMissing) {
    constexpr uint64_t kMiB = uint64_t{1} << 20;
    const auto backend = make_backend({.device_limit_bytes = kMiB, .host_limit_bytes = 1}).value();
    graph::Graph g;
    constexpr int64_t kRows = 4096;
    const graph::Tensor table = g.weight("table", graph::matrix_type(DType::f32, graph::Dim::of(kRows), 1024));
    g.result("logits", g.embed(table, g.tokens()));
    const graph::Program program = std::move(g).finish();
    graph::Weights weights;
    weights.add_owned("table", DType::f32, {kRows, 1024}, std::vector<std::byte>(kRows * 1024 * 4));
    const auto refused =
        backend->compile(program, weights, nullptr, {.limits = {.tokens = 1, .outputs = 0}, .results = {"logits"}});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("16 MiB"));
    EXPECT_THAT(refused.error().message, HasSubstr("missing"));
}

class PipelineFile : public testing::Test {
  protected:
    void SetUp() override {
        directory_ =
            std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
        std::filesystem::remove_all(directory_);
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    // Runs something with the cache in directory_, and says which file it then holds.
    std::filesystem::path use() const {
        {
            const auto backend = make_backend({.pipeline_cache = directory_}).value();
            const auto executable = Doubled().compile(*backend).value();
            EXPECT_EQ(row_of(*executable, 0), (std::vector<float>{2, 4, 6, 8}));
        }
        std::vector<std::filesystem::path> files;
        for (const auto& entry : std::filesystem::directory_iterator(directory_)) files.push_back(entry.path());
        EXPECT_EQ(files.size(), 1U);
        return files.empty() ? "" : files.front();
    }

    std::filesystem::path directory_;
};

TEST_F(PipelineFile, IsWrittenAndReadAgain) {
    const std::filesystem::path file = use();
    EXPECT_GT(std::filesystem::file_size(file), 32U);
    EXPECT_EQ(use(), file);
}

TEST_F(PipelineFile, IsIgnoredWhenDamagedAndThenWrittenAnew) {
    const std::filesystem::path file = use();
    const uintmax_t size = std::filesystem::file_size(file);
    for (const char* content : {"", "nonsense", "TANDEMP1 that goes on with something else entirely"}) {
        std::ofstream(file, std::ios::trunc) << content;
        EXPECT_EQ(use(), file);
        EXPECT_EQ(std::filesystem::file_size(file), size);
    }
    {
        std::fstream damaged(file, std::ios::in | std::ios::out | std::ios::binary);
        damaged.seekp(40);
        damaged.put('\x7f');
    }
    EXPECT_EQ(use(), file);
}

}  // namespace
}  // namespace tandem::vulkan
