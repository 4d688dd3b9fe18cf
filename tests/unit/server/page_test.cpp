#include "server/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::server {
namespace {

TEST(Page, HasAFirstPageAndAnIconInEveryBuild) {
    for (const char* path : {"/", "/index.html", "/icon.svg"}) {
        const PageFile* file = find_page_file(path);
        ASSERT_NE(file, nullptr) << path;
        EXPECT_FALSE(file->bytes.empty()) << path;
        EXPECT_THAT(file->etag, testing::MatchesRegex("\"[0-9a-f]+\""));
    }
    EXPECT_THAT(std::string(find_page_file("/")->bytes), testing::StartsWith("<!doctype html>"));
    EXPECT_EQ(find_page_file("/")->content_type, "text/html; charset=utf-8");
    EXPECT_NE(find_page_file("/")->etag, find_page_file("/icon.svg")->etag);
}

TEST(Page, FilesItDoesNotHaveAreNotFound) {
    for (const char* path : {"", "app.js", "/nothing.js", "/../page.cpp", "/icon.svg/", "//"}) {
        EXPECT_EQ(find_page_file(path), nullptr) << path;
    }
}

// The policy forbids scripts and styles inside the document, so it must have none.
TEST(Page, HasNothingThatItsOwnPolicyForbids) {
    const std::string html(find_page_file("/")->bytes);
    for (const char* forbidden : {"<style", " style=", " onclick=", "http://", "https://", "javascript:"}) {
        EXPECT_THAT(html, testing::Not(testing::HasSubstr(forbidden)));
    }
    for (size_t at = html.find("<script"); at != std::string::npos; at = html.find("<script", at + 1)) {
        EXPECT_NE(html.substr(at, html.find('>', at) - at).find(" src="), std::string::npos) << html.substr(at, 80);
    }
    std::string policy;
    for (const PageHeader& header : page_headers()) {
        if (header.name == "Content-Security-Policy") policy = header.value;
    }
    EXPECT_THAT(policy, testing::HasSubstr("default-src 'none'"));
    EXPECT_THAT(policy, testing::Not(testing::HasSubstr("unsafe")));
}

}  // namespace
}  // namespace tandem::server
