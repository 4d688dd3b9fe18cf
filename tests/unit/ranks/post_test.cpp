#include "ranks/post.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "unit/ranks/loopback.h"

namespace tandem::ranks {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

std::string text_of(const Post::Message& message) {
    return {reinterpret_cast<const char*>(message.body().data()), message.body().size()};
}

struct Pair {
    explicit Pair(std::chrono::milliseconds silence = std::chrono::minutes(10)) {
        for (int rank = 0; rank < 2; ++rank) {
            posts[rank] = Post::open(std::make_unique<Loopback>(network, rank),
                                     {.beat = std::chrono::milliseconds(5),
                                      .silence = silence,
                                      .on_failure = [this](const std::string&) { ++failures; }})
                              .value();
            posts[rank]->name_host(0, "a");
            posts[rank]->name_host(1, "b");
        }
    }
    std::shared_ptr<Network> network = std::make_shared<Network>(2, std::chrono::microseconds(300));
    std::atomic<int> failures = 0;
    std::unique_ptr<Post> posts[2];
};

TEST(Post, DeliversInOrderByChannel) {
    Pair pair;
    for (int i = 0; i < 20; ++i) pair.posts[0]->send(1, Channel::values, bytes_of(std::to_string(i)));
    pair.posts[0]->send(1, Channel::command, bytes_of("first"));
    EXPECT_EQ(text_of(pair.posts[1]->receive(0, Channel::command).value()), "first");
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(text_of(pair.posts[1]->receive(0, Channel::values).value()), std::to_string(i));
    EXPECT_GT(pair.posts[0]->sent_bytes(1), 0U);
}

TEST(Post, WhatWasSentArrivesAlsoWhenTheSenderEnds) {
    Pair pair;
    pair.posts[0]->send(1, Channel::command, bytes_of("end"));
    pair.posts[0].reset();
    EXPECT_EQ(text_of(pair.posts[1]->receive(0, Channel::command).value()), "end");
    pair.posts[1].reset();
    EXPECT_EQ(pair.network->closed(), 2);
    EXPECT_FALSE(pair.network->aborted());
}

TEST(Post, MeasuresTheHop) {
    Pair pair;
    while (pair.posts[0]->hop_seconds(1) == 0) std::this_thread::yield();
    EXPECT_GE(pair.posts[0]->hop_seconds(1), 0.0003);
}

TEST(Post, SaysWhoFellSilentAndEndsTheJob) {
    Pair pair(std::chrono::seconds(10));  // less might be a thread that does not get its turn
    pair.posts[0]->send(1, Channel::command, bytes_of("hello"));
    ASSERT_TRUE(pair.posts[1]->receive(0, Channel::command));
    pair.network->lose(1);
    const auto lost = pair.posts[0]->receive(1, Channel::values);  // waits until it is found out
    ASSERT_FALSE(lost);
    EXPECT_THAT(lost.error().message, testing::HasSubstr("rank 1 (b) has been silent for 10 s"));
    const auto lost_too = pair.posts[1]->receive(0, Channel::command);
    ASSERT_FALSE(lost_too);
    EXPECT_THAT(lost_too.error().message, testing::HasSubstr("rank 0 (a)"));
    EXPECT_FALSE(pair.posts[0]->receive(1, Channel::values)) << "and from then on";
    pair.posts[0].reset();
    EXPECT_TRUE(pair.network->aborted());
    pair.posts[1].reset();
    EXPECT_EQ(pair.failures.load(), 2);
    EXPECT_EQ(pair.network->closed(), 0);
}

}  // namespace
}  // namespace tandem::ranks
