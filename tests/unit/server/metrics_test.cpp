#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "server/access_log.h"

namespace tandem::server {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// A server that has done something.
std::string busy_metrics() {
    Metrics metrics("1.2.3");
    ModelMetrics& model = metrics.model("tales");
    model.set_loaded(true);
    model.set_cache(32, 100);
    model.set_cache(32, 200);
    Ending ending;
    ending.usage = {.prompt_tokens = 5, .generated_tokens = 7};
    ending.timing = {.queue = 0.25, .prefill = 0.5, .decode = 4, .first_token = 0.75};
    model.ended(ending);
    Ending cancelled;
    cancelled.reason = EndReason::cancelled;
    model.ended(cancelled);
    model.tokens_after(0.06, 3);
    model.sample({.running = 2, .waiting = 1, .cache_usage = 0.5, .prompt_tokens = 10, .cached_tokens = 4});
    model.sample({.running = 3, .prompt_tokens = 15, .cached_tokens = 4, .device_seconds = 1.5});
    metrics.request("/v1/chat/completions", 200);
    metrics.request("/v1/chat/completions", 200);
    metrics.request("/v1/chat/completions", 429);
    metrics.sample({{.name = "cpu", .utilisation = 0.75, .pools = {{.name = "host", .bytes = 100, .used_bytes = 60}}}});
    return metrics.text();
}

TEST(Metrics, CountWhatHappened) {
    const std::string text = busy_metrics();
    for (const char* line : {
             "tandem_build_info{version=\"1.2.3\"} 1",
             "tandem_requests_running{model_name=\"tales\"} 3",
             "tandem_requests_waiting{model_name=\"tales\"} 0",
             "tandem_model_loaded{model_name=\"tales\"} 1",
             "tandem_prompt_tokens_total{model_name=\"tales\"} 15",
             "tandem_cached_prompt_tokens_total{model_name=\"tales\"} 4",
             "tandem_device_seconds_total{model_name=\"tales\"} 1.5",
             "tandem_time_to_first_token_seconds_bucket{model_name=\"tales\",le=\"0.5\"} 0",
             "tandem_time_to_first_token_seconds_bucket{model_name=\"tales\",le=\"1\"} 1",
             "tandem_time_to_first_token_seconds_count{model_name=\"tales\"} 1",
             "tandem_e2e_request_latency_seconds_sum{model_name=\"tales\"} 4.75",
             "tandem_request_queue_time_seconds_count{model_name=\"tales\"} 2",
             "tandem_inter_token_latency_seconds_bucket{model_name=\"tales\",le=\"0.02\"} 3",
             "tandem_device_utilization_ratio{device=\"cpu\"} 0.75",
         }) {
        EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
    }
    EXPECT_THAT(text, HasSubstr("finish=\"cancelled\""));
    EXPECT_THAT(text, HasSubstr("num_gpu_blocks=\"200\""));
    EXPECT_THAT(text, Not(HasSubstr("num_gpu_blocks=\"100\"")));
}

TEST(Metrics, HaveTheNamesThatGatewaysLookFor) {
    const std::string text = busy_metrics();
    for (const char* name :
         {"num_requests_waiting", "num_requests_running", "kv_cache_usage_perc", "cache_config_info",
          "lora_requests_info", "prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total",
          "prefix_cache_hits_total", "time_to_first_token_seconds_bucket", "inter_token_latency_seconds_bucket",
          "e2e_request_latency_seconds_bucket", "request_queue_time_seconds_bucket"}) {
        const size_t found = text.find("\nvllm:" + std::string(name) + "{");
        ASSERT_NE(found, std::string::npos) << name;
        EXPECT_THAT(text.substr(found, text.find('\n', found + 1) - found), HasSubstr("model_name=\"tales\""));
    }
}

TEST(Metrics, CountOnWhenAModelIsLoadedAgain) {
    Metrics metrics("1");
    ModelMetrics& model = metrics.model("a");
    model.sample({.running = 4, .generated_tokens = 100});
    model.set_loaded(false);
    EXPECT_THAT(metrics.text(), HasSubstr("tandem_requests_running{model_name=\"a\"} 0\n"));
    metrics.model("a").sample({.generated_tokens = 120});
    EXPECT_THAT(metrics.text(), HasSubstr("tandem_generation_tokens_total{model_name=\"a\"} 220\n"));
    EXPECT_EQ(&model, &metrics.model("a"));
}

TEST(Metrics, PleasePromtool) {
    if (std::system("command -v promtool > /dev/null") != 0) GTEST_SKIP() << "there is no promtool here";
    // It refuses the colons of the other names, whatever they are.
    std::istringstream lines(busy_metrics());
    std::string own;
    for (std::string line; std::getline(lines, line);) {
        if (line.find("vllm:") == std::string::npos) own += line + "\n";
    }
    const fs::path path = fs::path(testing::TempDir()) / "metrics_test.prom";
    ASSERT_TRUE(write_file(path, own));
    EXPECT_EQ(std::system(("promtool check metrics < " + path.string() + " >&2").c_str()), 0);
    fs::remove(path);
}

TEST(Metrics, TellEnvoyTheLoad) {
    const engine::EngineStats stats{.running = 3, .waiting = 2, .cache_usage = 0.25};
    EXPECT_THAT(*load_report("TEXT", stats), HasSubstr("TEXT named_metrics.kv_cache_usage_perc=0.25, named_metrics."));
    const std::string json = load_report("JSON", stats).value();
    EXPECT_EQ(nlohmann::json::parse(json.substr(5))["named_metrics"]["num_requests_waiting"], 2);
    EXPECT_FALSE(load_report("BIN", stats));
}

AccessEntry entry_of(const std::string& id) {
    return {.time = std::chrono::system_clock::time_point(std::chrono::milliseconds(1'700'000'000'123)),
            .request_id = id,
            .remote = "127.0.0.1",
            .key = "alice",
            .method = "POST",
            .path = "/v1/\"odd\"\n\xff",
            .status = 200,
            .seconds = 0.0125,
            .model = "tales",
            .finish = "stop",
            .prompt_tokens = 3};
}

TEST(AccessLog, IsOneLineOfJsonForEachRequest) {
    const std::string line = to_json_line(entry_of("req_1"));
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json["time"], "2023-11-14T22:13:20.123Z");
    EXPECT_EQ(json["id"], "req_1");
    EXPECT_EQ(json["ms"], 12.5);
    EXPECT_EQ(json["key"], "alice");
    EXPECT_EQ(json["prompt_tokens"], 3);
    EXPECT_FALSE(json.contains("error"));
}

TEST(AccessLog, TakesSaneIdsOfClients) {
    EXPECT_EQ(request_id("abc-1.2_3"), "abc-1.2_3");
    for (const std::string& bad :
         {std::string(), std::string("a b"), std::string("a\r\nx: y"), std::string(200, 'a')}) {
        const std::string made = request_id(bad);
        EXPECT_EQ(made.rfind("req_", 0), 0U);
        EXPECT_NE(made, request_id(bad));
    }
}

TEST(AccessLog, AppendsToAFile) {
    const fs::path path = fs::path(testing::TempDir()) / "access_test.log";
    fs::remove(path);
    for (const char* id : {"first", "second"}) {
        auto log = AccessLog::open(path);
        ASSERT_TRUE(log);
        (*log)->add(entry_of(id));
    }
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    EXPECT_EQ(nlohmann::json::parse(line)["id"], "first");
    std::getline(file, line);
    EXPECT_EQ(nlohmann::json::parse(line)["id"], "second");
    fs::remove(path);
    EXPECT_FALSE(AccessLog::open("/no/such/folder/log"));
}

TEST(AccessLog, DropsLinesOfAFullDiskAndGoesOn) {
    if (!fs::exists("/dev/full")) GTEST_SKIP();
    auto log = AccessLog::open("/dev/full");
    ASSERT_TRUE(log);
    for (int i = 0; i < 20'000; ++i) (*log)->add(entry_of("x"));
}

}  // namespace
}  // namespace tandem::server
