// The embedded model over two devices: what it says, cancels, a device that fails, and memory that is short.
#include "plan/several.h"

#include <gtest/gtest.h>

#include "graph/memory_plan.h"
#include "plan/parts.h"
#include "unit/engine/engine_fixture.h"
#include "unit/engine/fragile_device.h"

namespace tandem::engine {
namespace {

// A CPU under another name, with so much free memory.
class SmallDevice final : public device::Backend {
  public:
    SmallDevice(std::string name, uint64_t free_bytes) : name_(std::move(name)), free_bytes_(free_bytes) {}

    device::Description describe() const override {
        device::Description now = cpu_->describe();
        now.kind = device::Kind::gpu;
        now.name = name_;
        now.pools = {{"memory", free_bytes_, free_bytes_}};
        return now;
    }
    bool supports(const graph::Program& program, const graph::Node& node) const override {
        return cpu_->supports(program, node);
    }
    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape shape) override {
        if (full_) return fail("no memory for the key-value cache");
        return cpu_->make_cache(std::move(shape));
    }
    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override {
        return cpu_->compile(program, weights, std::move(cache), options);
    }
    void fill() { full_ = true; }

  private:
    std::unique_ptr<device::Backend> cpu_ = cpu::make_backend({.threads = 1}).value();
    std::string name_;
    uint64_t free_bytes_;
    bool full_ = false;
};

class SeveralEngine : public EngineTest {
  protected:
    static int layers() { return static_cast<int>(bundle().model.program.caches.size()); }
    static std::string middle() { return fmt::format("{}", layers() / 2); }

    static std::unique_ptr<device::Backend> two(std::unique_ptr<device::Backend> first,
                                                std::unique_ptr<device::Backend> second, plan::SeveralOptions options) {
        std::vector<std::unique_ptr<device::Backend>> devices;
        devices.push_back(std::move(first));
        devices.push_back(std::move(second));
        return plan::make_several(std::move(devices), std::move(options));
    }
    static std::unique_ptr<device::Backend> two_cpus(plan::SeveralOptions options) {
        return two(cpu::make_backend({.threads = 1}).value(), cpu::make_backend({.threads = 1}).value(),
                   std::move(options));
    }
    static std::unique_ptr<Engine> open_on(device::Backend& device) {
        auto opened = Engine::open(bundle().model, bundle().tokenizer, device, {.context = 256, .sequences = 8});
        EXPECT_TRUE(opened) << opened.error().message;
        return std::move(*opened);
    }
    static Request story(int i) {
        Request request;
        request.prompt = bundle().tokenizer.encode(fmt::format("{} little foxes went to the", i + 2));
        request.max_tokens = 24;
        request.ignore_end = true;
        if (i % 2 == 1) request.sampling = {.temperature = 0.8F, .seed = static_cast<uint64_t>(i)};
        return request;
    }
};

TEST_F(SeveralEngine, SaysWhatOneDeviceSaysWhateverTheGroups) {
    constexpr int kRequests = 6;
    const std::unique_ptr<Engine> alone = open_on(cpu());
    std::vector<std::vector<TokenId>> expected;
    for (int i = 0; i < kRequests; ++i) expected.push_back(answer(*alone, story(i)).tokens);
    for (const int groups : {0, 1, 2, 3}) {
        const std::unique_ptr<device::Backend> device = two_cpus({.cuts = middle(), .micro_rows = 8, .groups = groups});
        const std::unique_ptr<Engine> engine = open_on(*device);
        std::vector<Ticket> tickets;
        for (int i = 0; i < kRequests; ++i) tickets.push_back(submit(*engine, story(i)));
        engine->run_until_idle();
        EXPECT_EQ(engine->audit(), "");
        for (int i = 0; i < kRequests; ++i)
            EXPECT_EQ(heard(tickets[static_cast<size_t>(i)]).tokens, expected[static_cast<size_t>(i)]) << i;
    }
}

TEST_F(SeveralEngine, FindsThePrefixesThatBothDevicesHave) {
    const std::unique_ptr<Engine> alone = open_on(cpu());
    const std::unique_ptr<device::Backend> device = two_cpus({.cuts = middle()});
    const std::unique_ptr<Engine> engine = open_on(*device);
    Request first = story(0);
    first.max_tokens = 60;
    Request again = first;
    again.prompt = answer(*alone, first).tokens;
    again.prompt.insert(again.prompt.begin(), first.prompt.begin(), first.prompt.end());
    again.prompt.resize(again.prompt.size() - 7);  // ends within a block, which is copied
    answer(*engine, first);
    EXPECT_EQ(answer(*engine, again).tokens, answer(*alone, again).tokens);
    EXPECT_GT(engine->stats().cached_tokens, 0U);
}

TEST_F(SeveralEngine, ACancelLeavesTheOthersAlone) {
    const std::unique_ptr<Engine> alone = open_on(cpu());
    const std::vector<TokenId> expected = answer(*alone, story(1)).tokens;
    const std::unique_ptr<device::Backend> device = two_cpus({.cuts = middle(), .groups = 2});
    const std::unique_ptr<Engine> engine = open_on(*device);
    const Ticket cancelled = submit(*engine, story(0));
    const Ticket kept = submit(*engine, story(1));
    while (heard(cancelled).tokens.size() < 3) engine->step();
    engine->cancel(cancelled.id);
    engine->run_until_idle();
    EXPECT_TRUE(heard(cancelled).ended_with(FinishReason::cancelled));
    EXPECT_EQ(heard(kept).tokens, expected);
    EXPECT_EQ(engine->audit(), "");
}

TEST_F(SeveralEngine, ADeviceThatFailsIsNamedAndUsedAgainWhenItIsBack) {
    auto second = std::make_unique<FragileDevice>();
    FragileDevice& fragile = *second;
    const std::unique_ptr<device::Backend> device =
        two(std::make_unique<SmallDevice>("vulkan:0", uint64_t{1} << 34), std::move(second), {.cuts = middle()});
    const std::unique_ptr<Engine> engine = open_on(*device);
    const Ticket ticket = submit(*engine, story(0));
    while (heard(ticket).tokens.size() < 3) engine->step();
    fragile.lost = true;
    engine->run_until_idle();
    ASSERT_TRUE(heard(ticket).ended_with(FinishReason::error));
    EXPECT_EQ(heard(ticket).finish->error, "cpu: the device is lost");
    const std::unique_ptr<Engine> alone = open_on(cpu());
    EXPECT_EQ(answer(*engine, story(1)).tokens, answer(*alone, story(1)).tokens);
}

// Two alike would have half of the layers each.
TEST_F(SeveralEngine, ADeviceGetsNoMoreLayersThanItHasMemoryFor) {
    const models::Model& model = bundle().model;
    const auto groups = static_cast<size_t>(model.program.cache_groups());
    const device::CacheShape shape{
        .layers = model.program.caches, .dtype = DType::f16, .block_tokens = 16, .blocks = std::vector<int>(groups, 4)};
    const device::CompileOptions options{.limits = {.tokens = 8, .outputs = 8}, .results = {"next"}};
    const graph::Program program = graph::keep_results(model.program, options.results);
    const plan::PartBytes bytes = plan::part_bytes(plan::parts_of(program).value(), shape);
    const uint64_t work = 2 * graph::plan_memory(program, options.limits).size_bytes;
    const uint64_t three = bytes.first + work + 7 * bytes.layers.front() / 2;  // and a half
    const auto free_bytes = static_cast<uint64_t>(static_cast<double>(three) / 0.95);
    const std::unique_ptr<device::Backend> device =
        two(std::make_unique<SmallDevice>("vulkan:0", free_bytes),
            std::make_unique<SmallDevice>("vulkan:1", uint64_t{1} << 34), {});
    const auto cache = device->make_cache(shape).value();
    const auto executable = device->compile(model.program, model.weights, cache, options);
    ASSERT_TRUE(executable) << executable.error().message;
    const std::string details = device->describe().details;
    EXPECT_NE(details.find(fmt::format(" to {} on vulkan:1 ", layers() - 1)), std::string::npos) << details;
    for (int last = 3; last < layers(); ++last)
        EXPECT_EQ(details.find(fmt::format("layers 0 to {} on vulkan:0", last)), std::string::npos) << details;
}

TEST_F(SeveralEngine, WhatFitsNowhereIsAnErrorThatSaysWhatThereIs) {
    const auto open_error = [](device::Backend& device) {
        const auto engine = Engine::open(bundle().model, bundle().tokenizer, device, {.context = 256});
        return engine ? std::string() : engine.error().message;
    };
    const auto small = [](const char* name) { return std::make_unique<SmallDevice>(name, uint64_t{1} << 20); };
    std::string error = open_error(*two(small("vulkan:0"), small("vulkan:1"), {}));
    EXPECT_NE(error.find("do not fit into the devices (vulkan:0 "), std::string::npos) << error;
    error = open_error(
        *two(std::make_unique<SmallDevice>("vulkan:0", uint64_t{1} << 34), small("vulkan:1"), {.cuts = middle()}));
    EXPECT_NE(error.find("on vulkan:1, which has "), std::string::npos) << error;

    auto full = std::make_unique<SmallDevice>("vulkan:1", uint64_t{1} << 34);
    full->fill();
    error = open_error(
        *two(std::make_unique<SmallDevice>("vulkan:0", uint64_t{1} << 34), std::move(full), {.cuts = middle()}));
    EXPECT_EQ(error, "vulkan:1: no memory for the key-value cache");
}

TEST_F(SeveralEngine, TellsWhoDidWhat) {
    const auto shares = std::make_shared<plan::LastShares>();
    const std::unique_ptr<device::Backend> device = two_cpus({.cuts = "1", .shares = shares});
    const std::unique_ptr<Engine> engine = open_on(*device);
    answer(*engine, story(0));
    const plan::StepShares last = shares->get();
    ASSERT_EQ(last.devices.size(), 2U);
    EXPECT_EQ(last.devices[0].part, "layers 0 to 0");
    EXPECT_EQ(last.devices[1].part, fmt::format("layers 1 to {}", layers() - 1));
    EXPECT_GT(last.devices[1].busy_s, 0);
    EXPECT_GE(last.bubble(), 0);
    EXPECT_LT(last.bubble(), 1);
    EXPECT_EQ(last.devices[1].predicted_s, 0) << "not measured: split by hand";
    EXPECT_NE(device->describe().details.find("layers 0 to 0 on cpu"), std::string::npos);
}

TEST_F(SeveralEngine, ByMeasuredTimeItPredictsItsSteps) {
    const auto shares = std::make_shared<plan::LastShares>();
    const std::unique_ptr<device::Backend> device = two_cpus({.shares = shares});
    const std::unique_ptr<Engine> engine = open_on(*device);
    const std::unique_ptr<Engine> alone = open_on(cpu());
    EXPECT_EQ(answer(*engine, story(0)).tokens, answer(*alone, story(0)).tokens);
    for (const auto& share : shares->get().devices) EXPECT_GT(share.predicted_s, 0) << share.part;
}

TEST_F(SeveralEngine, AWrongSplitIsRefused) {
    for (const char* cuts : {"0", "x", "1,2", "99"}) {
        const std::unique_ptr<device::Backend> device = two_cpus({.cuts = cuts});
        const auto engine = Engine::open(bundle().model, bundle().tokenizer, *device, {.context = 256});
        ASSERT_FALSE(engine) << cuts;
        EXPECT_NE(engine.error().message.find(fmt::format("--split {}: ", cuts)), std::string::npos);
    }
}

}  // namespace
}  // namespace tandem::engine
