#include "cli/completion.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "cli/slash_commands.h"
#include "user/paths.h"

namespace tandem::cli {
namespace {

using Names = std::vector<std::string>;

// A folder with files, which is the home of the user and where paths begin.
class Completing : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = testing::TempDir() + "completing/";
        std::filesystem::remove_all(folder_);
        std::filesystem::create_directories(folder_ + "models");
        for (const char* name :
             {"talk.json", "tales.json", ".hidden", "models/a b.gguf", "\xc3\xa4.txt", "\xc3\xb6.txt"}) {
            ASSERT_TRUE(write_file(folder_ + name, ""));
        }
        before_ = std::filesystem::current_path();
        std::filesystem::current_path(folder_);
        ::setenv("HOME", folder_.substr(0, folder_.size() - 1).c_str(), 1);
    }
    void TearDown() override { std::filesystem::current_path(before_); }

    std::string folder_;
    std::filesystem::path before_;
};

TEST_F(Completing, PathsBeginWithWhatWasTyped) {
    const Completion both = complete_path("ta");
    EXPECT_EQ(both.candidates, (Names{"tales.json", "talk.json"}));
    EXPECT_EQ(both.common_rest(), "l");
    EXPECT_EQ(complete_path("talk").common_rest(), ".json");
    EXPECT_EQ(complete_path("mod").common_rest(), "els/");
    EXPECT_EQ(complete_path("models/").common_rest(), "a b.gguf");
    EXPECT_EQ(complete_path(folder_ + "mod").common_rest(), "els/");
    EXPECT_TRUE(complete_path("nothing").candidates.empty());
    EXPECT_TRUE(complete_path("no/such/folder/").candidates.empty());
}

TEST_F(Completing, PathsBeginAtHome) {
    EXPECT_EQ(complete_path("~").candidates, Names{"~/"});
    EXPECT_EQ(complete_path("~/models/").candidates, Names{"~/models/a b.gguf"});
    EXPECT_EQ(user::expand_home("~/x"), folder_ + "x");
    EXPECT_EQ(user::expand_home("~"), folder_.substr(0, folder_.size() - 1));
    EXPECT_EQ(user::expand_home("~someone/x"), "~someone/x");
    EXPECT_EQ(user::expand_home("x/~/y"), "x/~/y");
    ::unsetenv("HOME");
    EXPECT_EQ(user::expand_home("~/x"), "~/x");
}

TEST_F(Completing, HiddenFilesWaitForTheirDot) {
    EXPECT_EQ(complete_path(".h").candidates, Names{".hidden"});
    for (const std::string& name : complete_path("").candidates) EXPECT_NE(name, ".hidden");
}

TEST_F(Completing, CharactersStayWhole) {
    Completion umlauts;
    umlauts.candidates = {"\xc3\xa4.txt", "\xc3\xb6.txt"};
    EXPECT_EQ(umlauts.common_rest(), "");
}

TEST_F(Completing, CommandsAndTheirArguments) {
    EXPECT_EQ(complete_slash("/sy")->common_rest(), "stem");
    EXPECT_EQ(complete_slash("/s")->candidates, (Names{"/save", "/set", "/show", "/system"}));
    EXPECT_EQ(complete_slash("/save tal")->candidates, (Names{"tales.json", "talk.json"}));
    EXPECT_EQ(complete_slash("/load models/")->common_rest(), "a b.gguf");
    EXPECT_EQ(complete_slash("/model ta")->candidates, (Names{"tales", "tales.json", "talk.json"}));
    EXPECT_EQ(complete_slash("/set top")->candidates, (Names{"top_k", "top_p"}));
    EXPECT_EQ(complete_slash("/set grammar tal")->candidates, (Names{"tales.json", "talk.json"}));
    EXPECT_EQ(complete_slash("/think o")->candidates, (Names{"off", "on"}));
    EXPECT_TRUE(complete_slash("/clear t")->candidates.empty());
    EXPECT_TRUE(complete_slash("/nosuch t")->candidates.empty());
}

TEST_F(Completing, TextIsNotCompleted) {
    EXPECT_FALSE(complete_slash("tal"));
    EXPECT_FALSE(complete_slash(""));
    EXPECT_FALSE(complete_slash("/usr/bin"));
    EXPECT_FALSE(is_slash_command("/usr/bin/env is a path"));
    EXPECT_FALSE(is_slash_command("// a comment"));
    EXPECT_FALSE(is_slash_command("/bye\nand more"));
    EXPECT_TRUE(is_slash_command("/save ~/x"));
}

}  // namespace
}  // namespace tandem::cli
