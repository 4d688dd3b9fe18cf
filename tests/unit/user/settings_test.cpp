#include "user/settings.h"

#include <gtest/gtest.h>

#include <set>

namespace tandem::user {
namespace {

Status set(Settings& settings, std::string_view name, std::string_view value) {
    return find_parameter(name)->set(settings, value);
}

TEST(Settings, EveryParameterHasANameAndHelpAndShowsItsDefault) {
    std::set<std::string_view> names;
    for (const Parameter& parameter : parameters()) {
        EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
        EXPECT_FALSE(parameter.help.empty()) << parameter.name;
        EXPECT_FALSE(parameter.show(Settings{}).empty()) << parameter.name;
    }
}

TEST(Settings, NamesMayHaveDashes) {
    EXPECT_EQ(find_parameter("top-k"), find_parameter("top_k"));
    EXPECT_EQ(find_parameter("topk"), nullptr);
    EXPECT_EQ(find_parameter(""), nullptr);
}

TEST(Settings, TakesValuesInRange) {
    Settings settings;
    ASSERT_TRUE(set(settings, "temperature", "0"));
    ASSERT_TRUE(set(settings, "top_k", "0"));
    ASSERT_TRUE(set(settings, "top_p", "1"));
    ASSERT_TRUE(set(settings, "min_p", "0.25"));
    ASSERT_TRUE(set(settings, "max_tokens", "7"));
    ASSERT_TRUE(set(settings, "seed", "123"));
    EXPECT_EQ(settings.sampling.temperature, 0.0F);
    EXPECT_EQ(settings.sampling.top_k, 0);
    EXPECT_EQ(settings.sampling.top_p, 1.0F);
    EXPECT_EQ(settings.sampling.min_p, 0.25F);
    EXPECT_EQ(settings.max_tokens, 7);
    EXPECT_EQ(settings.seed, 123U);
}

TEST(Settings, RefusesValuesOutsideAndKeepsTheOldOne) {
    const std::pair<const char*, const char*> bad[] = {
        {"temperature", "-0.1"}, {"temperature", "hot"}, {"top_k", "-1"},          {"top_k", "1.5"},
        {"top_p", "0"},          {"top_p", "1.01"},      {"min_p", "-1"},          {"min_p", "2"},
        {"repeat_penalty", "0"}, {"seed", "-1"},         {"seed", "abc"},          {"max_tokens", "-5"},
        {"logit_bias", "1"},     {"max_tokens", ""},     {"presence_penalty", "x"}};
    for (const auto& [name, value] : bad) {
        Settings settings;
        const std::string before = find_parameter(name)->show(settings);
        const Status status = set(settings, name, value);
        ASSERT_FALSE(status) << name << " " << value;
        EXPECT_EQ(find_parameter(name)->show(settings), before);
        EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
    }
}

TEST(Settings, RepeatableOnesAddUpUntilAnEmptyValue) {
    Settings settings;
    ASSERT_TRUE(set(settings, "stop", "END"));
    ASSERT_TRUE(set(settings, "stop", "###"));
    EXPECT_EQ(settings.stop, (std::vector<std::string>{"END", "###"}));
    ASSERT_TRUE(set(settings, "stop", ""));
    EXPECT_TRUE(settings.stop.empty());

    ASSERT_TRUE(set(settings, "logit_bias", "3=1"));
    ASSERT_TRUE(set(settings, "logit_bias", "4=2"));
    ASSERT_TRUE(set(settings, "logit_bias", "3=-1"));  // the later one counts
    EXPECT_EQ(settings.sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{4, 2.0F}, {3, -1.0F}}));
}

TEST(Settings, AGrammarIsCompiledWhenItIsSet) {
    Settings settings;
    ASSERT_TRUE(set(settings, "grammar", R"( {"type": "boolean"})"));
    EXPECT_NE(settings.grammar, nullptr);
    EXPECT_FALSE(set(settings, "grammar", R"({"type": "horse"})"));
    EXPECT_EQ(find_parameter("grammar")->show(settings), R"( {"type": "boolean"})");
    EXPECT_FALSE(set(settings, "grammar", "no such file"));
    ASSERT_TRUE(set(settings, "grammar", "json"));
    EXPECT_EQ(find_parameter("grammar")->show(settings), "json");
    for (const char* none : {"none", ""}) {
        ASSERT_TRUE(set(settings, "grammar", none));
        EXPECT_EQ(settings.grammar, nullptr);
        EXPECT_EQ(find_parameter("grammar")->show(settings), "none");
    }
}

TEST(Settings, ASeedIsKeptAndRandomOnesDiffer) {
    Settings settings;
    EXPECT_NE(next_sampling(settings).seed, next_sampling(settings).seed);
    ASSERT_TRUE(set(settings, "seed", "5"));
    EXPECT_EQ(next_sampling(settings).seed, 5U);
    ASSERT_TRUE(set(settings, "seed", "random"));
    EXPECT_FALSE(settings.seed);
}

}  // namespace
}  // namespace tandem::user
