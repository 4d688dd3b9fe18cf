#include "engine/stop_matcher.h"

#include <gtest/gtest.h>

namespace tandem::engine {
namespace {

// What is shown when `text` arrives in pieces of `step` bytes.
std::string shown(const std::vector<std::string>& stops, std::string_view text, size_t step) {
    StopMatcher matcher(stops);
    std::string result;
    for (size_t i = 0; i < text.size(); i += step) result += matcher.push(text.substr(i, step));
    return result + matcher.finish();
}

TEST(StopMatcher, GivesTheSameForAnyPieces) {
    for (size_t step = 1; step <= 20; ++step) {
        EXPECT_EQ(shown({"END"}, "one two END three", step), "one two ");
        EXPECT_EQ(shown({"aab"}, "aaaab", step), "aa");
        EXPECT_EQ(shown({"xyz", "yz!"}, "ab xyz!", step), "ab ");
        EXPECT_EQ(shown({"END"}, "no such EN", step), "no such EN");
        EXPECT_EQ(shown({}, "all of it", step), "all of it");
        EXPECT_EQ(shown({""}, "all of it", step), "all of it");
    }
}

TEST(StopMatcher, HoldsBackOnlyWhatCouldBecomeAStop) {
    StopMatcher matcher({"\nUser:"});
    EXPECT_EQ(matcher.push("hello\n"), "hello");
    EXPECT_EQ(matcher.push("Us"), "");
    EXPECT_EQ(matcher.push("ual"), "\nUsual");
    EXPECT_EQ(matcher.push("\nUser: x"), "");
    EXPECT_TRUE(matcher.stopped());
    EXPECT_EQ(matcher.push("more"), "");
}

}  // namespace
}  // namespace tandem::engine
