// The search with made-up times.
#include "vulkan/tune.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "vulkan/shared_gpu.h"
#include "vulkan/tuning_file.h"

namespace tandem::vulkan {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class Tune : public testing::Test {
  protected:
    Tune() {
        info_.name = "Example GPU";
        info_.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
        info_.capabilities.subgroup = info_.capabilities.min_subgroup = info_.capabilities.max_subgroup = 32;
        info_.capabilities.shared_bytes = 48 << 10;
        info_.capabilities.max_workgroup = 1024;
        tuning_ = default_tuning(info_);
        tuning_.gemv.resize(1);
        tuning_.gemv.front().lanes = 256;
        tuning_.gemv.front().rows = 1;
        std::filesystem::remove_all(directory_);
    }
    ~Tune() override { std::filesystem::remove_all(directory_); }

    // One row of output with 512 lanes and 4 rows is fastest; nothing else changes the time.
    double seconds() const {
        const GemvTuning& gemv = tuning_.gemv.front();
        return 1.0 + (gemv.lanes == 512 ? 0.0 : 0.5) + (gemv.rows == 4 ? 0.0 : 0.25);
    }

    // Stops after so many measurements.
    Result<std::filesystem::path> run(int measurements) {
        const auto measure = [this]() -> Result<double> {
            ++measured_;
            return seconds();
        };
        return tune(tuning_, info_, directory_,
                    {.decode_seconds = [=](int, int) { return measure(); },
                     .prompt_seconds = [=](int) { return measure(); },
                     .note = [this](std::string_view line) { notes_.emplace_back(line); },
                     .stopped = [this, measurements] { return measured_ >= measurements; }});
    }

    Tuning kept(const std::filesystem::path& file) const {
        return tuning_from_json(read_text_file(file).value(), info_).value();
    }

    DeviceInfo info_;
    Tuning tuning_;
    std::filesystem::path directory_ = std::filesystem::path(testing::TempDir()) / "tandem_tune";
    int measured_ = 0;
    std::vector<std::string> notes_;
};

TEST_F(Tune, FindsTheFastestAndTellsHowFarItIs) {
    const auto file = run(1 << 20);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(tuning_.gemv.front().lanes, 512U);
    EXPECT_EQ(tuning_.gemv.front().rows, 4U);
    EXPECT_EQ(kept(*file).gemv.front().lanes, 512U);
    EXPECT_EQ(kept(*file).gemv.front().rows, 4U);
    ASSERT_GT(notes_.size(), 10U);
    const std::string total = std::to_string(notes_.size());
    EXPECT_THAT(notes_.front(), HasSubstr("[1 of " + total + ", about "));
    EXPECT_THAT(notes_.front(), MatchesRegex(".* about [0-9]+:[0-9][0-9] left.*lanes 512: 1250.000 ms, 1750.000 ms.*"));
    EXPECT_THAT(notes_.back(), HasSubstr("[" + total + " of " + total + ", about 0:00 left]"));
}

// The first choice is of lanes: as they are, then 128 and 512.
TEST_F(Tune, KeepsTheBestSoFarWhenItIsStopped) {
    const auto file = run(3);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(measured_, 3);
    EXPECT_EQ(notes_.size(), 1U);
    EXPECT_EQ(tuning_.gemv.front().lanes, 512U);
    EXPECT_EQ(kept(*file).gemv.front().lanes, 512U);
    EXPECT_EQ(kept(*file).gemv.front().rows, 1U);
}

TEST_F(Tune, KeepsTheBestSoFarWhenAMeasurementFails) {
    const Status failed = [&]() -> Status {
        TRY(tune(tuning_, info_, directory_,
                 {.decode_seconds = [&](int, int) -> Result<double> {
                      if (++measured_ > 5) return fail("the device was lost");
                      return seconds();
                  },
                  .prompt_seconds = [&](int) -> Result<double> { return seconds(); },
                  .note = [](std::string_view) {},
                  .stopped = [] { return false; }}));
        return Ok{};
    }();
    ASSERT_FALSE(failed);
    EXPECT_EQ(kept(directory_ / tuning_file_name(info_)).gemv.front().lanes, 512U);
}

// It is told the GPU, and not a backend that may be one of several devices together.
TEST_F(Tune, ChangesTheGpuThatBackendsShare) {
    const std::shared_ptr<SharedGpu> gpu = open_gpu({}).value();
    // As if more lanes in the gated product were always faster, and nothing else mattered.
    const auto seconds = [&]() -> Result<double> { return 1.0 / gpu->tuning().gated.lanes; };
    const auto file = tune(*gpu, directory_,
                           {.decode_seconds = [&](int, int) { return seconds(); },
                            .prompt_seconds = [&](int) { return seconds(); },
                            .note = [](std::string_view) {},
                            .stopped = [] { return false; }});
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_EQ(open_gpu({.tuning = directory_}).value()->tuning().gated.lanes, gpu->tuning().gated.lanes);
}

}  // namespace
}  // namespace tandem::vulkan
