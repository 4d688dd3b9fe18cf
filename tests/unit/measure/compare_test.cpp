// Whether two saved runs differ: what is alike must not be told apart, what differs must.
#include "measure/compare.h"

#include <gtest/gtest.h>

#include <random>

#include "measure/html_report.h"

namespace tandem::measure {
namespace {

std::vector<double> times(std::mt19937_64& random, int count, double mean, double deviation) {
    std::normal_distribution<double> normal(mean, deviation);
    std::vector<double> samples;
    for (int i = 0; i < count; ++i) samples.push_back(std::max(normal(random), mean / 10));
    return samples;
}

TEST(CompareSamples, TellsADifferenceThatIsLargerThanTheNoise) {
    std::mt19937_64 random(1);
    const std::vector<double> slow = times(random, 40, 1.10, 0.03);
    const std::vector<double> fast = times(random, 40, 1.00, 0.03);
    const SpeedRatio speed = compare_samples(slow, fast);
    EXPECT_EQ(speed.verdict, Verdict::faster);
    EXPECT_GT(speed.low, 1.05);
    EXPECT_LT(speed.high, 1.15);
    EXPECT_EQ(compare_samples(fast, slow).verdict, Verdict::slower);
}

TEST(CompareSamples, ErrsAsSeldomAsItSays) {
    std::mt19937_64 random(2);
    int told_apart = 0;
    constexpr int kPairs = 100;
    for (int i = 0; i < kPairs; ++i) {
        const std::vector<double> first = times(random, 30, 1, 0.1);
        const SpeedRatio speed = compare_samples(first, times(random, 30, 1, 0.1));
        if (speed.verdict == Verdict::faster || speed.verdict == Verdict::slower) ++told_apart;
    }
    EXPECT_LE(told_apart, 10) << "5 are expected of 100; more than 10 come once in 100 times";
}

TEST(CompareSamples, SaysWhenItCannotKnow) {
    std::mt19937_64 random(3);
    EXPECT_EQ(compare_samples(times(random, 5, 1, 0.1), times(random, 50, 2, 0.1)).verdict, Verdict::too_few);
    EXPECT_EQ(compare_samples({}, {}).verdict, Verdict::too_few);
    EXPECT_EQ(compare_samples(times(random, 10, 1, 0.2), times(random, 10, 1.02, 0.2)).verdict, Verdict::undecided);
    EXPECT_EQ(compare_samples(times(random, 60, 1, 0.005), times(random, 60, 1, 0.005)).verdict, Verdict::same);
}

TEST(CompareSamples, IsTheSameEachTime) {
    std::mt19937_64 random(4);
    const std::vector<double> first = times(random, 20, 1, 0.1);
    const std::vector<double> second = times(random, 20, 1, 0.1);
    EXPECT_EQ(compare_samples(first, second).low, compare_samples(first, second).low);
}

constexpr const char* kRow = R"({"kind": "decode", "sequences": 2, "context": 512, "tokens_per_s": 20, "ms": 100,
    "ms_each": [99, 100, 101, 100, 99, 100, 101, 100], "bytes": 4e9, "flops": 4e10, "fits_caches": false,
    "profile": [{"name": "<gate>", "count": 3, "us": 60000, "weight_bytes": 1000}]})";
constexpr const char* kHead =
    R"("program": "tandem 1", "model": "m<1>", "device": "cpu", "hardware": "h", "details": "d",
    "read_bytes_per_s": 5e10, "matrix_flops_per_s": 0)";

std::string run_json(const std::string& rows) {
    return fmt::format("{{{}, \"rows\": [{}]}}", kHead, rows);
}

TEST(SavedRun, IsReadAgain) {
    const SavedRun run = parse_saved_run(run_json(kRow), "a.json").value();
    ASSERT_EQ(run.rows.size(), 1U);
    EXPECT_EQ(run.rows[0].name(), "decode, 2 sequences, context 512");
    EXPECT_DOUBLE_EQ(run.rows[0].samples_s[2], 0.101);
    EXPECT_EQ(run.rows[0].profile[0].name, "<gate>");
    EXPECT_NEAR(limit_tokens_per_s(run, run.rows[0]), 25, 1e-9) << "2 tokens in 4 GB at 50 GB/s";
}

TEST(SavedRun, NamesTheFileAndWhatIsWrong) {
    for (const std::string& json : {std::string("[]"), std::string("{"), run_json("{}"), run_json("7"),
                                    run_json(R"({"kind": "decode", "sequences": 1e99})")}) {
        const auto run = parse_saved_run(json, "a.json");
        ASSERT_FALSE(run) << json;
        EXPECT_NE(run.error().message.find("a.json"), std::string::npos) << run.error().message;
    }
}

TEST(CompareRuns, PairsRowsAndNamesTheOthers) {
    const SavedRun first = parse_saved_run(run_json(kRow), "a.json").value();
    SavedRun second = first;
    second.model = "other";
    second.rows.push_back(second.rows[0]);
    second.rows[1].is_prompt = true;
    const RunComparison comparison = compare_runs(first, second);
    ASSERT_EQ(comparison.rows.size(), 1U);
    EXPECT_EQ(comparison.rows[0].speed.verdict, Verdict::same);
    EXPECT_EQ(comparison.only_second, std::vector<std::string>{"prompt of 512"});
    EXPECT_EQ(comparison.differences.size(), 1U);
}

TEST(HtmlReport, IsOnePageThatNeedsNothingElse) {
    SavedRun run = parse_saved_run(run_json(kRow), "a.json").value();
    run.rows.push_back(run.rows[0]);
    run.rows[1].sequences = 8;
    const std::string html = html_report(run);
    for (const char* const text : {"m&lt;1&gt;", "Roofline", "Decode by batch", "Time by operation", "80 %",
                                   "&lt;gate&gt;", "tokens/s", "prefers-color-scheme: dark"}) {
        EXPECT_NE(html.find(text), std::string::npos) << text;
    }
    for (const char* const text : {"<script", "http://", "https://", "<gate>", "nan", "inf\""})
        EXPECT_EQ(html.find(text), std::string::npos) << text;
    EXPECT_EQ(html.find("Decode by context"), std::string::npos) << "one context is no sweep";
}

}  // namespace
}  // namespace tandem::measure
