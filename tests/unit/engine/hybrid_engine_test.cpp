// The embedded model with an emulated NPU beside the CPU: what it says, how surprised it is, and what happens when the
// NPU vanishes in the middle of a request.
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "measure/perplexity.h"
#include "measure/scorer.h"
#include "npu/backend.h"
#include "npu/emulator_runtime.h"
#include "plan/hybrid.h"
#include "unit/engine/engine_fixture.h"

namespace tandem::engine {
namespace {

// With one right answer each: where many words are as likely, rounding decides, with and without an NPU.
constexpr const char* kQuestions[] = {
    "What do people use a telescope for?",
    "Can you count to 6?",
    "How does a horse sound?",
    "What is a drum for?",
    "What is the opposite of the word sweet?",
    "Where do spiders live?",
    "What is a baby sheep called?",
    "What color is a flamingo?",
    "Tell me the plural of camera.",
    "Please count from 1 to 4.",
    "What do squirrels gather?",
    "What do cows give us?",
    "What color is a pumpkin?",
    "Which word rhymes with bed?",
    "What does a pig say?",
    "What do you call a baby elephant?",
    "What is a goat good at?",
    "What rhymes with snow?",
    "What is a baby goat called?",
    "What is the capital of Spain?",
};

constexpr const char* kTale =
    "In the mine there lived a quick fox. One day, a strong dwarf called Bruno had to go away for seven "
    "days. \"Will you look after my button?\" asked Bruno. \"You must not lose it.\" \"I promise,\" said the "
    "fox. It was a tiny button, and it shone like a little moon. On the first day, the others came and "
    "called, \"Come and play with us!\" \"I cannot,\" said the fox. \"I gave my word.\" After seven days, Bruno "
    "came back and found the button just as before. \"I knew that I could trust you,\" said Bruno.";

// Under a sanitizer the emulator takes minutes for all of them.
#ifdef __SANITIZE_ADDRESS__
constexpr std::span kAsked(kQuestions, 4);
#else
constexpr std::span kAsked(kQuestions);
#endif

class HybridEngine : public EngineTest {
  protected:
    struct Setup {
        plan::Policy policy = plan::Policy::npu_prefill;
        int64_t fails_after = -1;
        bool strict = false;
    };

    std::unique_ptr<device::Backend> hybrid(const Setup& setup) {
        auto runtime = npu::make_emulator_runtime({.fails_after = setup.fails_after}).value();
        return plan::make_hybrid(
            tandem::cpu::make_backend({.threads = 1}).value(),
            npu::make_backend(std::move(runtime), *npu::find_array("npu1"),
                              tandem::cpu::make_backend({.threads = 1}).value()),
            {.policy = setup.policy, .npu_layers = 12, .strict = setup.strict, .note = [this](std::string_view line) {
                 notes_.emplace_back(line);
             }});
    }

    static std::unique_ptr<Engine> open_on(device::Backend& device) {
        auto opened = Engine::open(bundle().model, bundle().tokenizer, device, {.context = 256, .sequences = 4});
        EXPECT_TRUE(opened) << opened.error().message;
        return std::move(*opened);
    }

    static Request question(const char* text) {
        text::PromptInput input;
        input.messages.push_back({{"role", "user"}, {"content", text}});
        Request request;
        request.prompt = bundle().prompts.chat(input, {.context = 0, .vocab = bundle().model.vocab})->tokens;
        request.max_tokens = 24;
        return request;
    }

    static double perplexity_on(device::Backend& device) {
        const auto scorer = measure::Scorer::open(bundle().model, device, {.context = 128}).value();
        const std::vector<TokenId> tokens = bundle().tokenizer.encode(kTale, {.add_special = false});
        return measure::measure_perplexity(*scorer, tokens, bundle().tokenizer.bos(), {}).value().perplexity();
    }

    std::vector<std::string> notes_;
};

TEST_F(HybridEngine, SaysTheSameThroughEveryPlacement) {
    const std::unique_ptr<Engine> alone = open_on(cpu());
    std::vector<std::string> expected;
    expected.reserve(kAsked.size());
    for (const char* text : kAsked) expected.push_back(answer(*alone, question(text)).text);
    for (const plan::Policy policy : {plan::Policy::npu_attention, plan::Policy::npu_prefill}) {
        const std::unique_ptr<device::Backend> device = hybrid({.policy = policy});
        const std::unique_ptr<Engine> engine = open_on(*device);
        size_t same = 0;
        for (size_t i = 0; i < kAsked.size(); ++i) {
            same += answer(*engine, question(kAsked[i])).text == expected[i] ? 1 : 0;
        }
        EXPECT_GE(same, 19 * kAsked.size() / 20) << name(policy);
        EXPECT_TRUE(notes_.empty()) << notes_.front();
    }
}

TEST_F(HybridEngine, IsAsSurprisedByATextWithinOnePercent) {
    const double expected = perplexity_on(cpu());
    for (const plan::Policy policy : {plan::Policy::npu_attention, plan::Policy::npu_prefill}) {
        const std::unique_ptr<device::Backend> device = hybrid({.policy = policy});
        EXPECT_NEAR(perplexity_on(*device), expected, 0.01 * expected) << name(policy);
    }
}

TEST_F(HybridEngine, AnNpuThatVanishesCostsNoRequest) {
    const std::unique_ptr<Engine> alone = open_on(cpu());
    const std::unique_ptr<device::Backend> device = hybrid({.fails_after = 20});  // in the middle of a layer
    const std::unique_ptr<Engine> engine = open_on(*device);
    EXPECT_EQ(device->describe().name, "cpu + npu emulator");
    std::vector<Ticket> tickets;
    tickets.reserve(3);
    for (int i = 0; i < 3; ++i) tickets.push_back(submit(*engine, question(kQuestions[i])));
    engine->run_until_idle();
    EXPECT_EQ(engine->audit(), "");
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(heard(tickets[static_cast<size_t>(i)]).text, answer(*alone, question(kQuestions[i])).text);
    }
    ASSERT_EQ(notes_.size(), 1U);
    EXPECT_NE(notes_[0].find("goes on alone"), std::string::npos);
    EXPECT_EQ(device->describe().name, "cpu (npu emulator failed)") << "as every report from now on";
}

// One that has its prompt behind it draws on the main device, and does not need the NPU any more.
TEST_F(HybridEngine, AStrictOneFailsThePromptAndNotTheOthers) {
    const std::unique_ptr<Engine> alone = open_on(cpu());
    const std::string expected = answer(*alone, question(kQuestions[1])).text;
    int64_t runs = 128;  // of the NPU, until the first prompt is through and the second is not
    for (bool through = false; !through; runs += 64) {
        const std::unique_ptr<device::Backend> device = hybrid({.fails_after = runs, .strict = true});
        const std::unique_ptr<Engine> engine = open_on(*device);
        const Ticket first = submit(*engine, question(kQuestions[1]));
        while (!heard(first).finish && heard(first).tokens.size() < 3) engine->step();
        through = !heard(first).ended_with(FinishReason::error);
        if (!through) continue;
        const Ticket second = submit(*engine, question(kQuestions[0]));
        engine->run_until_idle();
        EXPECT_TRUE(heard(second).ended_with(FinishReason::error));
        EXPECT_EQ(heard(first).text, expected);
        EXPECT_FALSE(heard(first).ended_with(FinishReason::error));
        EXPECT_EQ(engine->audit(), "");
    }
}

TEST_F(HybridEngine, AStrictOneFailsWhatWasUnderWayAndGoesOn) {
    const std::unique_ptr<device::Backend> device = hybrid({.fails_after = 20, .strict = true});
    const std::unique_ptr<Engine> engine = open_on(*device);
    const Heard first = answer(*engine, question(kQuestions[0]));
    EXPECT_TRUE(first.ended_with(FinishReason::error));
    EXPECT_TRUE(notes_.empty());
    const Heard second = answer(*engine, question(kQuestions[1]));
    EXPECT_TRUE(second.ended_with(FinishReason::error));
    EXPECT_EQ(engine->audit(), "");
}

}  // namespace
}  // namespace tandem::engine
