#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "graph/builder.h"
#include "graph/ops.h"
#include "ops/op_test.h"

namespace tandem::test {

namespace {

using device::SamplingParams;
using device::SamplingRow;

// Samples each row of `logits` with its own SamplingRow.
std::vector<int32_t> sample(device::Backend& backend, const HostTensor& logits, std::vector<SamplingRow> rows,
                            const device::FindAllowed& find_allowed = {}) {
    graph::Graph g;
    graph::Weights weights;
    weights.add("logits", {logits.dtype, logits.shape, logits.bytes});
    g.result("next", g.sample(g.weight(
                         "logits", graph::matrix_type(DType::f32, graph::Dim::of(logits.shape[0]), logits.shape[1]))));
    device::Batch batch;
    for (size_t i = 0; i < rows.size(); ++i) {
        batch.tokens.push_back(0);
        batch.positions.push_back(0);
        batch.output_rows.push_back(static_cast<int32_t>(i));
    }
    const auto count = static_cast<int64_t>(rows.size());
    batch.sampling = std::move(rows);
    auto executable = backend.compile(std::move(g).finish(), weights, nullptr,
                                      {.limits = {.tokens = count, .outputs = count}, .results = {"next"}});
    EXPECT_TRUE(executable) << executable.error().message;
    const Status status = device::run(**executable, batch, find_allowed);
    EXPECT_TRUE(status) << status.error().message;
    const auto ids = device::result_as<int32_t>(**executable, 0);
    return {ids.begin(), ids.end()};
}

int32_t sample_one(device::Backend& backend, const std::vector<float>& logits, const SamplingParams& params,
                   std::vector<int32_t> history = {}) {
    return sample(backend, tensor({1, static_cast<int64_t>(logits.size())}, logits),
                  {{.params = &params, .history = history, .draw = 0}})[0];
}

// `draws` tokens from one distribution, many rows to a step.
std::vector<int32_t> sample_many(device::Backend& backend, const std::vector<float>& logits,
                                 const SamplingParams& params, int draws) {
    std::vector<float> repeated;
    std::vector<SamplingRow> rows;
    for (int i = 0; i < draws; ++i) {
        repeated.insert(repeated.end(), logits.begin(), logits.end());
        rows.push_back({.params = &params, .history = {}, .draw = static_cast<uint64_t>(i)});
    }
    return sample(backend, tensor({draws, static_cast<int64_t>(logits.size())}, repeated), rows);
}

std::set<int32_t> drawn_set(device::Backend& backend, const std::vector<float>& logits, const SamplingParams& params) {
    const std::vector<int32_t> drawn = sample_many(backend, logits, params, 400);
    return {drawn.begin(), drawn.end()};
}

std::vector<float> log_of(const std::vector<double>& probabilities) {
    std::vector<float> logits;
    logits.reserve(probabilities.size());
    for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
    return logits;
}

// Of `vocab` tokens those that `allows` says, and no token that the vocabulary does not have.
template <typename Allows>
std::vector<uint32_t> mask_of(int vocab, Allows allows) {
    std::vector<uint32_t> mask(static_cast<size_t>((vocab + 31) / 32), 0);
    for (int token = 0; token < vocab; ++token) {
        if (allows(token)) mask[static_cast<size_t>(token / 32)] |= 1U << (token % 32);
    }
    return mask;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST(Sample, TemperatureZeroTakesTheFirstLargest) {
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        EXPECT_EQ(sample_one(device.use(), {1, 5, 3, 5}, {}), 1);
        EXPECT_EQ(sample_one(device.use(), {-1, -2}, {}), 0);
        EXPECT_EQ(sample_one(device.use(), {7}, {}), 0);
    }
}

// A number within 2^-22 of 1 gives a token noise of 15 and more, by a logarithm that has to be right to the last bits.
// The other token is made half a logit more likely with the noise of both, then half a logit less.
TEST(Sample, NoiseIsRightForNumbersNextToOne) {
    constexpr int kVocab = 64;
    const SamplingParams params{.temperature = 1.0F, .seed = 3};
    const auto uniform = [&](uint64_t draw, int32_t id) {
        return static_cast<double>(device::sampling_uniform(params.seed, draw, id));
    };
    const auto noise = [&](uint64_t draw, int32_t id) { return -std::log(-std::log(uniform(draw, id))); };
    int found = 0;
    for (uint64_t draw = 0; found < 3; ++draw) {
        int32_t rare = 0;
        while (rare < kVocab && uniform(draw, rare) < 1.0 - 0x1p-22) ++rare;
        if (rare == kVocab) continue;
        ++found;
        const int32_t other = (rare + 1) % kVocab;
        for (const double more : {-0.5, 0.5}) {
            std::vector<float> logits(kVocab, -100.0F);
            logits[static_cast<size_t>(other)] = 0.0F;
            logits[static_cast<size_t>(rare)] = static_cast<float>(noise(draw, other) - noise(draw, rare) + more);
            for (const Device& device : devices()) {
                const std::vector<int32_t> drawn = sample(device.use(), tensor({1, kVocab}, logits),
                                                          {{.params = &params, .history = {}, .draw = draw}});
                EXPECT_EQ(drawn[0], more > 0 ? rare : other) << device.name << ", draw " << draw;
            }
        }
    }
}

TEST(Sample, DrawsWithTheProbabilitiesOfTheSoftmax) {
    const std::vector<double> p = {0.5, 0.25, 0.15, 0.07, 0.03};
    constexpr int kDraws = 4000;
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        std::vector<int> counts(p.size(), 0);
        for (int32_t token : sample_many(device.use(), log_of(p), {.temperature = 1.0F, .seed = 7}, kDraws))
            ++counts[static_cast<size_t>(token)];
        double chi_square = 0.0;
        for (size_t i = 0; i < p.size(); ++i) chi_square += std::pow(counts[i] - kDraws * p[i], 2) / (kDraws * p[i]);
        EXPECT_LT(chi_square, 18.5);  // 4 degrees of freedom: exceeded once in a thousand seeds
    }
}

TEST(Sample, TemperatureSharpensTheDistribution) {
    // At temperature 1/2 probabilities are squared: 0.6, 0.4 become 0.36 and 0.16 of 0.52.
    constexpr int kDraws = 2000;
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        const std::vector<int32_t> drawn =
            sample_many(device.use(), log_of({0.6, 0.4}), {.temperature = 0.5F, .seed = 3}, kDraws);
        const double share = static_cast<double>(std::count(drawn.begin(), drawn.end(), 0)) / kDraws;
        const double expected = 0.36 / 0.52;
        EXPECT_NEAR(share, expected, 4 * std::sqrt(expected * (1 - expected) / kDraws));
    }
}

TEST(Sample, TopKTopPAndMinPKeepTheRightTokens) {
    const std::vector<float> logits = log_of({0.05, 0.4, 0.1, 0.25, 0.2});
    using Set = std::set<int32_t>;
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        device::Backend& backend = device.use();
        EXPECT_EQ(drawn_set(backend, logits, {.temperature = 1}), (Set{0, 1, 2, 3, 4}));
        EXPECT_EQ(drawn_set(backend, logits, {.temperature = 1, .top_k = 1}), (Set{1}));
        EXPECT_EQ(drawn_set(backend, logits, {.temperature = 1, .top_k = 3}), (Set{1, 3, 4}));
        EXPECT_EQ(drawn_set(backend, logits, {.temperature = 1, .top_k = 99}), (Set{0, 1, 2, 3, 4}));
        EXPECT_EQ(drawn_set(backend, logits, {.temperature = 1, .top_p = 0.0F}), (Set{1}));
        EXPECT_EQ(drawn_set(backend, logits, {.temperature = 1, .top_p = 0.39F}), (Set{1}));
        EXPECT_EQ(drawn_set(backend, logits, {.temperature = 1, .top_p = 0.6F}), (Set{1, 3}));
        EXPECT_EQ(drawn_set(backend, logits, {.temperature = 1, .top_p = 0.66F}), (Set{1, 3, 4}));
        EXPECT_EQ(drawn_set(backend, logits, {.temperature = 1, .min_p = 0.3F}), (Set{1, 3, 4}));
        EXPECT_EQ(drawn_set(backend, logits, {.temperature = 1, .min_p = 1.0F}), (Set{1}));
        // Of the top 3 (0.4, 0.25, 0.2 of 0.85) the first holds 0.47 and the first two 0.76.
        EXPECT_EQ(drawn_set(backend, logits, {.temperature = 1, .top_k = 3, .top_p = 0.7F}), (Set{1, 3}));
    }
}

TEST(Sample, TopKPrefersTheLowerIdAmongEquals) {
    const std::vector<float> logits = {0, 1, 1, 1, 1, 0};
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        EXPECT_EQ(drawn_set(device.use(), logits, {.temperature = 1, .top_k = 2}), (std::set<int32_t>{1, 2}));
    }
}

TEST(Sample, PenaltiesCountTheHistory) {
    const std::vector<int32_t> history = {0, 0, 0, 1, 77, -5};  // the last two are not in the vocabulary
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        device::Backend& backend = device.use();
        // 10 / 2 is less than 6; -1 * 2 is less than -1.5
        EXPECT_EQ(sample_one(backend, {10, 0, 6}, {.repetition_penalty = 2.0F}, history), 2);
        EXPECT_EQ(sample_one(backend, {-1, -9, -1.5F}, {.repetition_penalty = 2.0F}, history), 2);
        EXPECT_EQ(sample_one(backend, {10, 9.5F, 8}, {.presence_penalty = 3.0F}, history), 2);
        EXPECT_EQ(sample_one(backend, {10, 9.5F, 8.5F}, {.presence_penalty = 1.0F}, history), 0);
        // Three times 1 is taken from token 0, once from token 1.
        EXPECT_EQ(sample_one(backend, {10, 8.5F, 7}, {.frequency_penalty = 1.0F}, history), 1);
    }
}

TEST(Sample, BiasForcesAndForbidsTokens) {
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        device::Backend& backend = device.use();
        EXPECT_EQ(sample_one(backend, {1, 2, 3}, {.logit_bias = {{0, 100.0F}}}), 0);
        EXPECT_EQ(sample_one(backend, {1, 2, 3}, {.logit_bias = {{2, -kInfinity}, {99, 5.0F}}}), 1);
        const SamplingParams params{.temperature = 1.0F, .logit_bias = {{2, -kInfinity}}};
        EXPECT_EQ(drawn_set(backend, {1, 1, 1}, params), (std::set<int32_t>{0, 1}));
    }
}

TEST(Sample, NotANumberAndInfinityAreSurvived) {
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        device::Backend& backend = device.use();
        for (float temperature : {0.0F, 1.0F}) {
            const SamplingParams params{.temperature = temperature, .top_k = 3, .top_p = 0.9F, .min_p = 0.1F};
            EXPECT_EQ(sample_one(backend, {kNaN, 1, kNaN, -kInfinity}, params), 1);
            EXPECT_EQ(sample_one(backend, {1, kInfinity, 3, 4}, params), 1);
            EXPECT_EQ(sample_one(backend, {kNaN, kNaN, kNaN, kNaN}, params), 0);
            EXPECT_EQ(sample_one(backend, {-kInfinity, -kInfinity, -kInfinity, -kInfinity}, params), 0);
        }
        EXPECT_EQ(sample_one(backend, {1, 2}, {.temperature = kNaN}), 1);
        EXPECT_EQ(sample_one(backend, {1, 2}, {.temperature = 1e-40F}), 1);
        EXPECT_EQ(sample_one(backend, {1, 2}, {.temperature = 1.0F, .top_k = -3, .top_p = -1.0F}), 1);
    }
}

TEST(Sample, SameSeedAndDrawSameTokenAnotherDrawAnother) {
    Rng rng(5);
    std::vector<float> logits(1000);
    for (float& logit : logits) logit = rng.uniform(-1.0F, 1.0F);
    const SamplingParams params{.temperature = 1.0F, .seed = 11};
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        const std::vector<int32_t> once = sample_many(device.use(), logits, params, 50);
        EXPECT_EQ(sample_many(device.use(), logits, params, 50), once);
        EXPECT_GT(std::set<int32_t>(once.begin(), once.end()).size(), 30U);
        SamplingParams other = params;
        other.seed = 12;
        EXPECT_NE(sample_many(device.use(), logits, other, 50), once);
    }
}

// Every setting on rows of a real vocabulary's size, of which each must come out as if it were alone.
TEST(Sample, EveryDeviceDrawsTheSameTokensInAnyBatch) {
    Rng rng(6);
    constexpr int kVocab = 20011;
    const std::vector<SamplingParams> settings = {
        {},
        {.temperature = 1.0F, .seed = 1},
        {.temperature = 0.7F, .top_k = 64, .top_p = 0.95F, .seed = 2},
        {.temperature = 1.0F, .top_p = 0.9F, .seed = 3},
        {.temperature = 2.0F, .min_p = 0.05F, .seed = 4},
        {.temperature = 1.0F, .top_k = 40, .repetition_penalty = 1.1F, .presence_penalty = 0.5F, .seed = 5},
        {.temperature = 5.0F, .top_p = 0.999F, .seed = 6},
    };
    const std::vector<int32_t> history = {5, 5, 17, 20010};
    std::vector<float> logits;
    std::vector<SamplingRow> rows;
    for (size_t i = 0; i < settings.size(); ++i) {
        for (int t = 0; t < kVocab; ++t) {
            // Shaped as real logits are: most far below a few.
            const float u = rng.uniform(0.0F, 1.0F);
            logits.push_back(12.0F * u * u * u * u + rng.uniform(-4.0F, 0.0F));
        }
        rows.push_back({.params = &settings[i], .history = history, .draw = 40 + i});
    }
    const auto count = static_cast<int64_t>(rows.size());
    const HostTensor all = tensor({count, kVocab}, logits);
    const std::vector<int32_t> expected = sample(devices().front().use(), all, rows);
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        EXPECT_EQ(sample(device.use(), all, rows), expected);
        for (size_t i = 0; i < rows.size(); ++i) {
            const std::vector<float> row(logits.begin() + static_cast<int64_t>(i) * kVocab,
                                         logits.begin() + static_cast<int64_t>(i + 1) * kVocab);
            EXPECT_EQ(sample(device.use(), tensor({1, kVocab}, row), {rows[i]}), (std::vector<int32_t>{expected[i]}));
        }
    }
}

// With rows of whole fours and without; of equals the first, and never what is not a number.
TEST(Sample, FindsTheLikeliestWhereverItIs) {
    const SamplingParams greedy;
    for (const int vocab : {20011, 20012}) {
        std::vector<float> logits;
        std::vector<SamplingRow> rows;
        std::vector<int32_t> expected;
        for (const int at : {0, 1, 3, 4, 4095, 4096, 16385, vocab - 5, vocab - 1}) {
            std::vector<float> row(static_cast<size_t>(vocab), -1.0F);
            row[static_cast<size_t>(at)] = 2.0F;
            row.back() = 2.0F;
            row[2] = std::numeric_limits<float>::quiet_NaN();
            logits.insert(logits.end(), row.begin(), row.end());
            rows.push_back({.params = &greedy, .history = {}, .draw = 0});
            expected.push_back(at);
        }
        const HostTensor all = tensor({static_cast<int64_t>(rows.size()), vocab}, logits);
        for (const Device& device : devices()) {
            SCOPED_TRACE(fmt::format("{}, {} tokens", device.name, vocab));
            EXPECT_EQ(sample(device.use(), all, rows), expected);
        }
    }
}

TEST(Sample, DrawsOnlyWhatIsAllowed) {
    const std::vector<uint32_t> mask = {0b01011};  // 0, 1 and 3
    const auto allowed_one = [&](device::Backend& backend, const std::vector<float>& logits,
                                 const SamplingParams& params, std::vector<int32_t> history = {}) {
        const SamplingRow row{.params = &params, .history = history, .draw = 0, .allowed = mask};
        return sample(backend, tensor({1, static_cast<int64_t>(logits.size())}, logits), {row})[0];
    };
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        device::Backend& backend = device.use();
        EXPECT_EQ(allowed_one(backend, {1, 2, 9, 3, 9}, {}), 3);
        // Penalties and biases come first, and nothing brings back what is not allowed.
        EXPECT_EQ(allowed_one(backend, {1, 2, 9, 3, 9}, {.presence_penalty = 5.0F}, {3}), 1);
        EXPECT_EQ(allowed_one(backend, {1, 2, 9, 3, 9}, {.logit_bias = {{0, 4.0F}, {4, 100.0F}}}), 0);
        // Of the top 2 of those allowed, and of all of them when there are fewer than k.
        std::set<int32_t> top_two;
        std::set<int32_t> top_nine;
        for (uint64_t seed = 0; seed < 60; ++seed) {
            top_two.insert(allowed_one(backend, {1, 1.5F, 9, 2, 9}, {.temperature = 1, .top_k = 2, .seed = seed}));
            top_nine.insert(allowed_one(backend, {1, 1.5F, 9, 2, 9},
                                        {.temperature = 1, .top_k = 9, .top_p = 0.99F, .min_p = 0.1F, .seed = seed}));
        }
        EXPECT_EQ(top_two, (std::set<int32_t>{1, 3}));
        EXPECT_EQ(top_nine, (std::set<int32_t>{0, 1, 3}));
        // Logits that say nothing still give a token that may be drawn.
        for (float temperature : {0.0F, 1.0F}) {
            EXPECT_EQ(allowed_one(backend, {kNaN, -kInfinity, 9, kNaN, 9}, {.temperature = temperature}), 0);
            EXPECT_EQ(allowed_one(backend, {kNaN, -1e30F, 9, kNaN, 9}, {.temperature = temperature}), 1);
        }
    }
}

TEST(Sample, RowsWithAndWithoutAMaskMixInOneBatch) {
    Rng rng(7);
    constexpr int kVocab = 20011;
    const std::vector<std::vector<uint32_t>> masks = {
        mask_of(kVocab, [](int token) { return token % 3 == 1; }),
        mask_of(kVocab, [](int token) { return token == kVocab - 1; }),
        mask_of(kVocab, [](int token) { return token >= 10000 && token < 10064; })};
    const std::vector<SamplingParams> settings = {
        {},
        {.temperature = 1.0F, .seed = 1},
        {.temperature = 0.7F, .top_k = 64, .top_p = 0.95F, .seed = 2},
        {.temperature = 2.0F, .min_p = 0.05F, .repetition_penalty = 1.2F, .seed = 4},
    };
    const std::vector<int32_t> history = {1, 10001, 20010};
    std::vector<float> logits;
    std::vector<SamplingRow> rows;
    for (size_t i = 0; i < 2 * settings.size(); ++i) {
        for (int t = 0; t < kVocab; ++t) {
            const float u = rng.uniform(0.0F, 1.0F);
            logits.push_back(12.0F * u * u * u * u + rng.uniform(-4.0F, 0.0F));
        }
        rows.push_back({.params = &settings[i / 2], .history = history, .draw = i});
        if (i % 2 == 0) rows.back().allowed = masks[i / 2 % masks.size()];
    }
    const HostTensor all = tensor({static_cast<int64_t>(rows.size()), kVocab}, logits);
    const std::vector<int32_t> expected = sample(devices().front().use(), all, rows);
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(rows[i].allows(expected[i]));
    EXPECT_EQ(expected[2], kVocab - 1);
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        EXPECT_EQ(sample(device.use(), all, rows), expected);
        const std::vector<float> first(logits.begin(), logits.begin() + kVocab);
        EXPECT_EQ(sample(device.use(), tensor({1, kVocab}, first), {rows[0]}), (std::vector<int32_t>{expected[0]}));
    }
}

TEST(Sample, WhatIsAllowedMayBeFoundWhenTheStepHasBegun) {
    const SamplingParams greedy;
    const HostTensor logits = tensor({2, 3}, {9, 5, 1, 9, 5, 1});
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        std::vector<uint32_t> mask = {0};
        const SamplingRow free{.params = &greedy, .history = {}};
        const SamplingRow held{.params = &greedy, .history = {}, .draw = 0, .allowed = mask};
        int calls = 0;
        const auto find = [&] { mask[0] = ++calls == 1 ? 0b110 : 0; };
        EXPECT_EQ(sample(device.use(), logits, {free, held}, find), (std::vector<int32_t>{0, 1}));
        EXPECT_EQ(calls, 1);
        EXPECT_EQ(sample(device.use(), logits, {free, free}, find), (std::vector<int32_t>{0, 0}));
        EXPECT_EQ(calls, 1) << "nobody asked";
    }
}

}  // namespace tandem::test
