#include "engine/speculate.h"

#include "unit/engine/engine_fixture.h"

namespace tandem::engine {
namespace {

TEST(LookUp, GoesOnAsTheTextDidBefore) {
    const std::vector<TokenId> text = {1, 2, 3, 4, 5, 6, 9, 2, 3, 4};
    EXPECT_EQ(look_up(text, 2), (std::vector<TokenId>{5, 6}));
    EXPECT_EQ(look_up(text, 10), (std::vector<TokenId>{5, 6, 9, 2, 3, 4}));
    EXPECT_TRUE(look_up(text, 0).empty());
    EXPECT_TRUE(look_up(std::vector<TokenId>{1, 2, 3}, 4).empty());
    EXPECT_TRUE(look_up({}, 4).empty());
    EXPECT_EQ(look_up(std::vector<TokenId>{7, 7, 7, 7}, 2), (std::vector<TokenId>{7})) << "the latest place";
}

TEST(Ambition, GrowsWithSuccessAndEndsWithFailure) {
    Ambition ambition;
    ambition.learn(3, 3);
    EXPECT_EQ(ambition.length(), 5);
    ambition.learn(5, 1);
    EXPECT_EQ(ambition.length(), 2);
    for (int i = 0; i < 40; ++i) ambition.learn(1, 0);
    EXPECT_EQ(ambition.length(), 0);
}

using Speculate = EngineTest;

constexpr const char* kRepetitiveStory = "The cat sat on the mat. The cat sat on the mat. The cat sat on";

TEST_F(Speculate, GuessesChangeNothingInTheText) {
    Request greedy = ask(kRepetitiveStory, 40);
    Request random = sampled(kRepetitiveStory, 40, 3);
    Request penalized = sampled(kRepetitiveStory, 40, 4);
    penalized.sampling.frequency_penalty = 0.4F;
    const auto plain = open();
    const auto guessing = open({.looks_up = true});
    const auto guided = open({.draft_model = &bundle().model});
    for (const Request& request : {greedy, random, penalized}) {
        const Heard expected = answer(*plain, request);
        for (Engine* engine : {guessing.get(), guided.get()}) {
            const Heard heard = answer(*engine, request);
            EXPECT_EQ(heard.tokens, expected.tokens);
            EXPECT_EQ(heard.text, expected.text);
        }
    }
    EXPECT_GT(guessing->stats().accepted_tokens, 0U);
    EXPECT_LT(guessing->stats().steps, plain->stats().steps);
    // The model guesses for itself, with the same random numbers: all but penalized draws are foretold.
    EXPECT_GT(guided->stats().accepted_tokens, 60U);
}

TEST_F(Speculate, ManyGuessTogether) {
    const std::vector<std::string> prompts = {kRepetitiveStory, "A fox", "One two three one two three one two",
                                              "Once upon a time"};
    const auto engine = open({.rows = 24, .looks_up = true});
    const auto guided = open({.rows = 24, .cache_tokens = 256, .block_tokens = 8, .draft_model = &bundle().model});
    for (Engine* together : {engine.get(), guided.get()}) {
        std::vector<Ticket> tickets;
        for (size_t i = 0; i < prompts.size(); ++i) {
            Request request = sampled(prompts[i], 24, i + 20);
            if (i == 3) request.n = 2;
            tickets.push_back(submit(*together, request));
        }
        together->run_until_idle();
        for (size_t i = 0; i < prompts.size(); ++i)
            EXPECT_EQ(heard(tickets[i]).tokens, answer(*open(), sampled(prompts[i], 24, i + 20)).tokens) << prompts[i];
        EXPECT_EQ(together->audit(), "");
    }
}

// The distribution of the second token, with and without guesses of it: both are draws of the same numbers, so the
// counts are not only alike but the same.
TEST_F(Speculate, SampledTokensHaveTheirDistribution) {
    const auto plain = open();
    const auto guessing = open({.looks_up = true});
    std::map<TokenId, int> expected;
    std::map<TokenId, int> counts;
    for (uint64_t seed = 0; seed < 40; ++seed) {
        ++expected[answer(*plain, sampled(kRepetitiveStory, 4, seed)).tokens[2]];
        ++counts[answer(*guessing, sampled(kRepetitiveStory, 4, seed)).tokens[2]];
    }
    EXPECT_EQ(counts, expected);
    EXPECT_GT(expected.size(), 2U);
}

}  // namespace
}  // namespace tandem::engine
