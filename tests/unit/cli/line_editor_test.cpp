#include "cli/line_editor.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tandem::cli {
namespace {

TEST(HistoryPath, FollowsTheStateDirectory) {
    ::setenv("HOME", "/people/someone", 1);
    ::setenv("XDG_STATE_HOME", "/state", 1);
    EXPECT_EQ(history_path(), "/state/tandem/history");
    ::setenv("XDG_STATE_HOME", "relative", 1);  // which the specification says to ignore
    EXPECT_EQ(history_path(), "/people/someone/.local/state/tandem/history");
    ::unsetenv("XDG_STATE_HOME");
    EXPECT_EQ(history_path(), "/people/someone/.local/state/tandem/history");
    ::unsetenv("HOME");
    EXPECT_EQ(history_path(), "");
}

}  // namespace
}  // namespace tandem::cli
