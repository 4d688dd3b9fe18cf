#include "hub/reference.h"

#include <gtest/gtest.h>

namespace tandem::hub {
namespace {

constexpr std::string_view kEndpoint = "http://mirror.example";

Reference parsed(std::string_view text) {
    const auto reference = parse_reference(text, kEndpoint);
    EXPECT_TRUE(reference && *reference) << text;
    return reference && *reference ? **reference : Reference{};
}

TEST(Reference, ReadsWhatPeopleWrite) {
    for (const char* const text :
         {"org/name", "hf.co/org/name", "huggingface.co/org/name", "https://huggingface.co/org/name", "hf://org/name",
          "http://mirror.example/org/name", "https://hf.co/org/name/"}) {
        EXPECT_EQ(parsed(text).repo, "org/name") << text;
        EXPECT_EQ(parsed(text).tag, "") << text;
        EXPECT_EQ(parsed(text).revision, "main") << text;
    }
    EXPECT_EQ(parsed("org/name:Q8_0").tag, "Q8_0");
    EXPECT_EQ(parsed("hf.co/org/name:dir/file-Q8_0.gguf").tag, "dir/file-Q8_0.gguf");
    EXPECT_EQ(parsed("org/name@v2:Q8_0").revision, "v2");
}

TEST(Reference, ReadsAddressesOfPagesAndFiles) {
    const Reference file = parsed("https://huggingface.co/org/name/resolve/main/sub/model.gguf?download=true");
    EXPECT_EQ(file.repo, "org/name");
    EXPECT_EQ(file.tag, "sub/model.gguf");
    EXPECT_EQ(parsed("https://huggingface.co/org/name/blob/v1/model.gguf").revision, "v1");
    EXPECT_EQ(parsed("https://huggingface.co/org/name/tree/v1").revision, "v1");
    EXPECT_EQ(parsed("https://example.org/x/model.gguf?key=1").url, "https://example.org/x/model.gguf?key=1");
}

TEST(Reference, LeavesOtherTextAlone) {
    for (const char* const text : {"tales", "gemma3:4b", "Why is the sky blue?", "a/b/c.gguf", "./x/y", "/x/y", ""}) {
        const auto reference = parse_reference(text, kEndpoint);
        ASSERT_TRUE(reference) << text;
        EXPECT_FALSE(*reference) << text;
    }
}

TEST(Reference, RefusesWhatCouldLeadElsewhere) {
    for (const char* const text :
         {"hf.co/org", "hf.co/../name", "org/name:", "org/name:../../x", "hf.co/org/name:/etc/x",
          "https://example.org/page.html", "https://huggingface.co/org/name/resolve/main"}) {
        EXPECT_FALSE(parse_reference(text, kEndpoint)) << text;
    }
}

TEST(Reference, KnowsInnerPaths) {
    EXPECT_TRUE(is_inner_path("a/b.gguf"));
    for (const char* const path : {"", "/a", "a//b", "../a", "a/../b", "a/.", "a\\b"})
        EXPECT_FALSE(is_inner_path(path)) << path;
}

}  // namespace
}  // namespace tandem::hub
