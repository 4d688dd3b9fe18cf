// What is foreseen against what the emulator counts, the cost model, and the Runtime.
#include "npu/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "npu/check.h"
#include "npu/designs/gemm.h"
#include "npu/emulator.h"
#include "npu/emulator_runtime.h"

namespace tandem::npu {
namespace {

using testing::HasSubstr;

TEST(Estimate, ForeseesWhatTheEmulatorCounts) {
    for (const char* array : {"npu1", "npu2"}) {
        const GemmLayout layout = *gemm_layout({.m = 500, .k = 250, .n = 600, .array = array});
        const Design design = *gemm_i8(layout);
        const Result<Activity> foreseen = foresee(design, gemm_samples(layout, 500));
        ASSERT_TRUE(foreseen) << foreseen.error().message;
        std::vector<std::byte> x(static_cast<size_t>(layout.x_bytes()));
        std::vector<std::byte> w(static_cast<size_t>(layout.w_bytes()));
        std::vector<std::byte> y(static_cast<size_t>(layout.y_bytes()));
        const std::vector<int8_t> values(static_cast<size_t>(500 * 250));
        const std::vector<float> scales(500);
        pack_x(layout, {.values = values, .scales = scales, .columns = 250}, x);
        const std::array<std::span<std::byte>, 3> arguments{x, w, y};
        const Result<Activity> counted = Emulator::make(design)->run(arguments);
        ASSERT_TRUE(counted) << counted.error().message;
        EXPECT_EQ(*foreseen, *counted);
    }
}

TEST(Estimate, IsTheLongestPartWithItsEndsAndTheDispatch) {
    Activity activity;
    activity.tiles = {{.tile = {0, 2}, .calls = 1, .cycles = 3'200'000, .counts = {.macs = 409'600'000}},
                      {.tile = {0, 3}, .calls = 1, .cycles = 1'600'000, .counts = {}}};
    activity.host = {{.fifo = "in", .shim = {0, 0}, .to_array = true, .object_bytes = 6900, .size_bytes = 6'900'000}};
    const Array& npu1 = *find_array("npu1");
    const Estimate made = estimate(activity, npu1);
    EXPECT_NEAR(made.compute_s, 2e-3, 1e-9);
    EXPECT_NEAR(made.ddr_s, 1e-3, 1e-9);
    EXPECT_NEAR(made.ends_s, 1e-6 + 6900 / 6.4e9, 1e-9);
    EXPECT_EQ(made.bound(), Bound::compute);
    EXPECT_NEAR(made.seconds(), 2e-3 + 40e-6 + made.ends_s, 1e-9);
    EXPECT_NEAR(estimate(activity, npu1, {.clock_mhz = 800, .batched = false}).seconds(), 4e-3 + 120e-6, 1e-5);
    EXPECT_NEAR(made.utilization, 409.6e6 / (made.seconds() * 1.6e9 * 256 * 16), 1e-6);

    activity.host.assign(6, activity.host[0]);
    for (HostActivity& channel : activity.host) channel.size_bytes = 13'500'000;
    const Estimate shared = estimate(activity, npu1);
    EXPECT_EQ(shared.bound(), Bound::ddr);
    EXPECT_NEAR(shared.ddr_s, 6 * 13.5e6 / 27e9, 1e-9);  // together; each alone would take 1.96 ms
}

// Every shape of a 27B model's products is one that the silicon takes.
TEST(Gemm, PassesTheCheckInTheShapesOfModels) {
    for (const char* array : {"npu1", "npu2"}) {
        for (const int64_t m : {1, 64, 1024}) {
            for (const auto& [k, n] : {std::pair<int64_t, int64_t>{5376, 4096},
                                       {4096, 5376},
                                       {5376, 21504},
                                       {21504, 5376},
                                       {64, 64},
                                       {5376, 262144},
                                       {2048, 16384}}) {
                const GemmLayout layout = *gemm_layout({.m = m, .k = k, .n = n, .array = array});
                const Status status = check(*gemm_i8(layout));
                EXPECT_TRUE(status) << status.error().message;
            }
        }
    }
}

class EmulatorRuntimeTest : public testing::Test {
  protected:
    std::shared_ptr<Buffer> buffer(Runtime& runtime, int64_t size_bytes) {
        const auto size = (static_cast<size_t>(size_bytes) + 4095) / 4096 * 4096;
        auto* bytes = static_cast<std::byte*>(std::aligned_alloc(4096, size));
        std::fill_n(bytes, size, std::byte{1});
        std::shared_ptr<void> keeper(bytes, [](void* memory) { std::free(memory); });
        return *runtime.import_memory({bytes, size}, {.keeper = keeper});
    }
};

// A product of zeros: nothing but the headers of x is set.
struct SmallProduct {
    GemmLayout layout = *gemm_layout({.m = 32, .k = 64, .n = 64});
    std::unique_ptr<Runtime> runtime;
    std::unique_ptr<LoadedDesign> design;
    std::shared_ptr<Buffer> x, w, y;
    std::array<Buffer*, 3> arguments{};

    template <typename MakeBuffer>
    SmallProduct(EmulatorOptions options, const MakeBuffer& buffer)
        : runtime(*make_emulator_runtime(std::move(options))) {
        design = *runtime->load(*gemm_i8(layout));
        x = buffer(*runtime, layout.x_bytes());
        w = buffer(*runtime, layout.w_bytes());
        y = buffer(*runtime, layout.y_bytes());
        pack_x(layout, {.values = {}, .scales = {}, .columns = 64},
               x->bytes().first(static_cast<size_t>(layout.x_bytes())));
        arguments = {x.get(), w.get(), y.get()};
    }
};

TEST_F(EmulatorRuntimeTest, RunsADesignInPlaceAndSaysThatItsTimeIsAnEstimate) {
    SmallProduct product({}, [&](Runtime& runtime, int64_t bytes) { return buffer(runtime, bytes); });
    EXPECT_EQ(product.runtime->name(), "npu emulator");
    const Result<RunReport> report = product.design->run(product.arguments);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->estimated);
    EXPECT_GT(report->seconds, 120e-6);

    const std::array<Launch, 2> launches{Launch{product.design.get(), product.arguments},
                                         Launch{product.design.get(), product.arguments}};
    const Result<RunReport> both = product.runtime->run_all(launches, kRunTimeout);
    ASSERT_TRUE(both) << both.error().message;
    EXPECT_NEAR(both->seconds, 2 * (report->seconds - 80e-6), 1e-9);
}

// The device does not see the host's caches: who writes has to say so.
TEST_F(EmulatorRuntimeTest, NoticesWhatWasWrittenAndNotMarked) {
    SmallProduct product({}, [&](Runtime& runtime, int64_t bytes) { return buffer(runtime, bytes); });
    ASSERT_TRUE(product.design->run(product.arguments));
    const std::span<std::byte> w = product.w->bytes();
    std::fill(w.begin(), w.end(), std::byte{2});
    const Result<RunReport> report = product.design->run(product.arguments);
    ASSERT_FALSE(report);
    EXPECT_THAT(report.error().message, HasSubstr("without marking it"));
    product.w->mark_written();
    EXPECT_TRUE(product.design->run(product.arguments));
}

TEST(Runtime, GivesUpBeforeTheDriverDoes) {
    EXPECT_LT(kRunTimeout, std::chrono::seconds(2));
}

TEST_F(EmulatorRuntimeTest, VanishesWhenTold) {
    SmallProduct product({.array = "npu1", .clock_mhz = 0, .fails_after = 1},
                         [&](Runtime& runtime, int64_t bytes) { return buffer(runtime, bytes); });
    EXPECT_TRUE(product.design->run(product.arguments));
    for (int i = 0; i < 2; ++i) {
        const Result<RunReport> report = product.design->run(product.arguments);
        ASSERT_FALSE(report);
        EXPECT_THAT(report.error().message, HasSubstr("the NPU is gone"));
    }
}

TEST_F(EmulatorRuntimeTest, TakesWholePagesAndDesignsOfItsArray) {
    const std::unique_ptr<Runtime> runtime = *make_emulator_runtime();
    const auto whole = buffer(*runtime, 8192);
    EXPECT_FALSE(runtime->import_memory(whole->bytes().subspan(16, 4096), {}));
    EXPECT_FALSE(runtime->import_memory(whole->bytes().first(100), {}));
    EXPECT_FALSE(runtime->load(*gemm_i8(*gemm_layout({.m = 32, .k = 64, .n = 64, .array = "npu2"}))));
    EXPECT_FALSE(make_emulator_runtime({.array = "npu9"}));
}

}  // namespace
}  // namespace tandem::npu
