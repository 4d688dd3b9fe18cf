// Sequences of different lengths in one step: each gets what it gets alone, on every device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cpu/backend.h"
#include "golden/model_files.h"
#include "models/model.h"
#ifdef TANDEM_VULKAN
#include "vulkan/backend.h"
#endif

namespace tandem::golden {
namespace {

constexpr int kBlockTokens = 16;
constexpr int kBlocksEach = 3;
const std::vector<int> kLengths = {5, 17, 30};  // of the sequences before the step; windows are shorter than the last

// One cache for all sequences, the blocks of each apart, and an executable over it.
class Sequences {
  public:
    Sequences(device::Backend& backend, const models::Model& model) : groups_(model.program.cache_groups()) {
        const int blocks = kBlocksEach * static_cast<int>(kLengths.size());
        auto cache = backend.make_cache({.layers = model.program.caches,
                                         .dtype = DType::f16,
                                         .block_tokens = kBlockTokens,
                                         .blocks = std::vector<int>(static_cast<size_t>(groups_), blocks)});
        executable_ = backend
                          .compile(model.program, model.weights, std::move(cache).value(),
                                   {.limits = {.tokens = 64, .outputs = 8}, .results = {"logits"}})
                          .value();
        for (size_t s = 0; s < kLengths.size(); ++s) {
            std::vector<int32_t>& table = tables_.emplace_back(kBlocksEach);
            std::iota(table.begin(), table.end(), static_cast<int32_t>(s) * kBlocksEach);
            std::reverse(table.begin(), table.end());
        }
    }

    struct Rows {
        size_t sequence;
        int past;
        int rows;
    };
    // The logits after the last row of each.
    std::vector<float> run(const std::vector<Rows>& all) {
        device::Batch batch;
        for (const Rows& rows : all) {
            device::SequenceRows sequence{.first_row = static_cast<int32_t>(batch.tokens.size()),
                                          .rows = rows.rows,
                                          .past = rows.past,
                                          .blocks = {}};
            for (int g = 0; g < groups_; ++g) sequence.blocks[static_cast<size_t>(g)] = tables_[rows.sequence];
            for (int i = 0; i < rows.rows; ++i) {
                batch.positions.push_back(rows.past + i);
                batch.tokens.push_back(static_cast<int32_t>(7 + 13 * rows.sequence) + 3 * (rows.past + i));
            }
            batch.sequences.push_back(sequence);
            batch.output_rows.push_back(static_cast<int32_t>(batch.tokens.size()) - 1);
        }
        const Status done = device::run(*executable_, batch);
        EXPECT_TRUE(done) << done.error().message;
        const auto logits = device::result_as<float>(*executable_, 0);
        return {logits.begin(), logits.end()};
    }

  private:
    int groups_;
    std::unique_ptr<device::Executable> executable_;
    std::vector<std::vector<int32_t>> tables_;
};

void expect_the_same_alone(device::Backend& backend, double tolerance) {
    const auto checkpoint = format::Checkpoint::open(golden_dir("gemma3")).value();
    const models::Model model = models::load(checkpoint).value();
    Sequences together(backend, model);
    Sequences alone(backend, model);
    std::vector<Sequences::Rows> prompts;
    std::vector<Sequences::Rows> steps;
    for (size_t s = 0; s < kLengths.size(); ++s) {
        prompts.push_back({s, 0, kLengths[s]});
        steps.push_back({s, kLengths[s], 1});
        alone.run({prompts.back()});
    }
    together.run(prompts);
    // Then a step that mixes a decode with a prompt that goes on.
    std::vector<Sequences::Rows> mixed = {{0, kLengths[0] + 1, 1}, {1, kLengths[1] + 1, 4}, {2, kLengths[2] + 1, 1}};
    for (const auto& step : {steps, mixed}) {
        const std::vector<float> batch = together.run(step);
        const size_t vocab = batch.size() / step.size();
        for (size_t s = 0; s < step.size(); ++s) {
            const std::vector<float> one = alone.run({step[s]});
            ASSERT_EQ(one.size(), vocab);
            float largest = 0;
            float difference = 0;
            for (size_t i = 0; i < vocab; ++i) {
                largest = std::max(largest, std::abs(one[i]));
                difference = std::max(difference, std::abs(one[i] - batch[s * vocab + i]));
            }
            EXPECT_LE(difference, tolerance * largest) << "sequence " << s;
        }
    }
}

TEST(Batch, GivesEachSequenceOnTheCpuWhatItGetsAlone) {
    expect_the_same_alone(*cpu::make_backend({.threads = 2}).value(), 1e-5);
}

#ifdef TANDEM_VULKAN
TEST(Batch, GivesEachSequenceOnVulkanWhatItGetsAlone) {
    expect_the_same_alone(*vulkan::make_backend({.validation = true}).value(), 1e-3);
}
#endif

}  // namespace
}  // namespace tandem::golden
