#include "hub/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hub/library.h"

namespace tandem::hub {
namespace {

using testing::HasSubstr;

const std::string kSha1(40, 'a');
const std::string kSha256(64, 'b');

std::string entry(const std::string& path, const std::string& lfs_oid) {
    return R"({"type": "file", "path": ")" + path + R"(", "size": 5, "oid": ")" + kSha1 + R"(", "lfs": {"oid": ")" +
           lfs_oid + R"(", "size": 7, "pointerSize": 1}})";
}

TEST(Repository, ReadsAListOfFiles) {
    const std::string plain = R"({"type": "file", "path": "config.json", "size": 5, "oid": ")" + kSha1 + R"("})";
    const auto files = parse_tree(
        "[" + plain + R"(, {"type": "directory", "path": "x", "size": 0}, )" + entry("x/m.gguf", kSha256) + "]",
        "list");
    ASSERT_TRUE(files);
    ASSERT_EQ(files->size(), 2U);
    EXPECT_EQ((*files)[0].etag, kSha1);
    EXPECT_EQ((*files)[0].size_bytes, 5U);
    EXPECT_EQ((*files)[1].etag, kSha256);
    EXPECT_EQ((*files)[1].size_bytes, 7U);
}

TEST(Repository, RefusesHostileLists) {
    for (const std::string& json :
         {std::string("{}"), std::string("[1]"), "[" + entry("../x", kSha256) + "]", "[" + entry("/x", kSha256) + "]",
          "[" + entry("x", "../../" + kSha256) + "]", std::string(R"([{"type": "file", "path": "x"}])")}) {
        EXPECT_FALSE(parse_tree(json, "list")) << json;
    }
    EXPECT_FALSE(parse_commit(R"({"sha": "../main"})", "info"));
    EXPECT_EQ(*parse_commit(R"({"sha": ")" + kSha1 + R"("})", "info"), kSha1);
}

TEST(Repository, FollowsPages) {
    EXPECT_EQ(next_page(R"(<https://x/y?cursor=1>; rel="next")"), "https://x/y?cursor=1");
    EXPECT_EQ(next_page(R"(<https://x/1>; rel="prev", </y>; rel="next")"), "/y");
    EXPECT_EQ(next_page(R"(<https://x/1>; rel="prev")"), "");
    EXPECT_EQ(next_page("<broken"), "");
}

TEST(Http, MakesAddressesAbsolute) {
    EXPECT_EQ(resolve_url("https://h:1/a/b", "/c"), "https://h:1/c");
    EXPECT_EQ(resolve_url("https://h/a/b", "c"), "https://h/a/c");
    EXPECT_EQ(resolve_url("https://h/a/b", "//i/c"), "https://i/c");
    EXPECT_EQ(resolve_url("https://h/a/b", "http://i/c"), "http://i/c");
    EXPECT_EQ(origin_of("https://h:1/a?b"), "https://h:1");
}

TEST(Http, WaitsAsLongAsTheServerSays) {
    const Http http({.first_wait = std::chrono::milliseconds(10)});
    AnswerHeaders headers;
    EXPECT_EQ(http.wait_after(1, headers).count(), 10);
    EXPECT_EQ(http.wait_after(3, headers).count(), 40);
    headers.add_line("Retry-After: 7\r\n");
    EXPECT_EQ(http.wait_after(1, headers).count(), 7000);
    headers.add_line("RateLimit: \"resolvers\";r=0;t=55\r\n");
    EXPECT_EQ(http.wait_after(1, headers).count(), 56'000);
    headers.add_line("HTTP/1.1 200 OK\r\n");
    EXPECT_EQ(headers.find("retry-after"), "");
}

TEST(Http, SaysWhatAStatusMeans) {
    const Http plain({});
    Places with_token;
    with_token.token = "secret";
    const Http known({.places = with_token});
    HttpAnswer gated{.status = 403, .url = "https://huggingface.co/api/models/org/name/revision/main"};
    gated.headers.add_line("X-Error-Code: GatedRepo");
    EXPECT_THAT(plain.explain(gated).message,
                HasSubstr("accept them at https://huggingface.co/org/name, then set HF_TOKEN"));
    const HttpAnswer unknown{.status = 401, .url = "https://huggingface.co/org/name/resolve/x/y?Signature=private"};
    EXPECT_THAT(plain.explain(unknown).message, HasSubstr("no such repository, or it is private"));
    EXPECT_THAT(known.explain(unknown).message, HasSubstr("log in again"));
    for (const Http* http : {&plain, &known}) {
        EXPECT_THAT(http->explain(unknown).message, Not(HasSubstr("secret")));
        EXPECT_THAT(http->explain(unknown).message, Not(HasSubstr("private?")));
        EXPECT_THAT(http->explain(unknown).message, Not(HasSubstr("Signature")));
    }
}

TEST(Manifest, NamesTheModelAmongTheLayers) {
    const std::string layer =
        R"({"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:)" + kSha256 + R"("})";
    EXPECT_EQ(
        *parse_manifest(R"({"layers": [{"mediaType": "application/vnd.ollama.image.license"}, )" + layer + "]}", "m"),
        "sha256:" + kSha256);
    for (const char* const json :
         {"[]", "{}", R"({"layers": 1})", R"({"layers": []})",
          R"({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../x"}]})"}) {
        EXPECT_FALSE(parse_manifest(json, "m")) << json;
    }
}

}  // namespace
}  // namespace tandem::hub
