// Energy by the counters and sensors of a made-up sysfs.
#include "measure/energy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace tandem::measure {
namespace {

class Energy : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = std::filesystem::temp_directory_path() / "tandem-energy-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    void set(const std::string& file, const std::string& content) {
        std::filesystem::create_directories((root_ / file).parent_path());
        std::ofstream(root_ / file) << content << "\n";
    }
    void add_package() {
        set("class/powercap/intel-rapl:0/name", "package-0");
        set("class/powercap/intel-rapl:0/max_energy_range_uj", "10000000");
        set("class/powercap/intel-rapl:0/energy_uj", "9000000");
        set("class/powercap/intel-rapl:0:0/name", "core");  // a part of the package
        set("class/powercap/intel-rapl:0:0/energy_uj", "1000000");
    }

    std::filesystem::path root_;
};

TEST_F(Energy, OfASystemThatTellsNothingIsNone) {
    set("class/powercap/intel-rapl:0/name", "package-0");  // without a counter that may be read
    set("class/drm/version", "drm");
    EnergyMeter meter(false, root_);
    EXPECT_TRUE(meter.empty());
    EnergySpan span(meter);
    EXPECT_TRUE(span.stop().empty());
}

TEST_F(Energy, OfACounterGoesOnWhenItBeginsAgain) {
    add_package();
    EnergyMeter meter(false, root_);
    meter.begin(0);
    set("class/powercap/intel-rapl:0/energy_uj", "9500000");
    meter.sample(1);
    set("class/powercap/intel-rapl:0/energy_uj", "500000");
    const std::vector<EnergyUse> uses = meter.end(2);
    ASSERT_EQ(uses.size(), 1U);
    EXPECT_EQ(uses[0].source, "package-0");
    EXPECT_NEAR(uses[0].joules, 1.5, 1e-9);
}

TEST_F(Energy, OfASensorIsPowerByTime) {
    set("class/drm/card1/device/hwmon/hwmon3/power1_average", "20000000");
    set("class/drm/card1-DP-1/device/hwmon/hwmon3/power1_average", "20000000");
    EnergyMeter meter(false, root_);
    meter.begin(10);
    set("class/drm/card1/device/hwmon/hwmon3/power1_average", "40000000");
    meter.sample(12);
    const std::vector<EnergyUse> uses = meter.end(13);
    ASSERT_EQ(uses.size(), 1U);
    EXPECT_NEAR(uses[0].joules, 30 * 2 + 40, 1e-9);
}

TEST_F(Energy, IsCountedOnce) {
    add_package();
    set("class/drm/card0/device/hwmon/hwmon1/power1_input", "10000000");
    set("class/power_supply/BAT0/type", "Battery");
    set("class/power_supply/BAT0/status", "Discharging");
    set("class/power_supply/BAT0/power_now", "50000000");
    const auto joules = [&](bool integrated) {
        EnergyMeter meter(integrated, root_);
        meter.begin(0);
        const std::vector<EnergyUse> uses = meter.end(2);
        EXPECT_EQ(uses.size(), 3U);
        return total_joules(uses);
    };
    EXPECT_NEAR(joules(true), 0, 1e-9) << "the package, which did not count on, has the GPU in it";
    EXPECT_NEAR(joules(false), 20, 1e-9);
}

}  // namespace
}  // namespace tandem::measure
