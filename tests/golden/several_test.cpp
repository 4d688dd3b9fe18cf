// Every golden model split over several devices: over two and three that compute alike no bit changes; over a GPU and
// the CPU logits and the greedy continuation are as an independent implementation has them.
#include "plan/several.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cpu/backend.h"
#include "golden/model_files.h"
#include "golden/relative_error.h"
#include "golden/run_program.h"
#include "plan/parts.h"
#ifdef TANDEM_VULKAN
#include "vulkan/backend.h"
#include "vulkan/shared_gpu.h"
#endif

namespace tandem::golden {
namespace {

constexpr int kPromptRows = 24;
constexpr int kDrawn = 5;
constexpr int kMicroRows = 7;
constexpr double kMostOff = 2e-4;  // of the largest logit

std::vector<std::string> golden_models() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(golden_dir("")))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

std::unique_ptr<device::Backend> plain_cpu() {
    return cpu::make_backend({.threads = 1, .reference = true}).value();
}

// Begins of the second and later stages; empty: the model has not so many layers that can be apart.
std::string cuts_of(const models::Model& model, size_t stages) {
    const plan::Parts parts = plan::parts_of(model.program).value();
    std::string cuts;
    if (parts.units.size() < stages) return cuts;
    for (size_t i = 1; i < stages; ++i)
        cuts += fmt::format("{}{}", cuts.empty() ? "" : ",", parts.units[i * parts.units.size() / stages]);
    return cuts;
}

struct Drawing {
    std::vector<float> logits;
    std::vector<int32_t> drawn;
};

// A prompt in two chunks, then tokens drawn one by one and several at once.
Drawing run_on(device::Backend& device, const models::Model& model) {
    Drawing run;
    auto sequence = Sequence::start(device, model, kPromptRows + 2 * kDrawn);
    EXPECT_TRUE(sequence) << sequence.error().message;
    if (!sequence) return run;
    std::vector<int32_t> tokens;
    for (int i = 0; i < kPromptRows; ++i) tokens.push_back((i * 37 + 11) % static_cast<int>(model.vocab));
    for (const auto& chunk : {std::span(tokens).first(16), std::span(tokens).subspan(16)}) {
        auto rows = sequence->feed(chunk);
        EXPECT_TRUE(rows) << rows.error().message;
        if (rows) run.logits.insert(run.logits.end(), rows->begin(), rows->end());
    }
    for (int i = 0; i < kDrawn; ++i) run.drawn.push_back(sequence->draw(sequence->next(), 1).value().front());
    const int steps = std::min(kDrawn, sequence->max_steps());
    for (int left = kDrawn; left > 0; left -= steps) {
        const std::vector<int32_t> more = sequence->draw(run.drawn.back(), std::min(left, steps)).value();
        run.drawn.insert(run.drawn.end(), more.begin(), more.end());
    }
    return run;
}

class Several : public testing::TestWithParam<std::string> {};

TEST_P(Several, EqualDevicesGiveEveryBitThatOneGives) {
    const auto checkpoint = format::Checkpoint::open(golden_dir(GetParam())).value();
    const models::Model model = models::load(checkpoint).value();
    const std::unique_ptr<device::Backend> alone = plain_cpu();
    const Drawing expected = run_on(*alone, model);
    for (const size_t stages : {size_t{2}, size_t{3}}) {
        const std::string cuts = cuts_of(model, stages);
        ASSERT_TRUE(stages == 3 || !cuts.empty());
        if (cuts.empty()) continue;
        std::vector<std::unique_ptr<device::Backend>> devices;
        for (size_t i = 0; i < stages; ++i) devices.push_back(plain_cpu());
        const auto together = plan::make_several(std::move(devices), {.cuts = cuts, .micro_rows = kMicroRows});
        const Drawing found = run_on(*together, model);
        EXPECT_EQ(found.logits, expected.logits) << "layers begin at " << cuts;
        EXPECT_EQ(found.drawn, expected.drawn) << "layers begin at " << cuts;
    }
}

#ifdef TANDEM_VULKAN
TEST_P(Several, AGpuAndTheCpuGiveWhatIsExpected) {
    static const std::shared_ptr<vulkan::SharedGpu> gpu = vulkan::open_gpu({.exact = true, .validation = true}).value();
    const auto checkpoint = format::Checkpoint::open(golden_dir(GetParam())).value();
    const models::Model model = models::load(checkpoint).value();
    const auto json = nlohmann::json::parse(std::ifstream(golden_dir(GetParam()) / "expected.json"));
    const std::vector<int32_t> tokens = json["tokens"];
    const std::string bytes = read_text_file(golden_dir(GetParam()) / "logits.f32").value();
    std::vector<float> logits(bytes.size() / sizeof(float));
    std::memcpy(logits.data(), bytes.data(), bytes.size());
    std::vector<std::unique_ptr<device::Backend>> devices;
    devices.push_back(vulkan::make_backend(gpu).value());
    devices.push_back(cpu::make_backend({.threads = 1}).value());
    const auto together = plan::make_several(std::move(devices), {.cuts = cuts_of(model, 2), .micro_rows = 24});
    auto sequence = Sequence::start(*together, model, static_cast<int>(tokens.size()));
    ASSERT_TRUE(sequence) << sequence.error().message;
    const auto found = sequence->feed(tokens);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_LT(relative_error(*found, logits), kMostOff);

    const std::vector<int32_t> prompt = json["greedy_prompt"];
    const std::vector<int32_t> greedy = json["greedy"];
    auto drawing = Sequence::start(*together, model, static_cast<int>(prompt.size() + greedy.size()));
    ASSERT_TRUE(drawing && drawing->feed(prompt));
    std::vector<int32_t> drawn{drawing->next()};
    while (drawn.size() < greedy.size()) {
        const int left = static_cast<int>(greedy.size() - drawn.size());
        const std::vector<int32_t> more = drawing->draw(drawn.back(), std::min(left, drawing->max_steps())).value();
        drawn.insert(drawn.end(), more.begin(), more.end());
    }
    EXPECT_EQ(drawn, greedy);
}
#endif

INSTANTIATE_TEST_SUITE_P(Families, Several, testing::ValuesIn(golden_models()), [](const auto& each) {
    std::string name = each.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

}  // namespace
}  // namespace tandem::golden
