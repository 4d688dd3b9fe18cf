// Counters of servers as text, and what they say between two looks.
#include "measure/watch.h"

#include <gtest/gtest.h>

#include "measure/answer_stream.h"
#include "measure/traffic.h"

namespace tandem::measure {
namespace {

std::string metrics_at(int tokens, int fast, int slow) {
    return fmt::format(
        "# HELP tandem_requests_running Requests.\n# TYPE tandem_requests_running gauge\n"
        "tandem_requests_running{{model_name=\"a \\\"b\\\"\"}} 3\n"
        "tandem_requests_waiting{{model_name=\"a \\\"b\\\"\"}} 1\n"
        "tandem_kv_cache_usage_ratio{{model_name=\"a \\\"b\\\"\"}} 0.25\n"
        "tandem_generation_tokens_total{{model_name=\"a \\\"b\\\"\"}} {}\n"
        "tandem_time_to_first_token_seconds_bucket{{model_name=\"a \\\"b\\\"\",le=\"0.1\"}} {}\n"
        "tandem_time_to_first_token_seconds_bucket{{model_name=\"a \\\"b\\\"\",le=\"1\"}} {}\n"
        "tandem_time_to_first_token_seconds_bucket{{model_name=\"a \\\"b\\\"\",le=\"+Inf\"}} {}\n"
        "tandem_device_utilization_ratio{{device=\"cpu\"}} 0.5\n"
        "tandem_device_memory_bytes{{device=\"cpu\",pool=\"host memory\"}} 1000\n"
        "tandem_device_memory_used_bytes{{device=\"cpu\",pool=\"host memory\"}} 400\n"
        "broken{{ 7\nalso_broken\nno_number x\n",
        tokens, fast, fast + slow, fast + slow);
}

TEST(Watch, TellsWhatWasBetweenTwoLooks) {
    const ServerLook before = parse_look(metrics_at(100, 10, 0), R"({"status": "ok"})", 5);
    const ServerLook now = parse_look(metrics_at(300, 10, 8), R"({"status": "draining"})", 7);
    EXPECT_EQ(now.health, "draining");
    const std::vector<ModelActivity> models = activity_between(before, now);
    ASSERT_EQ(models.size(), 1U);
    EXPECT_EQ(models[0].name, "a \"b\"");
    EXPECT_DOUBLE_EQ(models[0].tokens_per_s, 100);
    EXPECT_DOUBLE_EQ(models[0].running, 3);
    EXPECT_DOUBLE_EQ(models[0].cache_usage, 0.25);
    EXPECT_NEAR(models[0].first_p50_s, 0.55, 1e-9) << "half of what is new, all of it between 0.1 and 1";
    ASSERT_EQ(now.devices.size(), 1U);
    EXPECT_DOUBLE_EQ(now.devices[0].used_bytes, 400);
}

TEST(Watch, CountsFromZeroAfterANewStart) {
    const std::vector<ModelActivity> models =
        activity_between(parse_look(metrics_at(300, 10, 8), "", 0), parse_look(metrics_at(50, 2, 0), "", 1));
    EXPECT_DOUBLE_EQ(models[0].tokens_per_s, 50);
    EXPECT_NEAR(models[0].first_p50_s, 0.05, 1e-9);
}

TEST(Watch, KnowsTheNamesOfVllm) {
    const ServerLook look = parse_look(
        "vllm:num_requests_running{model_name=\"m\"} 2\n"
        "vllm:generation_tokens_total{model_name=\"m\"} 1e3\n",
        "", 0);
    EXPECT_DOUBLE_EQ(look.models.at("m").running, 2);
    EXPECT_DOUBLE_EQ(look.models.at("m").generated_tokens, 1000);
    EXPECT_EQ(look.health, "ok");
}

TEST(Watch, OfNonsenseIsNothing) {
    const ServerLook look = parse_look("<html>\n{\n", "[", 0);
    EXPECT_TRUE(look.models.empty());
    EXPECT_TRUE(activity_between(look, look).empty());
}

TEST(AnswerStream, TakesEventsHoweverTheyAreCut) {
    const std::string text =
        "event: message\r\ndata: {\"choices\": [{\"delta\": {\"content\": \"a\"}}]}\r\n\r\n: comment\n"
        "data:{\"choices\": [{\"delta\": {}, \"finish_reason\": \"length\"}]}\n\ndata: [DONE]\n";
    for (const size_t size : {size_t{1}, size_t{7}, text.size()}) {
        AnswerStream stream;
        for (size_t at = 0; at < text.size(); at += size) EXPECT_TRUE(stream.push(text.substr(at, size), 1));
        stream.finish();
        EXPECT_EQ(stream.error(), "");
        EXPECT_EQ(stream.pieces_s().size(), 1U);
        EXPECT_FALSE(stream.usage());
    }
}

TEST(AnswerStream, HasBounds) {
    AnswerStream stream;
    const std::string endless(size_t{1} << 19, 'x');
    EXPECT_TRUE(stream.push(endless, 0));
    EXPECT_TRUE(stream.push(endless, 0));
    EXPECT_FALSE(stream.push(endless, 0));
    EXPECT_EQ(stream.error(), "a line without an end");
}

TEST(Traffic, IsSummedUpByWhatWasAnswered) {
    std::vector<Visit> visits;
    for (int i = 1; i <= 100; ++i)
        visits.push_back(
            {.first_s = i / 1000.0, .total_s = 1, .between_s = 0.01, .tokens = 10, .has_usage = true, .error = {}});
    visits.push_back({.error = "status 500"});
    const TrafficReport report = summarize_visits(visits, {.first_s = 0.05});
    EXPECT_EQ(report.requests, 101);
    EXPECT_EQ(report.answered, 100);
    EXPECT_EQ(report.good, 50);
    EXPECT_EQ(report.tokens, 1000);
    EXPECT_NEAR(report.first.p50, 0.0505, 1e-9);
    EXPECT_NEAR(report.first.p90, 0.0901, 1e-9);
    EXPECT_EQ(report.errors.at("status 500"), 1);
}

}  // namespace
}  // namespace tandem::measure
