#include "server/anthropic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/server/event_stream.h"

namespace tandem::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Reply<Ask> parse_messages(const char* body) {
    return kAnthropicMessages.parse(Json::parse(body));
}

std::string messages_refusal(const char* body) {
    const Reply<Ask> ask = parse_messages(body);
    return ask ? "" : ask.error().message;
}

const AnswerHead kAnthropicHead{.id = "x", .created_s = 1, .model = "tales", .prompt_tokens = 11};

TEST(Anthropic, ReadsEverything) {
    const auto ask =
        parse_messages(R"({"model": "tales", "max_tokens": 50, "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": "add"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "So."}, {"type": "tool_use", "id": "t1", "name": "add", "input": {"b": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "3"}]},
                {"type": "tool_result", "tool_use_id": "t2", "content": "no", "is_error": true},
                {"type": "text", "text": "go"}, {"type": "text", "text": "on", "cache_control": {"type": "ephemeral"}}]}],
        "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "add", "disable_parallel_tool_use": true},
        "thinking": {"type": "enabled", "budget_tokens": 2000}, "stop_sequences": ["END"], "stream": true,
        "temperature": 0.5, "top_k": 3, "top_p": 0.75, "metadata": {"user_id": "u"},
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}})");
    ASSERT_TRUE(ask) << ask.error().message;
    ASSERT_EQ(ask->messages.size(), 6U) << ask->messages.dump(1);
    EXPECT_EQ(ask->messages[0].dump(), R"({"role":"system","content":"Be brief."})");
    EXPECT_EQ(ask->messages[2].dump(),
              R"({"role":"assistant","content":"So.","reasoning_content":"hm","tool_calls":[{"id":"t1",)"
              R"("type":"function","function":{"name":"add","arguments":{"b":1}}}]})");
    EXPECT_EQ(ask->messages[3].dump(), R"({"role":"tool","tool_call_id":"t1","name":"add","content":"3"})");
    EXPECT_EQ(ask->messages[4]["content"], "Error: no");
    EXPECT_EQ(ask->messages[5].dump(), R"({"role":"user","content":"go\non"})");
    EXPECT_EQ(ask->tools.dump(), R"([{"type":"function","function":{"name":"add","description":"Adds.",)"
                                 R"("parameters":{"type":"object"}}}])");
    EXPECT_EQ(ask->tool_choice, ToolChoice::named);
    EXPECT_FALSE(ask->parallel_tool_calls);
    EXPECT_EQ(ask->max_tokens, 50);
    EXPECT_EQ(ask->thinks, true);
    EXPECT_EQ(ask->stop, std::vector<std::string>{"END"});
    EXPECT_EQ(ask->format.source, R"({"type":"object"})");
    EXPECT_EQ(ask->user, "u");
    EXPECT_TRUE(ask->stream);
    EXPECT_FALSE(ask->continues_last);
    EXPECT_TRUE(check(*ask));
}

TEST(Anthropic, GoesOnFromTheBeginningOfAnAnswer) {
    const auto ask = parse_messages(R"({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "a"},
        {"role": "user", "content": "b"}, {"role": "assistant", "content": "{"}]})");
    ASSERT_TRUE(ask);
    EXPECT_TRUE(ask->continues_last);
    EXPECT_EQ(ask->messages.dump(), R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":"{"}])");
    EXPECT_EQ(ask->thinks, false);
}

TEST(Anthropic, RefusesWhatItCannotDo) {
    EXPECT_THAT(messages_refusal(R"({"model": "m", "messages": [{"role": "user", "content": "x"}]})"),
                HasSubstr("max_tokens"));
    EXPECT_THAT(messages_refusal(R"({"max_tokens": 1, "messages": [{"role": "user", "content": "x"}]})"),
                HasSubstr("model"));
    EXPECT_THAT(messages_refusal(R"({"model": "m", "max_tokens": 1, "messages": []})"), HasSubstr("messages"));
    EXPECT_THAT(messages_refusal(R"({"model": "m", "max_tokens": 0, "messages": [{"role": "user", "content": "x"}]})"),
                HasSubstr("max_tokens"));
    EXPECT_THAT(
        messages_refusal(R"({"model": "m", "max_tokens": 1, "messages": [{"role": "system", "content": "x"}]})"),
        HasSubstr("`system`"));
    EXPECT_THAT(messages_refusal(R"({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [
                    {"type": "image", "source": {"type": "url", "url": "http://localhost"}}]}]})"),
                HasSubstr("'image'"));
    EXPECT_THAT(messages_refusal(R"({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]}]}]})"),
                HasSubstr("'image'"));
    EXPECT_THAT(messages_refusal(R"({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}],
                            "tools": [{"type": "bash_20250124", "name": "bash"}]})"),
                HasSubstr("bash_20250124"));
    EXPECT_THAT(messages_refusal(R"({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}],
                            "mcp_servers": [{"url": "http://x"}]})"),
                HasSubstr("mcp_servers"));
    EXPECT_TRUE(
        parse_anthropic_count(Json::parse(R"({"model": "m", "messages": [{"role": "user", "content": "x"}]})")));
    EXPECT_EQ(anthropic_count(7).dump(), R"({"input_tokens":7})");
}

TEST(Anthropic, HasErrorsOfItsOwnShape) {
    EXPECT_EQ(kAnthropicMessages.error({.message = "bad"}),
              R"({"type":"error","error":{"type":"invalid_request_error","message":"bad"}})");
    for (const auto& [status, type] : std::vector<std::pair<int, std::string>>{{401, "authentication_error"},
                                                                               {404, "not_found_error"},
                                                                               {413, "request_too_large"},
                                                                               {429, "rate_limit_error"},
                                                                               {500, "api_error"},
                                                                               {503, "overloaded_error"}}) {
        EXPECT_EQ(Json::parse(kAnthropicMessages.error({.status = status, .message = ""}))["error"]["type"], type);
    }
}

TEST(Anthropic, StreamsBlocks) {
    const auto writer = kAnthropicMessages.writer({}, kAnthropicHead);
    const auto events = events_of(stream_of(
        *writer, {text_delta("", "h"), text_delta("", "m"), text_delta("Hi"), call_delta(0, "c0", "add", "{\"a\":"),
                  call_delta(0, "", "", "1}"), call_delta(1, "c1", "get", "{}"), end_delta(EndReason::tool_calls)}));
    EXPECT_THAT(types_of(events),
                ElementsAre("message_start", "content_block_start", "content_block_delta", "content_block_delta",
                            "content_block_stop", "content_block_start", "content_block_delta", "content_block_stop",
                            "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
                            "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
                            "message_stop"));
    EXPECT_EQ(events[0]["message"]["id"], "msg_x");
    EXPECT_EQ(events[0]["message"]["usage"]["input_tokens"], 11);
    EXPECT_EQ(events[1]["content_block"]["type"], "thinking");
    EXPECT_EQ(events[3]["delta"].dump(), R"({"type":"thinking_delta","thinking":"m"})");
    EXPECT_EQ(events[6].dump(),
              R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi"}})");
    EXPECT_EQ(events[8]["content_block"].dump(), R"({"type":"tool_use","id":"c0","name":"add","input":{}})");
    EXPECT_EQ(events[9]["delta"].dump(), R"({"type":"input_json_delta","partial_json":"{\"a\":"})");
    EXPECT_EQ(events[12]["index"], 3);
    EXPECT_EQ(events[15]["delta"].dump(), R"({"stop_reason":"tool_use","stop_sequence":null})");
    EXPECT_EQ(events[15]["usage"]["output_tokens"], 5);
    EXPECT_EQ(events[15]["usage"]["input_tokens"], 7);
    EXPECT_EQ(events[15]["usage"]["cache_read_input_tokens"], 4);
    EXPECT_EQ(events_of(writer->heartbeat())[0]["type"], "ping");
    EXPECT_EQ(events_of(writer->fail({.status = 500, .message = "broke"}))[0]["error"]["type"], "api_error");
}

TEST(Anthropic, WritesWholeMessages) {
    Delta last = end_delta(EndReason::stop);
    last.end->stop_sequence = "END";
    const Json message = Json::parse(whole_of(*kAnthropicMessages.writer({}, kAnthropicHead),
                                              {text_delta("Hi", "hm"), call_delta(0, "c", "add", "{\"a\":1}"), last}));
    EXPECT_EQ(message["content"].dump(), R"([{"type":"thinking","thinking":"hm","signature":""},)"
                                         R"({"type":"text","text":"Hi"},)"
                                         R"({"type":"tool_use","id":"c","name":"add","input":{"a":1}}])");
    EXPECT_EQ(message["stop_reason"], "stop_sequence");
    EXPECT_EQ(message["stop_sequence"], "END");
    EXPECT_EQ(message["role"], "assistant");
    const Json cut = Json::parse(
        whole_of(*kAnthropicMessages.writer({}, kAnthropicHead), {text_delta("x"), end_delta(EndReason::length)}));
    EXPECT_EQ(cut["stop_reason"], "max_tokens");
}

}  // namespace
}  // namespace tandem::server
