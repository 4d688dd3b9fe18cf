#include "server/openai.h"

#include <gtest/gtest.h>

#include "server/sse.h"

namespace tandem::server {
namespace {

Json chat_body(const char* fields = "{}") {
    Json body = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
    body.update(Json::parse(fields));
    return body;
}

std::string wrong_field(const Json& body) {
    const Reply<Ask> ask = parse_openai_chat(body);
    return ask ? "" : ask.error().param;
}

std::vector<Json> events_of(const std::string& stream) {
    std::vector<Json> events;
    for (size_t at = stream.find("data: "); at != std::string::npos; at = stream.find("data: ", at + 1)) {
        const std::string data = stream.substr(at + 6, stream.find("\n\n", at) - at - 6);
        events.push_back(data == "[DONE]" ? Json(data) : Json::parse(data));
    }
    return events;
}

Delta ending(EndReason reason, int tokens) {
    Delta delta;
    delta.end = Ending{.reason = reason,
                       .error = {},
                       .stop_sequence = {},
                       .usage = {.prompt_tokens = 10, .cached_tokens = 4, .generated_tokens = tokens},
                       .reasoning_tokens = 1,
                       .timing = {}};
    return delta;
}

TEST(OpenAiChat, ReadsEveryField) {
    const Reply<Ask> ask = parse_openai_chat(chat_body(R"({
        "model": "m", "temperature": 0.5, "top_p": 0.9, "top_k": -1, "seed": -1, "n": 2, "stop": "end",
        "max_completion_tokens": 7, "logprobs": true, "top_logprobs": 3, "logit_bias": {"5": -100}, "stream": true,
        "stream_options": {"include_usage": true}, "tool_choice": "none", "reasoning_effort": "low",
        "chat_template_kwargs": {"enable_thinking": false},
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}})"));
    ASSERT_TRUE(ask) << ask.error().message;
    EXPECT_EQ(ask->model, "m");
    EXPECT_FLOAT_EQ(ask->sampling.temperature, 0.5F);
    EXPECT_EQ(ask->sampling.top_k, 0);
    EXPECT_EQ(ask->seed, ~uint64_t{0});
    EXPECT_EQ(ask->n, 2);
    EXPECT_EQ(ask->stop, std::vector<std::string>{"end"});
    EXPECT_EQ(ask->max_tokens, 7);
    EXPECT_EQ(ask->logprobs, 3);
    EXPECT_EQ(ask->sampling.logit_bias.front().first, 5);
    EXPECT_TRUE(ask->stream && ask->include_usage);
    EXPECT_EQ(ask->tool_choice, ToolChoice::none);
    EXPECT_EQ(ask->thinks, false);
    EXPECT_EQ(ask->format.kind, FormatKind::json_schema);
    EXPECT_EQ(ask->format.source, R"({"type":"object"})");
}

TEST(OpenAiChat, MakesMessagesThatTemplatesTake) {
    const Reply<Ask> ask = parse_openai_chat(Json::parse(R"({"messages": [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null, "reasoning": "why",
         "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "2"}]})"));
    ASSERT_TRUE(ask) << ask.error().message;
    EXPECT_EQ(ask->messages[0], Json::parse(R"({"role": "system", "content": "ab"})"));
    EXPECT_EQ(ask->messages[1]["tool_calls"][0]["function"]["arguments"], "{\"x\":1}") << "as it was written";
    EXPECT_EQ(ask->messages[1]["reasoning_content"], "why");
    EXPECT_TRUE(ask->messages[1]["content"].is_null());
    EXPECT_EQ(ask->messages[2]["tool_call_id"], "1");
}

TEST(OpenAiChat, NamesTheFieldThatIsWrong) {
    EXPECT_EQ(wrong_field(Json::parse("{}")), "messages");
    EXPECT_EQ(wrong_field(Json::parse(R"({"messages": [{"role": "user", "content": 1}]})")), "messages[0].content");
    EXPECT_EQ(wrong_field(chat_body(R"({"temperature": "1"})")), "temperature");
    EXPECT_EQ(wrong_field(chat_body(R"({"max_tokens": 0})")), "max_tokens");
    EXPECT_EQ(wrong_field(chat_body(R"({"n": 1e99})")), "n");
    EXPECT_EQ(wrong_field(chat_body(R"({"top_logprobs": 2})")), "top_logprobs");
    EXPECT_EQ(wrong_field(chat_body(R"({"tools": [{"type": "retrieval"}]})")), "tools[0].type");
    EXPECT_EQ(wrong_field(chat_body(R"({"tool_choice": 1})")), "tool_choice");
    EXPECT_EQ(wrong_field(chat_body(R"({"response_format": {"type": "xml"}})")), "response_format.type");
    EXPECT_EQ(wrong_field(chat_body(R"({"response_format": {"type": "json_schema"}})")), "response_format.json_schema");
    EXPECT_EQ(wrong_field(chat_body(R"({"logit_bias": {"x": 1}})")), "logit_bias");
    EXPECT_EQ(wrong_field(chat_body(R"({"chat_template_kwargs": {"chat_template": "{{ 1 }}"}})")),
              "chat_template_kwargs.chat_template");
    EXPECT_EQ(wrong_field(Json::parse(
                  R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})")),
              "messages[0].content[0]");
}

TEST(OpenAiCompletions, TakesPromptsOfEveryKind) {
    const auto prompts = [](const char* prompt) { return parse_prompts(Json::parse(prompt), "prompt"); };
    EXPECT_EQ(std::get<std::string>(prompts(R"("a")")->front()), "a");
    EXPECT_EQ(prompts(R"(["a", "b"])")->size(), 2U);
    EXPECT_EQ(std::get<std::vector<text::TokenId>>(prompts("[1, 2]")->front()).size(), 2U);
    EXPECT_EQ(prompts("[[1], [2, 3]]")->size(), 2U);
    EXPECT_TRUE(prompts("[-1]")) << "the vocabulary says more";
    EXPECT_FALSE(prompts("[1.5]"));
    for (const char* const id : {"2147483648", "18446744073709551615", "-2147483649", "-9223372036854775808"}) {
        const auto refused = prompts(fmt::format("[1, {}]", id).c_str());
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().message, fmt::format("prompt: token id {} is in no model's vocabulary", id));
    }
    EXPECT_FALSE(prompts("{}"));
}

TEST(OpenAiCompletions, MayEchoThePromptAlone) {
    const Reply<Ask> ask =
        parse_openai_completion(Json::parse(R"({"prompt": "a", "max_tokens": 0, "echo": true, "logprobs": 1})"));
    ASSERT_TRUE(ask) << ask.error().message;
    EXPECT_TRUE(ask->prompt_only);
    EXPECT_FALSE(parse_openai_completion(Json::parse(R"({"prompt": "a", "max_tokens": 0})"))) << "nothing to answer";
    EXPECT_FALSE(
        parse_openai_completion(Json::parse(R"({"prompt": "a", "max_tokens": 2, "echo": true})"))->prompt_only);
}

TEST(OpenAiChat, StreamsAsClientsExpect) {
    Ask ask;
    ask.include_usage = true;
    const auto writer = kOpenAiChat.writer(ask, {.id = "x", .created_s = 5, .model = "m"});
    Delta delta;
    delta.content = "Hello";
    delta.reasoning = "hm";
    std::string stream = writer->begin();
    stream += writer->write(delta);
    stream += writer->write(ending(EndReason::stop, 3));
    stream += writer->end();
    const std::vector<Json> events = events_of(stream);
    ASSERT_EQ(events.size(), 5U);
    EXPECT_EQ(events[0]["id"], "chatcmpl-x");
    EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
    EXPECT_EQ(events[1]["choices"][0]["delta"]["content"], "Hello");
    EXPECT_FALSE(events[1]["choices"][0]["delta"].contains("role"));
    EXPECT_EQ(events[1]["choices"][0]["delta"]["reasoning"], "hm");
    EXPECT_EQ(events[1]["choices"][0]["delta"]["reasoning_content"], "hm");
    EXPECT_EQ(events[2]["choices"][0]["delta"], Json::object());
    EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(events[3]["choices"], Json::array());
    EXPECT_EQ(events[3]["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
    EXPECT_EQ(events[4], "[DONE]");
}

TEST(OpenAiChat, WritesToolCallsAndUsageOfAWholeAnswer) {
    Ask ask;
    ask.n = 2;
    WholeAnswer answer(2);
    for (int choice = 0; choice < 2; ++choice) {
        Delta delta;
        delta.choice = choice;
        delta.tool_calls = {{.index = 0, .id = "call_1", .name = "f", .arguments = "{\"x\""}};
        answer.add(delta);
        delta.tool_calls = {{.index = 0, .id = "", .name = "", .arguments = ":1}"}};
        answer.add(delta);
        delta = ending(EndReason::tool_calls, 5);
        delta.choice = choice;
        answer.add(delta);
    }
    const auto writer = kOpenAiChat.writer(ask, {});
    const Json whole = Json::parse(writer->whole(answer.choices()));
    const Json& message = whole["choices"][1]["message"];
    EXPECT_TRUE(message["content"].is_null());
    EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{\"x\":1}");
    EXPECT_EQ(whole["choices"][1]["finish_reason"], "tool_calls");
    EXPECT_EQ(whole["usage"]["prompt_tokens"], 10);  // once, for both
    EXPECT_EQ(whole["usage"]["completion_tokens"], 10);
    EXPECT_EQ(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
}

TEST(OpenAiCompletion, CountsOffsetsInCharacters) {
    Delta delta;
    delta.content = "é€";
    for (const char* const text : {"é", "\xE2\x82", "\xAC", "!"}) {
        delta.logprobs.push_back({.chosen = {.text = text, .bytes = text, .logprob = -1}, .top = {}});
    }
    const auto writer = kOpenAiCompletions.writer({}, {});
    std::string stream = writer->write(delta);
    stream += writer->write(delta);
    const std::vector<Json> events = events_of(stream);
    ASSERT_EQ(events.size(), 2U);
    EXPECT_EQ(events[0]["choices"][0]["logprobs"]["text_offset"], (Json{0, 1, 2, 2}));
    EXPECT_EQ(events[1]["choices"][0]["logprobs"]["text_offset"], (Json{3, 4, 5, 5}));
}

TEST(OpenAiErrors, HaveTheFieldsThatClientsRead) {
    const Json error = openai_error({.message = "no", .code = "c", .param = "p", .extra = {{"n_ctx", 8}}});
    EXPECT_EQ(error["error"]["type"], "invalid_request_error");
    EXPECT_EQ(error["error"]["n_ctx"], 8);
    EXPECT_TRUE(openai_error({.message = "no"})["error"]["param"].is_null());
}

TEST(Writing, NeverFailsOnBytesThatAreNoText) {
    EXPECT_EQ(dump("a\xff"), "\"a\xEF\xBF\xBD\"");
}

TEST(OpenAiModels, SayWhatARequestThatLeavesSamplingOutIsAnsweredWith) {
    const Json said = openai_model(ModelCard()).at("default_sampling");
    const Reply<Ask> ask = parse_openai_chat(chat_body());
    ASSERT_TRUE(ask);
    EXPECT_EQ(said.at("temperature"), ask->sampling.temperature);
    EXPECT_EQ(said.at("top_p"), ask->sampling.top_p);
    EXPECT_EQ(said.at("top_k"), ask->sampling.top_k);
    EXPECT_EQ(said.at("min_p"), ask->sampling.min_p);
    EXPECT_EQ(said.at("frequency_penalty"), ask->sampling.frequency_penalty);
    EXPECT_EQ(said.at("presence_penalty"), ask->sampling.presence_penalty);
}

}  // namespace
}  // namespace tandem::server
