#include "cli/run_arguments.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

TEST(RunArguments, NothingIsTheDefaultModelAndNoPrompt) {
    const auto arguments = resolve_arguments({});
    ASSERT_TRUE(arguments);
    EXPECT_EQ(arguments->model, "");
    EXPECT_FALSE(arguments->prompt);
}

TEST(RunArguments, OneThatNamesAModelIsTheModel) {
    EXPECT_EQ(resolve_arguments({"tales"})->model, "tales");
    EXPECT_EQ(resolve_arguments({TANDEM_TEST_DATA})->model, TANDEM_TEST_DATA);
    EXPECT_FALSE(resolve_arguments({"tales"})->prompt);
}

TEST(RunArguments, OneWithASpaceIsAPromptForTheDefaultModel) {
    const auto arguments = resolve_arguments({"tell me a story"});
    ASSERT_TRUE(arguments);
    EXPECT_EQ(arguments->model, "");
    EXPECT_EQ(arguments->prompt, "tell me a story");
}

TEST(RunArguments, OneWordThatIsNoModelIsAnErrorThatListsTheModels) {
    const auto arguments = resolve_arguments({"taels"});
    ASSERT_FALSE(arguments);
    EXPECT_NE(arguments.error().message.find("taels: "), std::string::npos);
    EXPECT_NE(arguments.error().message.find("tales"), std::string::npos);
}

TEST(RunArguments, TwoAreModelAndPrompt) {
    const auto arguments = resolve_arguments({"some model", "hello"});
    ASSERT_TRUE(arguments);
    EXPECT_EQ(arguments->model, "some model");
    EXPECT_EQ(arguments->prompt, "hello");
}

}  // namespace
}  // namespace tandem::cli
