#include "server/guard.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "server/keys.h"
#include "server/limits.h"

namespace tandem::server {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

// 0: it is let through.
template <typename T>
int status(const Reply<T>& reply) {
    return reply ? 0 : reply.error().status;
}

int host(const std::string& value, const GuardRules& rules = {}) {
    return status(check_host({.method = "GET", .target = "/", .headers = {{"host", value}}}, rules));
}

int origin(const std::string& value, const GuardRules& rules = {}) {
    const RequestHead head{.method = "POST", .target = "/", .headers = {{"host", "localhost:8080"}, {"origin", value}}};
    return status(check_origin(head, rules));
}

TEST(Guard, AnswersOnlyToItsOwnNames) {
    for (const char* name : {"localhost", "localhost:8080", "LocalHost.", "app.localhost:1", "127.0.0.1:11434",
                             "192.168.1.7.", "[::1]", "[::1]:8080", "[fe80::1]:80"}) {
        EXPECT_EQ(host(name), 0) << name;
    }
    for (const char* name : {"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
                             "1.2.3.4.5", "1.2.3", "0x7f.1", "example"}) {
        EXPECT_EQ(host(name), 403) << name;
    }
    for (const char* name : {"", ":80", "localhost:", "localhost:x", "localhost:123456", "localhost:80@evil.example",
                             "localhost/", "[::1", "[]", "[evil]", "[::1]evil", "a b", "local\thost", "\xff"}) {
        EXPECT_EQ(host(name), 400) << name;
    }
    EXPECT_EQ(host("chat.example.org:443", {.hosts = {"chat.example.org"}}), 0);
    EXPECT_EQ(host("anything", {.hosts = {"*"}}), 0);
    EXPECT_EQ(status(check_host({.headers = {}}, {})), 400);
    EXPECT_EQ(status(check_host({.headers = {{"host", "localhost"}, {"host", "evil.example"}}}, {})), 400);
}

TEST(Guard, ShutsPagesOfOtherSitesOut) {
    EXPECT_EQ(origin("http://localhost:8080"), 0) << "its own page";
    for (const char* page : {"http://evil.example", "https://localhost", "http://localhost:8081", "null", "file://",
                             "http://localhost:8080.evil.example", "http://127.0.0.1:8080", ""}) {
        EXPECT_EQ(origin(page), 403) << page;
    }
    const GuardRules rules{.origins = {"https://chat.example.org"}};
    EXPECT_EQ(origin("https://chat.example.org", rules), 0);
    EXPECT_EQ(origin("http://chat.example.org", rules), 403);
    EXPECT_EQ(origin("https://chat.example.org.evil.example", rules), 403);
    EXPECT_EQ(origin("null", {.origins = {"*"}}), 0);
    const RequestHead image{.headers = {{"host", "localhost"}, {"sec-fetch-site", "cross-site"}}};
    EXPECT_EQ(status(check_origin(image, {})), 403);
    const RequestHead link{
        .headers = {{"host", "localhost"}, {"sec-fetch-site", "cross-site"}, {"sec-fetch-mode", "navigate"}}};
    EXPECT_EQ(status(check_origin(link, {})), 0);
    EXPECT_EQ(status(check_origin({.headers = {{"host", "localhost"}}}, {})), 0) << "no browser at all";
}

TEST(Guard, AnswersPreflightsOfAllowedPages) {
    const RequestHead head{.method = "OPTIONS",
                           .target = "/v1/models",
                           .headers = {{"host", "localhost"},
                                       {"origin", "https://a.example"},
                                       {"access-control-request-method", "POST"},
                                       {"access-control-request-headers", "authorization,x-stainless-os"}}};
    EXPECT_TRUE(is_preflight(head));
    EXPECT_EQ(status(check_origin(head, {})), 403);
    const auto allowed = check_origin(head, {.origins = {"https://a.example"}});
    ASSERT_TRUE(allowed);
    EXPECT_EQ(allowed->front(),
              std::pair(std::string("access-control-allow-origin"), std::string("https://a.example")));
    EXPECT_EQ(preflight_headers(head).back().second, "authorization,x-stainless-os");
    RequestHead split = head;
    split.headers.back().second = "a\r\nset-cookie: x";
    for (const auto& header : preflight_headers(split)) EXPECT_EQ(header.second.find("cookie"), std::string::npos);
}

TEST(Guard, TakesTheTargetsThatProxiesGet) {
    const auto target = [](const char* text, const char* host) -> Reply<std::string> {
        RequestHead head{.method = "GET", .target = text, .headers = {{"host", host}}};
        TRY(take_absolute_target(head));
        return head.target;
    };
    EXPECT_EQ(*target("/v1/models", "localhost"), "/v1/models");
    EXPECT_EQ(*target("http://localhost:8080/v1/models?x=http://y/", "localhost:8080"), "/v1/models?x=http://y/");
    EXPECT_EQ(*target("HTTPS://LocalHost", "localhost"), "/");
    EXPECT_EQ(*target("http://localhost?x", "localhost"), "/?x");
    EXPECT_EQ(status(target("http://evil.example/", "localhost")), 400);
    EXPECT_EQ(status(target("http://localhost@evil.example/", "localhost")), 400);
    EXPECT_EQ(*target("ftp://localhost/", "localhost"), "ftp://localhost/") << "which is no path";
}

TEST(Guard, KnowsOneFormOfAPath) {
    EXPECT_EQ(normalise_target("/v1/models?limit=3&x=/../")->path, "/v1/models");
    EXPECT_EQ(normalise_target("/v1/models?limit=3")->query, "limit=3");
    EXPECT_EQ(normalise_target("/v1/models/")->path, "/v1/models");
    EXPECT_EQ(normalise_target("/")->path, "/");
    EXPECT_EQ(normalise_target("/v1/%6dodels/org%2Fname%25")->path, "/v1/models/org/name%");
    for (const char* target : {"",
                               "v1",
                               "http://evil.example/",
                               "//",
                               "/v1//models",
                               "/v1/../admin",
                               "/v1/%2e%2e/admin",
                               "/v1/%2E./admin",
                               "/./v1",
                               "/v1/.",
                               "/v1/%00",
                               "/v1/a%5Cb",
                               "/v1\\models",
                               "/%",
                               "/%4",
                               "/%zz",
                               "/a%0d%0ab",
                               "/%ff",
                               "/v1%2f%2fx",
                               "*",
                               "/a#b"}) {
        EXPECT_EQ(status(normalise_target(target)), 400) << target;
    }
    EXPECT_EQ(status(normalise_target("/" + std::string(10'000, 'a'))), 414);
}

TEST(Guard, TakesOneKey) {
    const auto key = [](Headers headers) { return presented_key({.headers = std::move(headers)}); };
    EXPECT_EQ(**key({{"authorization", "Bearer abc"}}), "abc");
    EXPECT_EQ(**key({{"authorization", "bearer abc"}}), "abc");
    EXPECT_EQ(**key({{"x-api-key", "abc"}}), "abc");
    EXPECT_EQ(**key({{"x-api-key", "abc"}, {"authorization", "Bearer abc"}}), "abc");
    EXPECT_FALSE(key({})->has_value());
    EXPECT_EQ(status(key({{"x-api-key", "good"}, {"authorization", "Bearer bad"}})), 400);
    EXPECT_EQ(status(key({{"x-api-key", "good"}, {"x-api-key", "good"}})), 400);
    EXPECT_EQ(status(key({{"authorization", "Bearer a"}, {"authorization", "Bearer a"}})), 400);
    EXPECT_EQ(status(key({{"authorization", "Basic abc"}})), 401);
}

constexpr const char* kFile =
    "# comment\n"
    "\n"
    "sk-0123456789abcdef use alice\r\n"
    "  sk-admin-0123456789\tuse,admin ops\n"
    "sk-nameless-0123456 admin";

TEST(Keys, HaveScopesAndNames) {
    const auto keys = Keys::parse(kFile, "keys");
    ASSERT_TRUE(keys) << keys.error().message;
    const Key* const alice = keys->find("sk-0123456789abcdef");
    ASSERT_NE(alice, nullptr);
    EXPECT_EQ(alice->name, "alice");
    EXPECT_TRUE(alice->has(Scope::use));
    EXPECT_FALSE(alice->has(Scope::admin));
    EXPECT_TRUE(keys->find("sk-admin-0123456789")->has(Scope::admin));
    EXPECT_EQ(keys->find("sk-nameless-0123456")->name, "line-5");
    EXPECT_FALSE(keys->find("sk-nameless-0123456")->has(Scope::use));
    for (const char* wrong : {"", "sk-0123456789abcde", "sk-0123456789abcdeg", "sk-0123456789abcdef ", "alice", "#"})
        EXPECT_EQ(keys->find(wrong), nullptr) << wrong;
    EXPECT_EQ(keys->find(std::string_view("sk-0123456789abcdef\0", 20)), nullptr);
}

TEST(Keys, RefusesWhatIsNoKeyFileAndNeverShowsAKey) {
    for (const std::string line : {"short use", "sk-0123456789abcdef", "sk-0123456789abcdef root",
                                   "sk-0123456789abcdef use a b", "sk-0123456789abcd\xC3\xA9 use"}) {
        const auto keys = Keys::parse("\n" + line, "keys");
        ASSERT_FALSE(keys) << line;
        EXPECT_EQ(keys.error().message.rfind("keys, line 2: ", 0), 0U) << keys.error().message;
        EXPECT_EQ(keys.error().message.find("sk-"), std::string::npos) << keys.error().message;
    }
    EXPECT_FALSE(Keys::parse("sk-0123456789abcdef use a\nsk-0123456789abcdef use b", "keys"));
    EXPECT_FALSE(Keys::parse("sk-0123456789abcdef use a\nsk-0123456789abcdeg use a", "keys"));
    EXPECT_FALSE(Keys::parse("# nothing", "keys"));
}

TEST(Keys, RefusesAFileThatOthersMayRead) {
    const fs::path path = fs::path(testing::TempDir()) / "keys_test";
    std::ofstream(path) << kFile;
    fs::permissions(path, fs::perms::owner_read);
    EXPECT_TRUE(Keys::load(path));
    fs::permissions(path, fs::perms::owner_read | fs::perms::group_read);
    const auto keys = Keys::load(path);
    ASSERT_FALSE(keys);
    EXPECT_NE(keys.error().message.find("chmod 600"), std::string::npos);
    fs::remove(path);
    EXPECT_FALSE(Keys::load(path));
    EXPECT_FALSE(Keys::load(testing::TempDir()));
}

TEST(Limits, LetAMinutesRequestsThroughAndThenTheRate) {
    Limits limits({.requests_per_minute = 10});
    Limits::TimePoint now;
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(limits.enter("a", now)) << i;
    const auto refused = limits.enter("a", now + milliseconds(200));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, 429);
    EXPECT_EQ(refused.error().retry_after_s, 6);
    EXPECT_EQ(refused.error().message,
              "this key may make 10 requests a minute and has used them up: there is one more in 6 s");
    EXPECT_TRUE(refused.error().retry_helps());
    EXPECT_TRUE(limits.enter("b", now)) << "another key has its own";
    EXPECT_TRUE(limits.enter("a", now + milliseconds(6200))) << "as it was told";
    EXPECT_FALSE(limits.enter("a", now + milliseconds(6300)));
    now += seconds(1000);
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(limits.enter("a", now)) << i;
    EXPECT_FALSE(limits.enter("a", now)) << "never more than a minute's";
}

TEST(Limits, SaysHowLongToWait) {
    for (const double rate : {0.001, 0.5, 1.0, 2.0, 7.0, 60.0, 90.0, 6000.0}) {
        Limits limits({.requests_per_minute = rate});
        Limits::TimePoint now;
        auto entered = limits.enter("a", now);
        EXPECT_TRUE(entered) << "at least one";
        for (int refusals = 0; refusals < 20;) {
            entered = limits.enter("a", now);
            if (entered) continue;
            ++refusals;
            EXPECT_GE(entered.error().retry_after_s, 1);
            now += seconds(entered.error().retry_after_s);
            EXPECT_TRUE(limits.enter("a", now)) << rate;
        }
    }
    Limits limits({.requests_per_minute = 2});
    const Limits::TimePoint now;
    EXPECT_TRUE(limits.enter("a", now) && limits.enter("a", now));
    const auto refused = limits.enter("a", now + seconds(3));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().retry_after_s, 27);
}

TEST(Limits, CountsWhatIsUnderWay) {
    Limits limits({.concurrent = 2});
    const Limits::TimePoint now;
    auto first = limits.enter("a", now);
    auto second = limits.enter("a", now);
    EXPECT_TRUE(first && second);
    EXPECT_EQ(status(limits.enter("a", now)), 429);
    EXPECT_TRUE(limits.enter("b", now));
    *first = nullptr;
    EXPECT_TRUE(limits.enter("a", now));
}

TEST(Limits, OutlivedByATicket) {
    Limits::Ticket ticket;
    {
        Limits limits({.concurrent = 1});
        ticket = *limits.enter("a", {});
    }
    ticket = nullptr;
    Limits many({.requests_per_minute = 6000, .concurrent = 1});
    Limits::TimePoint now;
    for (int i = 0; i < 20'000; ++i) EXPECT_TRUE(many.enter(std::to_string(i), now += seconds(1)));
}

}  // namespace
}  // namespace tandem::server
