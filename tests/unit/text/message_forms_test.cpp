#include "text/message_forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "text/template_traits.h"

namespace tandem::text {
namespace {

using Json = nlohmann::ordered_json;

TEST(MessageForms, ArgumentsAreAnObjectOrTheTextThatWasWritten) {
    EXPECT_EQ(arguments_of(R"({"b": 1,  "a": 2})").dump(), R"({"b":1,"a":2})");
    EXPECT_EQ(arguments_of(Json()), Json::object());
    EXPECT_EQ(arguments_of(""), Json::object());
    EXPECT_EQ(arguments_of("[1]"), "[1]") << "no object: stays text";
    EXPECT_EQ(arguments_text(R"({"b": 1,  "a": 2})"), R"({"b": 1,  "a": 2})");
    EXPECT_EQ(arguments_text(Json{{"b", 1}}), R"({"b":1})");
    EXPECT_EQ(arguments_text(Json()), "{}");
}

TEST(MessageForms, ToolsAreToldInWordsWhereATemplateHasNone) {
    const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "weather"}}])");
    Json messages = describe_tools(Json::parse(R"([
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "weather", "arguments": "{}"}}]},
        {"role": "tool", "content": "rain"}, {"role": "user", "content": "and now?"}])"),
                                   tools);
    messages = fit_messages(messages, {.merges_turns = true, .writes_calls = true, .results_as_user = true});
    ASSERT_EQ(messages.size(), 4U);
    EXPECT_NE(messages[0]["content"].get<std::string>().find("weather"), std::string::npos);
    EXPECT_EQ(messages[2]["content"], "{\"name\":\"weather\",\"arguments\":{}}\n");
    EXPECT_FALSE(messages[2].contains("tool_calls"));
    EXPECT_EQ(messages[3]["content"], "The tool answered:\nrain\n\nand now?");
    const Json with_system = describe_tools(Json::parse(R"([{"role": "system", "content": "Be brief."}])"), tools);
    ASSERT_EQ(with_system.size(), 1U);
    EXPECT_TRUE(with_system[0]["content"].get<std::string>().starts_with("Be brief.\n\nYou can call"));
}

// "Tool call IDs should be alphanumeric strings with length 9!", they say otherwise.
TEST(MessageForms, CallsHaveTheIdsThatTemplatesOfMistralWant) {
    const Json calls = Json::parse(R"([{"role": "user", "content": "?"},
        {"role": "assistant", "tool_calls": [{"id": "call_abcdefghijklmnop"}, {"id": "VvvODy9mT"}, {}]},
        {"role": "tool", "tool_call_id": "VvvODy9mT"}, {"role": "tool", "tool_call_id": "call_abcdefghijklmnop"},
        {"role": "tool"}, {"role": "tool"}])");
    const Json messages = messages_with_short_ids(calls);
    const Json& ids = messages[1]["tool_calls"];
    for (const Json& call : ids) {
        const std::string id = call["id"];
        EXPECT_EQ(id.size(), 9U);
        EXPECT_TRUE(std::all_of(id.begin(), id.end(), [](unsigned char letter) { return std::isalnum(letter) != 0; }));
    }
    EXPECT_NE(ids[0]["id"], ids[2]["id"]);
    EXPECT_EQ(ids[1]["id"], "VvvODy9mT");
    EXPECT_EQ(messages[2]["tool_call_id"], "VvvODy9mT");
    EXPECT_EQ(messages[3]["tool_call_id"], ids[0]["id"]);
    EXPECT_EQ(messages[4]["tool_call_id"], ids[2]["id"]) << "results without an id come in the order of the calls";
    EXPECT_FALSE(messages[5].contains("tool_call_id"));
    EXPECT_EQ(messages_with_short_ids(calls), messages) << "the same each time, or the cache would not help";
}

TEST(MessageForms, CallsAtOnceFollowEachOtherWithTheirResults) {
    const Json messages = messages_with_one_call(Json::parse(R"([
        {"role": "assistant", "content": "Both.", "tool_calls": [
            {"id": "1", "function": {"name": "a"}}, {"id": "2", "function": {"name": "b"}}]},
        {"role": "tool", "tool_call_id": "2", "content": "of b"}, {"role": "tool", "tool_call_id": "1", "content": "of a"},
        {"role": "tool", "tool_call_id": "7", "content": "of none"}, {"role": "user", "content": "Thanks."}])"));
    ASSERT_EQ(messages.size(), 6U);
    EXPECT_EQ(messages[0]["content"], "Both.");
    EXPECT_EQ(messages[0]["tool_calls"][0]["function"]["name"], "a");
    EXPECT_EQ(messages[1]["content"], "of a");
    EXPECT_EQ(messages[2]["tool_calls"][0]["function"]["name"], "b");
    EXPECT_EQ(messages[3]["content"], "of b");
    EXPECT_EQ(messages[4]["content"], "of none");
    EXPECT_EQ(messages[5]["content"], "Thanks.");
}

TEST(MessageForms, ResultsGetTheNamesOfTheirTools) {
    const Json messages = messages_with_named_results(Json::parse(R"([
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "a"}}, {"id": "2", "function": {"name": "b"}}]},
        {"role": "tool", "tool_call_id": "2"}, {"role": "tool"}, {"role": "tool", "tool_call_id": "7"}])"));
    EXPECT_EQ(messages[1]["name"], "b");
    EXPECT_EQ(messages[2]["name"], "b") << "without an id, by the order";
    EXPECT_FALSE(messages[3].contains("name"));
}

TEST(MessageForms, SystemMessagesGoIntoTheUsersNext) {
    const Json said = Json::parse(R"([{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
        {"role": "assistant", "content": "A"}, {"role": "system", "content": "T"}])");
    EXPECT_EQ(
        messages_with_folded_system(said, false).dump(),
        R"([{"role":"user","content":"S\n\nU"},{"role":"assistant","content":"A"},{"role":"user","content":"T"}])");
    const Json late = messages_with_folded_system(said, true);
    EXPECT_EQ(late[0], said[0]);
    EXPECT_EQ(late[1], said[1]);
}

TEST(MessageForms, WhatIsNoListOfMessagesIsTheTemplatesBusiness) {
    const TemplateTraits all = {.typed_content = true, .folds_system = true, .merges_turns = true, .one_call = true};
    for (const char* odd : {"3", "[3]", R"({"role": "user"})", R"([{"role": "user"}, null])"}) {
        EXPECT_EQ(fit_messages(Json::parse(odd), all), Json::parse(odd));
    }
    // Fields of other types than expected pass too.
    const Json odd =
        Json::parse(R"([{"role": 1, "content": {}, "tool_calls": 3}, {"tool_calls": [1, {"function": 2}]}])");
    EXPECT_EQ(fit_messages(odd, {.short_ids = true, .names_results = true}).size(), 2U);
}

}  // namespace
}  // namespace tandem::text
