#include "engine/kv_blocks.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tandem::engine {
namespace {

constexpr int kBlockTokens = 4;

std::vector<TokenId> tokens(int count, int first = 100) {
    std::vector<TokenId> result(static_cast<size_t>(count));
    std::iota(result.begin(), result.end(), first);
    return result;
}

// One group that keeps everything and one with a window of 6.
class Blocks : public testing::Test {
  protected:
    // A sequence that begins with what is known, computes the rest and ends; returns what it found.
    int run(std::span<const TokenId> sequence, std::string_view salt = "") {
        BlockTable table;
        const int found = blocks_.take_prefix(table, salt, sequence);
        for (int written = found; written < std::ssize(sequence); ++written) {
            EXPECT_TRUE(blocks_.grow(table, written, written + 1));
            blocks_.copied();
            blocks_.settle(table, sequence, written + 1);
        }
        expect_consistent({&table});
        blocks_.release(table, sequence, static_cast<int>(sequence.size()));
        expect_consistent({});
        return found;
    }

    // The table of a sequence that has computed all its tokens at once.
    BlockTable computed(std::span<const TokenId> sequence) {
        const int length = static_cast<int>(sequence.size());
        BlockTable table;
        blocks_.take_prefix(table, "", sequence);
        EXPECT_TRUE(blocks_.grow(table, 0, length));
        blocks_.settle(table, sequence, length);
        return table;
    }

    void expect_consistent(const std::vector<const BlockTable*>& tables) const { EXPECT_EQ(blocks_.audit(tables), ""); }

    KvBlocks blocks_{kBlockTokens, {{.window = 0, .blocks = 16}, {.window = 6, .blocks = 12}}};
};

TEST_F(Blocks, APromptIsFoundAgainButForItsLastToken) {
    EXPECT_EQ(run(tokens(11)), 0);
    EXPECT_EQ(run(tokens(11)), 10);
    EXPECT_EQ(run(tokens(8)), 7);
    EXPECT_EQ(run(tokens(1)), 0);
}

TEST_F(Blocks, WhatFollowsAnEndedSequenceFindsAllOfIt) {
    std::vector<TokenId> chat = tokens(5);
    EXPECT_EQ(run(chat), 0);
    for (int turn = 1; turn < 10; ++turn) {
        const auto before = static_cast<int>(chat.size());
        chat.insert(chat.end(), {turn, turn + 1, turn + 2});
        EXPECT_EQ(run(chat), before);
    }
}

TEST_F(Blocks, ASaltKeepsUsersApart) {
    EXPECT_EQ(run(tokens(9), "anna"), 0);
    EXPECT_EQ(run(tokens(9), "bert"), 0);
    EXPECT_EQ(run(tokens(9), "anna"), 8);
}

TEST_F(Blocks, OnlyWhatIsTheSameIsTakenOver) {
    std::vector<TokenId> one = tokens(10);
    std::vector<TokenId> other = one;
    other[6] = 7;
    run(one);
    EXPECT_EQ(run(other), 6);
    EXPECT_EQ(run(one), 9) << "the other took a copy";
}

TEST_F(Blocks, TheOldestContentIsGivenUpFirst) {
    run(tokens(12, 100));  // 3 blocks
    run(tokens(12, 200));
    run(tokens(12, 100));
    run(tokens(30, 300));  // 8 blocks: those without content, then the oldest
    EXPECT_EQ(run(tokens(12, 100)), 11);
    EXPECT_LT(run(tokens(12, 200)), 11);
}

TEST_F(Blocks, AWindowKeepsOnlyItsBlocks) {
    const std::vector<TokenId> sequence = tokens(40);
    BlockTable table;
    blocks_.take_prefix(table, "", sequence);
    for (int written = 0; written < 40; ++written) {
        ASSERT_TRUE(blocks_.grow(table, written, written + 1));
        blocks_.settle(table, sequence, written + 1);
        EXPECT_LE(std::ssize(table.groups[1].blocks) - table.groups[1].first, 3);
    }
    EXPECT_EQ(blocks_.available(0), 16 - 10);
    EXPECT_EQ(blocks_.available(1), 12 - 2);  // positions 35 to 39
    blocks_.release(table, sequence, 40);
}

TEST_F(Blocks, GrowingIsAllOrNothing) {
    const std::vector<TokenId> sequence = tokens(64);
    BlockTable table;
    blocks_.take_nothing(table, "");
    EXPECT_FALSE(blocks_.grow(table, 0, 13 * kBlockTokens)) << "the window's group has only 12";
    EXPECT_EQ(blocks_.available(0), 16);
    EXPECT_TRUE(blocks_.grow(table, 0, 12 * kBlockTokens));
    blocks_.release(table, sequence, 0);
    EXPECT_EQ(blocks_.available(1), 12);
}

TEST_F(Blocks, ForksShareUntilOneWrites) {
    const std::vector<TokenId> prompt = tokens(6);
    BlockTable one = computed(prompt);
    BlockTable two = blocks_.fork(one, 6);
    expect_consistent({&one, &two});
    EXPECT_EQ(blocks_.available(0), 14);

    ASSERT_TRUE(blocks_.grow(one, 6, 7));
    ASSERT_EQ(blocks_.copies().size(), 2U);  // one per group
    EXPECT_EQ(blocks_.copies()[0].from, two.groups[0].blocks[1]);
    EXPECT_EQ(blocks_.copies()[0].to, one.groups[0].blocks[1]);
    ASSERT_TRUE(blocks_.grow(two, 6, 7));
    EXPECT_EQ(blocks_.copies().size(), 2U) << "the last one needs no copy";
    blocks_.copied();
    EXPECT_EQ(one.groups[0].blocks[0], two.groups[0].blocks[0]);
    EXPECT_NE(one.groups[0].blocks[1], two.groups[0].blocks[1]);
    expect_consistent({&one, &two});
    blocks_.release(one, prompt, 6);
    blocks_.release(two, prompt, 6);
    expect_consistent({});
}

TEST_F(Blocks, ACopyThatIsNotMadeAnyMoreIsTakenBack) {
    const std::vector<TokenId> prompt = tokens(6);
    BlockTable one = computed(prompt);
    BlockTable two = blocks_.fork(one, 6);
    ASSERT_TRUE(blocks_.grow(two, 6, 7));
    blocks_.release(two, prompt, 6);
    EXPECT_TRUE(blocks_.copies().empty());
    expect_consistent({&one});
    blocks_.release(one, prompt, 6);
    EXPECT_EQ(run(prompt), 5);
}

TEST_F(Blocks, ForgettingLeavesNothing) {
    run(tokens(11));
    blocks_.forget();
    EXPECT_EQ(run(tokens(11)), 0);
}

}  // namespace
}  // namespace tandem::engine
