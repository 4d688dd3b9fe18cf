// Log-probabilities and embeddings, against straightforward computations; and how long each part of an answer took.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/logprobs.h"
#include "measure/scorer.h"
#include "unit/engine/engine_fixture.h"

namespace tandem::engine {
namespace {

TEST(Logprobs, AreThoseOfTheSoftmax) {
    const std::vector<float> logits = {1, 3, 2, 3};
    const TokenLogprobs result = log_probabilities(logits, 2, 3);
    const double sum = std::exp(1) + 2 * std::exp(3) + std::exp(2);
    EXPECT_NEAR(result.chosen.logprob, std::log(std::exp(2) / sum), 1e-6);
    ASSERT_EQ(result.top.size(), 3U);
    EXPECT_EQ(result.top[0].token, 1) << "the lower of equals";
    EXPECT_EQ(result.top[1].token, 3);
    EXPECT_EQ(result.top[2].token, 2);
    EXPECT_EQ(log_probabilities(logits, 0, 9).top.size(), 4U);
    EXPECT_TRUE(log_probabilities(logits, 0, 0).top.empty());
}

class Results : public EngineTest {
  protected:
    // log softmax of the logits after every token.
    static std::vector<std::vector<double>> score(std::span<const TokenId> tokens) {
        std::vector<std::vector<double>> rows;
        const auto scorer = measure::Scorer::open(bundle().model, cpu()).value();
        const Status done = scorer->score(tokens, [&](int /*position*/, std::span<const float> logits) -> Status {
            double sum = 0;
            for (float logit : logits) sum += std::exp(static_cast<double>(logit));
            std::vector<double>& row = rows.emplace_back();
            for (float logit : logits) row.push_back(static_cast<double>(logit) - std::log(sum));
            return Ok{};
        });
        EXPECT_TRUE(done);
        return rows;
    }

    static void expect_close(const TokenLogprobs& got, const std::vector<double>& row, TokenId token) {
        constexpr double kTolerance = 2e-2;  // rows of another number are summed in another order, in f16 caches
        EXPECT_EQ(got.chosen.token, token);
        EXPECT_NEAR(static_cast<double>(got.chosen.logprob), row[static_cast<size_t>(token)], kTolerance);
        std::vector<double> sorted = row;
        std::sort(sorted.rbegin(), sorted.rend());
        for (size_t i = 0; i < got.top.size(); ++i) {
            EXPECT_NEAR(static_cast<double>(got.top[i].logprob), sorted[i], kTolerance);
            EXPECT_NEAR(row[static_cast<size_t>(got.top[i].token)], sorted[i], kTolerance);
        }
    }
};

constexpr const char* kFoxStory = "Once upon a time there was a fox who lived in a";

TEST_F(Results, LogprobsBelongToTheTokens) {
    const auto engine = open({.rows = 40});
    Request request = sampled(kFoxStory, 6, 9);
    const Heard plain = answer(*engine, request);
    request.logprobs = 3;
    request.sampling.logit_bias = {{plain.tokens[3], 0.001F}};  // what is reported is the model's own
    const Ticket ticket = submit(*engine, request);
    const Ticket beside = submit(*engine, ask("The", 9));
    engine->run_until_idle();
    const Heard& got = heard(ticket);
    EXPECT_EQ(got.tokens, plain.tokens);
    ASSERT_EQ(got.logprobs.size(), 6U);
    EXPECT_TRUE(heard(beside).logprobs.empty());

    std::vector<TokenId> all = request.prompt;
    all.insert(all.end(), got.tokens.begin(), got.tokens.end());
    const auto rows = score(all);
    for (size_t i = 0; i < got.tokens.size(); ++i) {
        EXPECT_EQ(got.logprobs[i].top.size(), 3U);
        expect_close(got.logprobs[i], rows[request.prompt.size() - 1 + i], got.tokens[i]);
    }
}

TEST_F(Results, AnEchoedPromptHasLogprobsToo) {
    const auto engine = open({.sequences = 2, .rows = 7});
    Request request = ask(kFoxStory, 2);
    request.echo = true;
    request.logprobs = 1;
    const Heard got = answer(*engine, request);
    std::vector<TokenId> all = request.prompt;
    all.insert(all.end(), got.tokens.end() - 2, got.tokens.end());
    ASSERT_EQ(got.tokens, all);
    ASSERT_EQ(got.logprobs.size(), all.size());
    EXPECT_TRUE(std::isnan(got.logprobs[0].chosen.logprob));
    const auto rows = score(all);
    for (size_t i = 1; i < all.size(); ++i) expect_close(got.logprobs[i], rows[i - 1], all[i]);
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

TEST_F(Results, EmbeddingsAreOfLengthOneAndDoNotDependOnTheSteps) {
    for (Pooling pooling : {Pooling::mean, Pooling::last}) {
        std::vector<std::vector<float>> vectors;
        for (int rows : {256, 5}) {
            const auto engine = open({.sequences = 4, .rows = rows});
            Request request = ask(kFoxStory, 0);
            request.embed = pooling;
            Request other = ask("Seven plus five is twelve.", 0);
            other.embed = pooling;
            const Ticket first = submit(*engine, request);
            const Ticket second = submit(*engine, other);
            const Ticket beside = submit(*engine, ask("The", 5));
            engine->run_until_idle();
            EXPECT_TRUE(heard(first).ended_with(FinishReason::stop));
            EXPECT_EQ(heard(beside).tokens.size(), 5U);
            EXPECT_EQ(std::ssize(heard(first).finish->embedding), bundle().model.dim);
            vectors.push_back(heard(first).finish->embedding);
            vectors.push_back(heard(second).finish->embedding);
        }
        EXPECT_NEAR(dot(vectors[0], vectors[0]), 1, 1e-5);
        EXPECT_NEAR(dot(vectors[0], vectors[2]), 1, 1e-3);
        EXPECT_NEAR(dot(vectors[1], vectors[3]), 1, 1e-3);
        EXPECT_LT(dot(vectors[0], vectors[1]), 0.99);
    }
}

// An answer whose clock is ours: what it says when it ends.
class AnswerTimes : public testing::Test {
  protected:
    static TimePoint at(int seconds) { return TimePoint(std::chrono::seconds(1000 + seconds)); }

    std::unique_ptr<Answer> submit(int seconds, int choice = 0) {
        auto request = std::make_shared<Request>();
        request->prompt = {1, 2};
        request->on_event = [this](const Event& event) {
            if (event.finish != nullptr) times_[event.choice] = event.finish->timing;
        };
        return std::make_unique<Answer>(context_, request, 1, choice, at(seconds));
    }
    void expect(int choice, const Timings& expected) {
        const Timings& got = times_.at(choice);
        EXPECT_EQ(got.queue, expected.queue);
        EXPECT_EQ(got.prefill, expected.prefill);
        EXPECT_EQ(got.decode, expected.decode);
        EXPECT_EQ(got.first_token, expected.first_token);
    }

  private:
    AnswerContext context_{.tokenizer = {}, .context = 64, .vocab = 8};
    std::map<int, Timings> times_;
};

TEST_F(AnswerTimes, ArePartedByTheFirstRowAndTheFirstToken) {
    const auto answer = submit(0);
    answer->start(at(3));
    answer->start(at(5));  // in each step; and again after it lost its blocks
    answer->take(4, {}, at(10));
    answer->take(5, {}, at(12));
    answer->finish(FinishReason::length, at(40));
    expect(0, {.queue = 3, .prefill = 7, .decode = 30, .first_token = 10});
}

TEST_F(AnswerTimes, WhoNeverRanOnlyWaited) {
    const auto waited = submit(2);
    waited->finish(FinishReason::cancelled, at(9));
    expect(0, {.queue = 7, .prefill = 0, .decode = 0, .first_token = 7});
    const auto interrupted = submit(2);
    interrupted->start(at(4));
    interrupted->finish(FinishReason::deadline, at(9));
    expect(0, {.queue = 2, .prefill = 5, .decode = 0, .first_token = 7});
}

TEST_F(AnswerTimes, OtherChoicesWaitedForTheSamePrompt) {
    const auto first = submit(0);
    first->other_choices.push_back(submit(0, 1));
    first->start(at(1));
    const std::unique_ptr<Answer> other = std::move(first->other_choices.front());
    other->take(4, {}, at(6));
    other->finish(FinishReason::length, at(8));
    expect(1, {.queue = 1, .prefill = 5, .decode = 2, .first_token = 6});
}

TEST_F(Results, TimesAddUpToWhatPassed) {
    const auto engine = open({.sequences = 1, .rows = 16});
    const auto begin = std::chrono::steady_clock::now();
    const Ticket first = submit(*engine, ask(kFoxStory, 8));
    const Ticket second = submit(*engine, ask(kFoxStory, 3));  // has to wait for all of the first
    const auto asked = std::chrono::steady_clock::now();
    engine->run_until_idle();
    const auto seconds = [](auto duration) { return std::chrono::duration<double>(duration).count(); };
    const double passed = seconds(std::chrono::steady_clock::now() - begin);
    const auto whole = [](const Timings& times) { return times.queue + times.prefill + times.decode; };
    constexpr double kRounding = 1e-9;
    for (const Ticket ticket : {first, second}) {
        const Timings times = heard(ticket).finish->timing;
        EXPECT_GE(times.queue, 0);
        EXPECT_GT(times.prefill, 0);
        EXPECT_GT(times.decode, 0);
        EXPECT_NEAR(times.first_token, times.queue + times.prefill, kRounding);
        EXPECT_LE(whole(times), passed + kRounding);
    }
    const Timings waited = heard(second).finish->timing;
    EXPECT_GE(waited.queue + seconds(asked - begin) + kRounding, whole(heard(first).finish->timing));
}

}  // namespace
}  // namespace tandem::engine
