// A job as a whole: who may take part, faults of devices, lost ranks, and many requests with cancels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "engine/engine.h"
#include "golden/model_files.h"
#include "unit/ranks/job.h"

namespace tandem::ranks {
namespace {

const std::string kModel = golden::golden_dir("gemma3").string();

struct Opened {
    explicit Opened(const std::string& path = kModel)
        : checkpoint(format::Checkpoint::open(path).value()), model(models::load(checkpoint).value()) {}
    format::Checkpoint checkpoint;
    models::Model model;
};

// A CPU whose steps fail once when they are told to.
class FailingExecutable final : public device::Executable {
  public:
    FailingExecutable(std::unique_ptr<device::Executable> inner, std::shared_ptr<std::atomic<int>> failures)
        : inner_(std::move(inner)), failures_(std::move(failures)) {}
    Status submit(const device::Batch& batch, const device::FindAllowed& find_allowed) override {
        int left = failures_->load();
        while (left > 0 && !failures_->compare_exchange_weak(left, left - 1)) {
        }
        if (left > 0) return fail("the device was lost");
        return inner_->submit(batch, find_allowed);
    }
    Status wait() override { return inner_->wait(); }
    std::span<const std::byte> result(size_t index) const override { return inner_->result(index); }

  private:
    std::unique_ptr<device::Executable> inner_;
    std::shared_ptr<std::atomic<int>> failures_;
};

class FailingDevice final : public device::Backend {
  public:
    explicit FailingDevice(std::shared_ptr<std::atomic<int>> failures) : failures_(std::move(failures)) {}
    device::Description describe() const override { return inner_->describe(); }
    bool supports(const graph::Program& program, const graph::Node& node) const override {
        return inner_->supports(program, node);
    }
    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape shape) override {
        return inner_->make_cache(std::move(shape));
    }
    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override {
        auto executable = TRY(inner_->compile(program, weights, std::move(cache), options));
        return std::unique_ptr<device::Executable>(
            std::make_unique<FailingExecutable>(std::move(executable), failures_));
    }

  private:
    std::unique_ptr<device::Backend> inner_ = reference_cpu();
    std::shared_ptr<std::atomic<int>> failures_;
};

struct Outcome {
    std::vector<text::TokenId> tokens;
    engine::Finish finish;
};

Result<engine::RequestId> ask(engine::Engine& engine, std::vector<text::TokenId> prompt, int tokens, Outcome& outcome) {
    engine::Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = tokens;
    request.on_event = [&outcome](const engine::Event& event) {
        for (const auto& token : event.tokens) outcome.tokens.push_back(token);
        if (event.finish) outcome.finish = *event.finish;
    };
    return engine.submit(std::move(request));
}

engine::EngineOptions small_engine() {
    return {.context = 96, .sequences = 4, .rows = 32, .cache_tokens = 200, .block_tokens = 16};
}

TEST(Job, RefusesRanksThatAreNotAlike) {
    const auto differs = [](auto change) {
        TestJob job(kModel, {.size = 3, .greeting = [=](int rank, Greeting own) {
                                 if (rank == 2) change(own);
                                 return own;
                             }});
        return job.error;
    };
    EXPECT_EQ(differs([](Greeting& own) { own.version = "2"; }),
              "rank 2 (host2) runs version 2, rank 0 (host0) 1: install the same on all");
    EXPECT_EQ(differs([](Greeting& own) { own.settings = "--exact"; }),
              "rank 2 (host2) was started with '--exact', rank 0 (host0) with '': give all ranks the same options");
    EXPECT_EQ(differs([](Greeting& own) { own.error = "model.gguf: no such file"; }),
              "rank 2 (host2): model.gguf: no such file");
}

TEST(Job, RefusesAnotherModel) {
    TestJob job(kModel, {.size = 2, .model_of_rank = [](int) { return golden::golden_dir("qwen3").string(); }});
    ASSERT_EQ(job.error, "");
    const Opened own;
    const auto engine = engine::Engine::open(own.model, {}, *job.backend, small_engine());
    ASSERT_FALSE(engine);
    EXPECT_THAT(engine.error().message, testing::StartsWith("rank 1 (host1): its model is another one"));
}

TEST(Job, SplitsByHandAndRefusesWhatCannotBe) {
    const Opened own;
    const auto layers_of = [&](const std::string& split) -> std::string {
        TestJob job(kModel, {.size = 2, .ranks = {.split = split}});
        const auto engine = engine::Engine::open(own.model, {}, *job.backend, small_engine());
        if (!engine) return engine.error().message;
        return fmt::format("from {}", job.ranks->report()[1].first_layer);
    };
    EXPECT_EQ(layers_of("1"), "from 1");
    EXPECT_THAT(layers_of("1,2"), testing::StartsWith("--split 1,2: 2 cuts"));
    EXPECT_THAT(layers_of("99"), testing::HasSubstr("99"));
}

TEST(Job, ADeviceThatFailsEndsOneStepAndNamesItsRank) {
    for (int bad = 0; bad < 3; ++bad) {
        SCOPED_TRACE(bad);
        const auto failures = std::make_shared<std::atomic<int>>(0);
        TestJob job(kModel, {.size = 3, .device = [&](int rank) -> std::unique_ptr<device::Backend> {
                                 if (rank == bad) return std::make_unique<FailingDevice>(failures);
                                 return reference_cpu();
                             }});
        const Opened own;
        const auto engine = engine::Engine::open(own.model, {}, *job.backend, small_engine()).value();
        *failures = 1;
        Outcome first;
        ASSERT_TRUE(ask(*engine, {1, 2, 3}, 5, first));
        engine->run_until_idle();
        EXPECT_EQ(first.finish.reason, engine::FinishReason::error);
        EXPECT_THAT(first.finish.error, testing::HasSubstr("the device was lost"));
        if (bad > 0) {
            EXPECT_THAT(first.finish.error, testing::HasSubstr(fmt::format("rank {} (host{})", bad, bad)));
        }
        Outcome second;
        ASSERT_TRUE(ask(*engine, {1, 2, 3}, 5, second));
        engine->run_until_idle();
        EXPECT_EQ(second.finish.reason, engine::FinishReason::length) << second.finish.error;
        EXPECT_EQ(second.tokens.size(), 5U);
    }
}

TEST(Job, ALostRankFailsWhatIsUnderWayAndAllThatComes) {
    TestJob job(kModel, {.size = 3, .silence = std::chrono::seconds(10)});
    const Opened own;
    const auto engine = engine::Engine::open(own.model, {}, *job.backend, small_engine()).value();
    Outcome first;
    ASSERT_TRUE(ask(*engine, {1, 2, 3}, 60, first));
    engine->step();
    job.network->lose(1);
    engine->run_until_idle();
    EXPECT_EQ(first.finish.reason, engine::FinishReason::error);
    EXPECT_THAT(first.finish.error, testing::HasSubstr("rank 1 (host1) has been silent"));
    Outcome second;
    ASSERT_TRUE(ask(*engine, {1, 2, 3}, 5, second));
    engine->run_until_idle();
    EXPECT_EQ(second.finish.reason, engine::FinishReason::error);
}

// Many at once, some of whom change their minds, in a cache that is too small for all: nobody is forgotten, and who is
// answered is told what one machine would have said.
TEST(Job, ASoakWithCancels) {
    constexpr int kRequests = 60;
    const Opened own;
    const auto alone = reference_cpu();
    const auto expected_of = engine::Engine::open(own.model, {}, *alone, small_engine()).value();
    TestJob job(kModel, {.size = 3, .ranks = {.prompt_rows = 4}, .delay = std::chrono::microseconds(100)});
    const auto engine = engine::Engine::open(own.model, {}, *job.backend, small_engine()).value();
    std::mt19937 random(5);
    std::vector<Outcome> outcomes(kRequests);
    std::vector<std::vector<text::TokenId>> prompts(kRequests);
    std::vector<engine::RequestId> open;
    for (int i = 0; i < kRequests; ++i) {
        auto& prompt = prompts[static_cast<size_t>(i)];
        const int length = 1 + static_cast<int>(random() % 30);
        for (int t = 0; t < length; ++t) prompt.push_back(static_cast<text::TokenId>(random() % 5 + 3));
        open.push_back(ask(*engine, prompt, 12, outcomes[static_cast<size_t>(i)]).value());
        for (uint32_t steps = random() % 4; steps > 0; --steps) engine->step();
        if (random() % 3 == 0) engine->cancel(open[random() % open.size()]);
    }
    engine->run_until_idle();
    int answered = 0;
    for (size_t i = 0; i < outcomes.size(); ++i) {
        if (outcomes[i].finish.reason == engine::FinishReason::cancelled) continue;
        ASSERT_EQ(outcomes[i].finish.reason, engine::FinishReason::length) << i << ": " << outcomes[i].finish.error;
        if (++answered % 4 != 0) continue;
        Outcome expected;
        ASSERT_TRUE(ask(*expected_of, prompts[i], 12, expected));
        expected_of->run_until_idle();
        EXPECT_EQ(outcomes[i].tokens, expected.tokens) << i;
    }
    EXPECT_GT(answered, kRequests / 3);
    EXPECT_EQ(engine->audit(), "");
    EXPECT_EQ(engine->stats().running, 0);
}

// A device is given the weights of its own part alone, and reads in no others (CpuBackend); what the kernel brings
// along beside them, in pages of 2 MiB, is not ours to say.
TEST(Job, RanksTakeOnlyTheirOwnTensors) {
    const std::string path = std::string(TANDEM_SOURCE_DIR) + "/assets/tales-f16.gguf";
    const Opened own(path);
    const uint64_t all = own.model.weights.size_bytes();
    TestJob job(path, {.size = 3});
    const auto engine = engine::Engine::open(own.model, {}, *job.backend, small_engine()).value();
    Outcome outcome;
    ASSERT_TRUE(ask(*engine, {1, 2, 3}, 4, outcome));
    engine->run_until_idle();
    ASSERT_EQ(outcome.finish.reason, engine::FinishReason::length) << outcome.finish.error;
    const std::vector<StageReport> stages = job.ranks->report();
    ASSERT_EQ(stages.size(), 3U);
    uint64_t taken = 0;
    for (const StageReport& stage : stages) {
        EXPECT_GT(stage.weight_bytes, all / 5);
        EXPECT_LT(stage.weight_bytes, all * 3 / 5);  // five of twelve layers at most, and the embedding of both ends
        taken += stage.weight_bytes;
    }
    EXPECT_GE(taken, all);
}

TEST(Job, SaysWhatEachRankDidOfAStepAndShouldHave) {
    const std::string path = std::string(TANDEM_SOURCE_DIR) + "/assets/tales-f16.gguf";
    const Opened own(path);
    TestJob job(path, {.size = 3});
    const auto engine = engine::Engine::open(own.model, {}, *job.backend, small_engine()).value();
    Outcome outcome;
    ASSERT_TRUE(ask(*engine, {1, 2, 3}, 6, outcome));
    engine->run_until_idle();
    const plan::Speeds speeds{.rates = {.read_bytes_per_s = 1e9, .matrix_flops_per_s = 1e12}};
    const plan::StepShares step = job.ranks->last_step(&speeds);
    ASSERT_EQ(step.devices.size(), 3U);
    EXPECT_EQ(step.devices[0].device, "rank 0, host0 (cpu)");
    EXPECT_EQ(step.devices[0].part.substr(0, 11), "layers 0 to");
    double predicted = 0;
    for (const plan::StepShares::Share& share : step.devices) {
        EXPECT_GT(share.busy_s, 0);
        EXPECT_LT(share.busy_s, step.seconds);
        EXPECT_GT(share.sent_bytes, 0U);
        predicted += share.predicted_s;
    }
    // But for rows that were handed over: reading them is the link's, and they are a thousandth of the weights.
    EXPECT_NEAR(predicted / step.alone_s, 1, 1e-3) << "one sequence: the ranks do together what one does alone";
    EXPECT_EQ(job.ranks->last_step(nullptr).alone_s, 0);
}

// Grammars' masks are made while the ranks work, and held to by the last.
TEST(Job, DrawsWithinMasks) {
    const Opened own;
    TestJob job(kModel, {.size = 2});
    const std::vector<uint32_t> only_seven = [&] {
        std::vector<uint32_t> mask(device::mask_words(own.model.vocab), 0);
        mask[0] = 1U << 7;
        return mask;
    }();
    std::vector<uint32_t> mask(only_seven.size(), 0);
    const auto cache =
        job.backend
            ->make_cache({.layers = own.model.program.caches,
                          .dtype = DType::f32,
                          .block_tokens = 16,
                          .blocks = std::vector<int>(static_cast<size_t>(own.model.program.cache_groups()), 2)})
            .value();
    const auto executable = job.backend
                                ->compile(own.model.program, own.model.weights, cache,
                                          {.limits = {.tokens = 8, .outputs = 8}, .results = {"next"}})
                                .value();
    const std::vector<int32_t> table = {0, 1};
    const device::SamplingParams greedy;
    device::Batch batch;
    batch.tokens = {3, 4, 5};
    batch.positions = {0, 1, 2};
    batch.sequences = {{.first_row = 0, .rows = 3, .past = 0, .blocks = {table, table, table, table}}};
    batch.output_rows = {2};
    batch.sampling = {{.params = &greedy, .history = {}, .allowed = mask}};
    int asked = 0;
    const auto find = [&] {
        ++asked;
        mask = only_seven;
    };
    // vectors of the same size keep their memory
    ASSERT_TRUE(device::run(*executable, batch, find));
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(device::result_as<int32_t>(*executable, 0)[0], 7);
    EXPECT_THAT(device::run(*executable, batch, [&] { std::ranges::fill(mask, 0U); }).error().message,
                testing::HasSubstr("may be drawn"));
    ASSERT_TRUE(device::run(*executable, batch, find)) << "and goes on";
}

}  // namespace
}  // namespace tandem::ranks
