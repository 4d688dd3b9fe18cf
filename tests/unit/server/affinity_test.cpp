#include "server/affinity.h"

#include <gtest/gtest.h>

namespace tandem::server {
namespace {

Ask chat(const char* messages) {
    Ask ask;
    ask.messages = Json::parse(messages);
    return ask;
}

TEST(Affinity, EveryTurnOfAConversationHasTheSameKey) {
    const std::string first =
        prefix_key(chat(R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])"));
    EXPECT_EQ(first.size(), 16U);
    EXPECT_EQ(first, prefix_key(chat(R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},
        {"role":"assistant","content":"Hello."},{"role":"user","content":"Who are you?"}])")));
}

TEST(Affinity, AnotherBeginningHasAnotherKey) {
    const char* const hi = R"([{"role":"user","content":"Hi"}])";
    const std::string key = prefix_key(chat(hi));
    EXPECT_NE(key, prefix_key(chat(R"([{"role":"user","content":"Ho"}])")));
    EXPECT_NE(key, prefix_key(chat(R"([{"role":"system","content":""},{"role":"user","content":"Hi"}])")));
    Ask other = chat(hi);
    other.model = "another";
    EXPECT_NE(key, prefix_key(other));
    Ask salted = chat(hi);
    salted.cache_salt = "a";
    EXPECT_NE(key, prefix_key(salted));
}

TEST(Affinity, PromptsShareAKeyByTheirBeginning) {
    const auto completion = [](const Prompt& prompt) {
        Ask ask;
        ask.kind = AskKind::completion;
        ask.prompts = {prompt};
        return prefix_key(ask);
    };
    const std::string beginning(1024, 'x');
    EXPECT_EQ(completion(beginning + "one"), completion(beginning + "two"));
    EXPECT_NE(completion(std::string("one")), completion(std::string("two")));
    std::vector<text::TokenId> tokens(256, 7);
    const std::string key = completion(tokens);
    tokens.push_back(8);
    EXPECT_EQ(key, completion(tokens));
    tokens[0] = 8;
    EXPECT_NE(key, completion(tokens));
}

TEST(Affinity, WhatNoCacheHelpsHasNone) {
    Ask embedding;
    embedding.kind = AskKind::embedding;
    embedding.prompts = {std::string("text")};
    EXPECT_EQ(prefix_key(embedding), "");
    EXPECT_EQ(prefix_key(Ask{}), "");  // only loads
}

// The keys are the same in every version: a balancer's table outlives an upgrade of its servers.
TEST(Affinity, KeysDoNotChange) {
    EXPECT_EQ(prefix_key(chat(R"([{"role":"user","content":"Hi"}])")), "15751a44a806e1d3");
}

}  // namespace
}  // namespace tandem::server
