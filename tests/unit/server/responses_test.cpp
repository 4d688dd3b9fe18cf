#include "server/responses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/server/event_stream.h"

namespace tandem::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Reply<Ask> parse_responses(const char* body) {
    return kResponses.parse(Json::parse(body));
}

std::string responses_refusal(const char* body) {
    const Reply<Ask> ask = parse_responses(body);
    return ask ? "" : ask.error().message;
}

const AnswerHead kResponsesHead{.id = "x", .created_s = 7, .model = "tales", .prompt_tokens = 11};

TEST(Responses, ReadsEverything) {
    const auto ask = parse_responses(R"({"model": "tales", "instructions": "Be brief.", "input": [
            {"role": "developer", "content": "In verse."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "add"}]},
            {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
            {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"b\": 1}"},
            {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "3"}],
        "tools": [{"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": true}],
        "tool_choice": {"type": "function", "name": "add"}, "parallel_tool_calls": false, "max_output_tokens": 9,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        "reasoning": {"effort": "high"}, "include": ["message.output_text.logprobs"], "top_logprobs": 2,
        "stream": true, "temperature": 0.5, "top_p": 0.75, "store": false, "truncation": "auto",
        "metadata": {"thread": "7"}})");
    ASSERT_TRUE(ask) << ask.error().message;
    ASSERT_EQ(ask->messages.size(), 4U) << ask->messages.dump(1);
    EXPECT_EQ(ask->messages[0]["content"], "Be brief.\n\nIn verse.");
    EXPECT_EQ(ask->messages[2]["reasoning_content"], "hm");
    EXPECT_EQ(ask->messages[2]["content"], "So.");
    EXPECT_EQ(ask->messages[2]["tool_calls"].size(), 2U);
    EXPECT_EQ(ask->messages[2]["tool_calls"][0]["function"]["arguments"], R"({"b": 1})") << "as it was written";
    EXPECT_EQ(ask->messages[3].dump(), R"({"role":"tool","tool_call_id":"c1","content":"3"})");
    EXPECT_EQ(ask->tools[0]["function"]["name"], "add");
    EXPECT_EQ(ask->tool_choice, ToolChoice::named);
    EXPECT_EQ(ask->max_tokens, 9);
    EXPECT_EQ(ask->format.kind, FormatKind::json_schema);
    EXPECT_EQ(ask->reasoning_effort, "high");
    EXPECT_EQ(ask->logprobs, 2);
    EXPECT_TRUE(ask->stream);
    EXPECT_TRUE(check(*ask));
    const Json response = events_of(kResponses.writer(*ask, kResponsesHead)->begin()).front()["response"];
    EXPECT_EQ(response["instructions"], "Be brief.");
    EXPECT_EQ(response["metadata"].dump(), R"({"thread":"7"})");
    EXPECT_EQ(parse_responses(R"({"input": "hi"})")->messages.dump(), R"([{"role":"user","content":"hi"}])");
}

TEST(Responses, RefusesWhatItCannotDo) {
    EXPECT_THAT(responses_refusal("{}"), HasSubstr("input"));
    EXPECT_THAT(responses_refusal(R"({"input": []})"), HasSubstr("input"));
    EXPECT_THAT(responses_refusal(R"({"input": "x", "previous_response_id": "resp_1"})"), HasSubstr("stores nothing"));
    EXPECT_THAT(responses_refusal(R"({"input": "x", "background": true})"), HasSubstr("background"));
    EXPECT_THAT(responses_refusal(R"({"input": [{"type": "item_reference", "id": "x"}]})"),
                HasSubstr("stores nothing"));
    EXPECT_THAT(responses_refusal(
                    R"({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "http://x"}]}]})"),
                HasSubstr("input_image"));
    EXPECT_THAT(responses_refusal(R"({"input": "x", "tools": [{"type": "web_search"}]})"), HasSubstr("web_search"));
    EXPECT_THAT(responses_refusal(R"({"input": "x", "tool_choice": {"type": "mcp"}})"), HasSubstr("tool_choice"));
    EXPECT_THAT(responses_refusal(R"({"input": "x", "text": {"format": {"type": "xml"}}})"), HasSubstr("xml"));
    EXPECT_THAT(responses_refusal(R"({"input": "x", "max_output_tokens": 0})"), HasSubstr("max_output_tokens"));
    EXPECT_THAT(responses_refusal(R"({"input": "x", "metadata": {"a": 1}})"), HasSubstr("metadata"));
    EXPECT_THAT(kResponses.error({.message = "bad", .param = "input"}), HasSubstr(R"("param":"input")"));
}

TEST(Responses, StreamsItems) {
    Ask ask;
    ask.tools = Json::parse(R"([{"type": "function", "function": {"name": "add"}}])");
    const auto writer = kResponses.writer(ask, kResponsesHead);
    Delta first = text_delta("H");
    first.logprobs = {{.chosen = {.text = "H", .bytes = "H", .logprob = -0.5F}, .top = {}}};
    const auto events =
        events_of(stream_of(*writer, {text_delta("", "hm"), first, text_delta("i"), call_delta(0, "c0", "add", "{}"),
                                      call_delta(1, "c1", "add", "{}"), end_delta(EndReason::tool_calls)}));
    EXPECT_THAT(
        types_of(events),
        ElementsAre("response.created", "response.in_progress",  //
                    "response.output_item.added", "response.content_part.added", "response.reasoning_text.delta",
                    "response.reasoning_text.done", "response.content_part.done", "response.output_item.done",  //
                    "response.output_item.added", "response.content_part.added", "response.output_text.delta",
                    "response.output_text.delta", "response.output_text.done", "response.content_part.done",
                    "response.output_item.done",  //
                    "response.output_item.added", "response.function_call_arguments.delta",
                    "response.function_call_arguments.done", "response.output_item.done", "response.output_item.added",
                    "response.function_call_arguments.delta", "response.function_call_arguments.done",
                    "response.output_item.done",  //
                    "response.completed"));
    for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
    EXPECT_EQ(events[0]["response"]["status"], "in_progress");
    EXPECT_EQ(events[0]["response"]["tools"].dump(), R"([{"type":"function","name":"add"}])");
    EXPECT_EQ(events[10]["delta"], "H");
    EXPECT_EQ(events[10]["logprobs"][0]["logprob"], -0.5);
    EXPECT_EQ(events[12]["text"], "Hi");
    EXPECT_EQ(events[12]["output_index"], 1);
    EXPECT_EQ(events[12]["item_id"], events[8]["item"]["id"]);
    EXPECT_EQ(events[17]["arguments"], "{}");
    const Json& response = events.back()["response"];
    EXPECT_EQ(response["status"], "completed");
    EXPECT_EQ(response["output"].size(), 4U);
    EXPECT_EQ(response["output"][1]["content"][0]["text"], "Hi");
    EXPECT_EQ(response["output"][1]["status"], "completed");
    EXPECT_EQ(response["output"][2]["call_id"], "c0");
    EXPECT_EQ(response["usage"]["input_tokens_details"]["cached_tokens"], 4);
    EXPECT_EQ(response["usage"]["total_tokens"], 16);
    EXPECT_EQ(response["usage"]["output_tokens_details"]["reasoning_tokens"], 3);
}

TEST(Responses, SaysWhenAnAnswerIsCutOrBreaks) {
    const auto cut =
        events_of(stream_of(*kResponses.writer({}, kResponsesHead), {text_delta("x"), end_delta(EndReason::length)}));
    EXPECT_EQ(cut.back()["type"], "response.incomplete");
    EXPECT_EQ(cut.back()["response"]["incomplete_details"]["reason"], "max_output_tokens");
    EXPECT_EQ(cut.back()["response"]["output"][0]["status"], "incomplete");
    const Json call = Json::parse(whole_of(*kResponses.writer({}, kResponsesHead),
                                           {call_delta(0, "c0", "add", "{\"a\": "), end_delta(EndReason::length)}));
    EXPECT_EQ(call["output"][0]["status"], "incomplete");
    EXPECT_EQ(call["output"][0]["arguments"], "{\"a\": ");
    const auto broken = events_of(kResponses.writer({}, kResponsesHead)->fail({.status = 500, .message = "broke"}));
    EXPECT_EQ(broken.back()["type"], "response.failed");
    EXPECT_EQ(broken.back()["response"]["error"]["message"], "broke");
}

TEST(Responses, WritesWholeResponses) {
    const Json response = Json::parse(
        whole_of(*kResponses.writer({}, kResponsesHead),
                 {text_delta("Hi", "hm"), call_delta(0, "c", "add", "{\"a\": 1}"), end_delta(EndReason::stop)}));
    EXPECT_EQ(response["object"], "response");
    EXPECT_EQ(response["status"], "completed");
    EXPECT_EQ(response["created_at"], 7);
    ASSERT_EQ(response["output"].size(), 3U);
    EXPECT_EQ(response["output"][0]["type"], "reasoning");
    EXPECT_EQ(response["output"][1]["content"][0]["text"], "Hi");
    EXPECT_EQ(response["output"][2]["arguments"], "{\"a\": 1}");
    EXPECT_EQ(response["store"], false);
}

}  // namespace
}  // namespace tandem::server
