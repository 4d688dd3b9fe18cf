#include "engine/generate.h"

#include <gtest/gtest.h>

#include "cpu/backend.h"
#include "engine/bundle.h"

namespace tandem::engine {
namespace {

// The embedded model on the CPU, greedy unless a test asks for something else.
class Generate : public testing::Test {
  protected:
    std::unique_ptr<Engine> engine(int context = 0, int rows = 256) {
        auto opened = Engine::open(bundle_.model, bundle_.tokenizer, *backend_,
                                   {.context = context, .sequences = 1, .rows = rows, .kv_dtype = {}});
        EXPECT_TRUE(opened) << opened.error().message;
        return std::move(*opened);
    }

    Request greedy(std::string_view text, int max_tokens) const {
        Request request;
        request.prompt = bundle_.tokenizer.encode(text);
        request.max_tokens = max_tokens;
        return request;
    }

    static Generation run(Engine& in, const Request& request, const GenerateOptions& options = {}) {
        auto result = generate(in, request, options);
        EXPECT_TRUE(result) << result.error().message;
        return std::move(*result);
    }

    Bundle bundle_ = open_bundle("").value();
    std::unique_ptr<device::Backend> backend_ = cpu::make_backend({.threads = 1}).value();
};

constexpr const char* kStory = "Once upon a time there was a fox who";

TEST_F(Generate, ThePiecesMakeUpTheText) {
    auto request = greedy(kStory, 24);
    std::string pieces;
    const Generation result = run(*engine(), request, {.on_text = [&](std::string_view piece) { pieces += piece; }});
    EXPECT_EQ(result.tokens.size(), 24U);
    EXPECT_EQ(result.reason, FinishReason::length);
    EXPECT_EQ(pieces, result.text);
    EXPECT_EQ(result.prompt_tokens, std::ssize(request.prompt));
    EXPECT_EQ(result.cached_tokens, 0);
}

TEST_F(Generate, TheTextIsTheSameInChunksAndFromTheCache) {
    const auto request = greedy(kStory, 16);
    const auto whole = engine();
    const Generation expected = run(*whole, request);
    EXPECT_EQ(run(*engine(0, 3), request).tokens, expected.tokens);

    const Generation again = run(*whole, request);
    EXPECT_EQ(again.tokens, expected.tokens);
    EXPECT_EQ(again.cached_tokens, again.prompt_tokens - 1);  // the last is run for its logits

    auto other = greedy("Once upon a time there was a bear who", 16);
    EXPECT_EQ(run(*whole, other).tokens, run(*engine(), other).tokens);  // only what is the same is taken over
    EXPECT_EQ(run(*whole, request).tokens, expected.tokens);
}

TEST_F(Generate, EndsBeforeAStopStringWhichIsNotShown) {
    const Generation whole = run(*engine(), greedy(kStory, 24));
    const std::string stop = whole.text.substr(whole.text.size() / 2, 5);
    auto request = greedy(kStory, 24);
    request.stop = {stop};
    const Generation stopped = run(*engine(), request);
    EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(stop)));
    EXPECT_EQ(stopped.reason, FinishReason::stop);
    EXPECT_LT(stopped.tokens.size(), whole.tokens.size());
}

TEST_F(Generate, EndsWithTheModelUnlessToldToGoOn) {
    auto request = greedy("<start_of_turn>user\nWhat is 7 plus 5?<end_of_turn>\n<start_of_turn>model\n", 60);
    const Generation answer = run(*engine(), request);
    EXPECT_EQ(answer.reason, FinishReason::stop);
    EXPECT_LT(answer.tokens.size(), 60U);
    EXPECT_NE(answer.text.find("12"), std::string::npos) << answer.text;
    request.ignore_end = true;
    EXPECT_EQ(run(*engine(), request).tokens.size(), 60U);
}

TEST_F(Generate, EndsWhereTheContextIsFull) {
    auto request = greedy(kStory, 0);
    request.ignore_end = true;
    const int context = static_cast<int>(request.prompt.size()) + 5;
    const Generation result = run(*engine(context), request);
    EXPECT_EQ(result.reason, FinishReason::length);
    EXPECT_EQ(result.tokens.size(), 6U);  // the last one needs no place: nothing follows it

    const auto small = engine(4);
    const auto refused = generate(*small, request);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("do not fit into a context of 4"), std::string::npos);
}

TEST_F(Generate, CancellingKeepsWhatWasSaid) {
    std::atomic<bool> cancelled = false;
    auto request = greedy(kStory, 24);
    std::string pieces;
    const auto watch = [&](std::string_view piece) {
        pieces += piece;
        cancelled = pieces.size() > 10;
    };
    const Generation result = run(*engine(), request, {.on_text = watch, .cancelled = &cancelled});
    EXPECT_EQ(result.reason, FinishReason::cancelled);
    EXPECT_GT(result.text.size(), 10U);
    EXPECT_LT(result.tokens.size(), 24U);
    EXPECT_EQ(pieces, result.text);
}

TEST_F(Generate, TheSameSeedGivesTheSameText) {
    auto request = greedy(kStory, 16);
    request.sampling.temperature = 1;
    request.sampling.seed = 7;
    const auto first = run(*engine(), request).tokens;
    EXPECT_EQ(run(*engine(), request).tokens, first);
    request.sampling.seed = 8;
    EXPECT_NE(run(*engine(), request).tokens, first);
}

}  // namespace
}  // namespace tandem::engine
