// Loading as it is measured: the files of a model, and that every part of a load takes its time.
#include "measure/load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "cpu/backend.h"

namespace tandem::measure {
namespace {

TEST(WeightFiles, AreThoseOfTheModelAlone) {
    std::string pattern = std::filesystem::temp_directory_path() / "tandem-load-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    const std::filesystem::path folder = pattern;
    for (const char* const name :
         {"a.gguf", "b-00001-of-00002.gguf", "b-00002-of-00002.gguf", "c.safetensors", "config.json"})
        std::ofstream(folder / name) << "x";
    const auto names = [&](const std::filesystem::path& model) {
        std::vector<std::string> found;
        for (const auto& file : weight_files(model)) found.push_back(file.filename().string());
        return found;
    };
    EXPECT_EQ(names(folder / "a.gguf"), std::vector<std::string>{"a.gguf"});
    EXPECT_EQ(names(folder / "b-00002-of-00002.gguf"),
              (std::vector<std::string>{"b-00001-of-00002.gguf", "b-00002-of-00002.gguf"}));
    EXPECT_EQ(names(folder), std::vector<std::string>{"c.safetensors"});
    EXPECT_FALSE(forget_files({folder / "none"}));
    std::filesystem::remove_all(folder);
}

TEST(MeasureLoad, TimesTheWayToTheFirstToken) {
    double most = 0;
    const LoadReport report =
        measure_load({.source = TANDEM_SOURCE_DIR "/assets/tales-f16.gguf",
                      .open_device = [] { return cpu::make_backend({.threads = 1}); },
                      .repetitions = 1,
                      .context = 64,
                      .progress = [&](double done, double all) { most = std::max(most, done / all); }})
            .value();
    EXPECT_EQ(report.model, "tales-f16.gguf");
    EXPECT_DOUBLE_EQ(most, 1);
    ASSERT_EQ(report.warm.size(), 1U);
    EXPECT_GT(report.warm[0].weights_s, 0);
    EXPECT_GT(report.warm[0].open_s, 0);
    EXPECT_GT(report.warm[0].ready_s, report.warm[0].open_s);
    EXPECT_LE(report.cold.size(), 1U);  // none where the file lies in memory
    EXPECT_GT(LoadReport::weights_rate(report.weight_bytes, report.warm), 0);
}

}  // namespace
}  // namespace tandem::measure
