// What is foreseen against what the emulator counts, the cost model against published figures, and the Runtime.
#include "npu/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "npu/calibration.h"
#include "npu/check.h"
#include "npu/designs/gemm.h"
#include "npu/emulator.h"
#include "npu/emulator_runtime.h"

namespace tandem::npu {
namespace {

using testing::HasSubstr;

Result<Activity> run_on_zeros(const Design& design) {
    Emulator emulator = TRY(Emulator::make(design));
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::span<std::byte>> arguments;
    memory.reserve(design.sequence.arguments.size());
    arguments.reserve(design.sequence.arguments.size());
    for (const HostArgument& argument : design.sequence.arguments)
        memory.emplace_back(static_cast<size_t>(argument.type.size_bytes()));
    for (std::vector<std::byte>& bytes : memory) arguments.emplace_back(bytes);
    return emulator.run(arguments);
}

TEST(Estimate, ForeseesWhatTheEmulatorCounts) {
    for (const bool scaled : {true, false}) {
        for (const char* array : {"npu1", "npu2"}) {
            const GemmLayout layout = *gemm_layout({.m = 70, .k = 250, .n = 600, .array = array, .scaled = scaled});
            const Design design = *gemm_i8(layout);
            const Result<Activity> foreseen = foresee(design);
            ASSERT_TRUE(foreseen) << foreseen.error().message;
            const Result<Activity> counted = run_on_zeros(design);
            ASSERT_TRUE(counted) << counted.error().message;
            EXPECT_EQ(*foreseen, *counted);
        }
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

TEST(Calibration, ReproducesPublishedFiguresWithinSixPercent) {
    const Result<std::vector<CalibrationRow>> rows = calibration();
    ASSERT_TRUE(rows) << rows.error().message;
    for (const CalibrationRow& row : *rows) EXPECT_LT(std::abs(row.error()), 0.06) << row.what << ": " << row.modelled;
}

std::string page() {
    std::ifstream file(TANDEM_SOURCE_DIR "/docs/npu.md");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST(Calibration, TheTableOfTheDocsIsTheModels) {
    EXPECT_THAT(page(), HasSubstr(calibration_table(*calibration())));
}

// "| RMS norm | 1.3 ms | ..." of the page is still about what the model says.
TEST(Calibration, TheTimesOfTheDocsAreTheModels) {
    const std::string text = page();
    const Result<std::string> block = block_table();
    ASSERT_TRUE(block) << block.error().message;
    std::istringstream lines(*block);
    std::string line;
    std::getline(lines, line);
    std::getline(lines, line);
    while (std::getline(lines, line)) {
        const size_t part = line.find(" | ") + 3;
        const size_t found = text.find(line.substr(0, part));
        ASSERT_NE(found, std::string::npos) << line;
        const double modelled = std::stod(line.substr(part));
        EXPECT_NEAR(std::stod(text.substr(found + part)), modelled, 0.1 * modelled + 0.05) << line;
    }
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
        return *runtime.import_memory({bytes, size}, {.constant = false, .keeper = keeper});
    }
};

TEST_F(EmulatorRuntimeTest, RunsADesignInPlaceAndSaysThatItsTimeIsAnEstimate) {
    const std::unique_ptr<Runtime> runtime = *make_emulator_runtime();
    EXPECT_EQ(runtime->name(), "npu emulator");
    const GemmLayout layout = *gemm_layout({.m = 32, .k = 64, .n = 64, .scaled = false});
    const std::unique_ptr<LoadedDesign> design = *runtime->load(*gemm_i8(layout));
    const auto x = buffer(*runtime, layout.x_bytes());
    const auto w = buffer(*runtime, layout.w_bytes());
    const auto y = buffer(*runtime, layout.y_bytes());
    const std::array<Buffer*, 3> arguments{x.get(), w.get(), y.get()};
    const Result<RunReport> report = design->run(arguments);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->estimated);
    EXPECT_GT(report->seconds, 120e-6);
    int32_t first = 0;
    std::memcpy(&first, y->bytes().data(), sizeof first);
    EXPECT_EQ(first, 64);

    const std::array<Launch, 2> launches{Launch{design.get(), arguments}, Launch{design.get(), arguments}};
    const Result<RunReport> both = runtime->run_all(launches, kRunTimeout);
    ASSERT_TRUE(both) << both.error().message;
    EXPECT_NEAR(both->seconds, 2 * (report->seconds - 80e-6), 1e-9);
}

TEST_F(EmulatorRuntimeTest, VanishesWhenTold) {
    const std::unique_ptr<Runtime> runtime =
        *make_emulator_runtime({.array = "npu1", .clock_mhz = 0, .fails_after = 1});
    const GemmLayout layout = *gemm_layout({.m = 32, .k = 64, .n = 64});
    const std::unique_ptr<LoadedDesign> design = *runtime->load(*gemm_i8(layout));
    const auto x = buffer(*runtime, layout.x_bytes());
    const auto w = buffer(*runtime, layout.w_bytes());
    const auto y = buffer(*runtime, layout.y_bytes());
    const std::array<Buffer*, 3> arguments{x.get(), w.get(), y.get()};
    EXPECT_TRUE(design->run(arguments));
    for (int i = 0; i < 2; ++i) {
        const Result<RunReport> report = design->run(arguments);
        ASSERT_FALSE(report);
        EXPECT_THAT(report.error().message, HasSubstr("the NPU is gone"));
    }
}

TEST_F(EmulatorRuntimeTest, TakesWholePagesAndDesignsOfItsArray) {
    const std::unique_ptr<Runtime> runtime = *make_emulator_runtime();
    const auto whole = buffer(*runtime, 8192);
    EXPECT_FALSE(runtime->import_memory(whole->bytes().subspan(16, 4096), {}));
    EXPECT_FALSE(runtime->import_memory(whole->bytes().first(100), {}));
    const Result<std::shared_ptr<Buffer>> part = runtime->part(whole, 4096, 4096);
    ASSERT_TRUE(part);
    EXPECT_EQ((*part)->bytes().data(), whole->bytes().data() + 4096);
    EXPECT_FALSE(runtime->part(whole, 4096, 4097));
    EXPECT_FALSE(runtime->load(*gemm_i8(*gemm_layout({.m = 32, .k = 64, .n = 64, .array = "npu2"}))));
    EXPECT_FALSE(make_emulator_runtime({.array = "npu9"}));
}

}  // namespace
}  // namespace tandem::npu
