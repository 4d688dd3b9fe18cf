#include "server/ollama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "server/time_text.h"
#include "unit/server/event_stream.h"

namespace tandem::server {
namespace {

using testing::HasSubstr;

Reply<Ask> ollama_chat(const char* body) {
    return kOllamaChat.parse(Json::parse(body));
}

std::string refusal(const Reply<Ask>& reply) {
    return reply ? "" : reply.error().message;
}

const AnswerHead kOllamaHead{
    .id = "x", .created_s = 1'700'000'000, .model = "tales", .prompt_tokens = 11, .load_seconds = 0.25};

std::vector<Json> lines_of(const std::string& text) {
    std::vector<Json> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
    return lines;
}

TEST(OllamaChat, ReadsEverything) {
    const auto ask = ollama_chat(R"({"model": "tales:latest", "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "", "thinking": "hm",
         "tool_calls": [{"function": {"name": "add", "arguments": {"b": 1, "a": 2}}}]},
        {"role": "tool", "content": "3", "tool_name": "add"}],
        "tools": [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}],
        "format": {"type": "object"}, "think": "high", "keep_alive": "1h30m", "stream": false, "top_logprobs": 3,
        "options": {"temperature": 0, "num_predict": 7, "seed": 42, "stop": ["\n"], "top_k": 5, "top_p": 0.5,
                    "min_p": 0.1, "repeat_penalty": 1.1, "num_ctx": 4096}})");
    ASSERT_TRUE(ask) << ask.error().message;
    EXPECT_EQ(ask->model, "tales");
    EXPECT_EQ(ask->messages.size(), 4U);
    EXPECT_EQ(ask->messages[2].dump(), R"({"role":"assistant","content":"","reasoning_content":"hm","tool_calls":)"
                                       R"([{"id":"call_0","type":"function","function":{"name":"add","arguments":)"
                                       R"({"b":1,"a":2}}}]})");
    EXPECT_EQ(ask->messages[3]["name"], "add");
    EXPECT_EQ(ask->tools.size(), 1U);
    EXPECT_EQ(ask->format.kind, FormatKind::json_schema);
    EXPECT_EQ(ask->thinks, true);
    EXPECT_EQ(ask->reasoning_effort, "high");
    EXPECT_EQ(ask->keep_alive_s, 5400);
    EXPECT_FALSE(ask->stream);
    EXPECT_EQ(ask->logprobs, 3);
    EXPECT_EQ(ask->sampling.temperature, 0.0F);
    EXPECT_EQ(ask->max_tokens, 7);
    EXPECT_EQ(ask->seed, 42U);
    EXPECT_EQ(ask->stop, std::vector<std::string>{"\n"});
    EXPECT_TRUE(check(*ask));
}

TEST(OllamaChat, HasTheDefaultsOfOllama) {
    const auto ask = ollama_chat(R"({"model": "m", "messages": [{"role": "user", "content": "x"}],
                              "options": {"num_predict": -1}})");
    ASSERT_TRUE(ask);
    EXPECT_TRUE(ask->stream);
    EXPECT_EQ(ask->sampling.temperature, 0.8F);
    EXPECT_EQ(ask->max_tokens, 0);
    EXPECT_FALSE(ask->only_loads());
    EXPECT_TRUE(ollama_chat(R"({"model": "m"})")->only_loads());
    EXPECT_TRUE(kOllamaGenerate.parse(Json::parse(R"({"model": "m", "keep_alive": 0})"))->only_loads());
}

TEST(Ollama, WhatItsClientsSendAndOllamaDoesNotKnowIsPassedOver) {
    const auto ask = ollama_chat(
        R"({"model": "m", "chat_id": "7", "options": {"penalize_newline": true, "made_up": 1, "ignore_eos": true}})");
    ASSERT_TRUE(ask) << refusal(ask);
    EXPECT_TRUE(ask->ignore_end);
}

TEST(OllamaChat, RefusesWhatItCannotDo) {
    EXPECT_THAT(refusal(ollama_chat("[]")), HasSubstr("object"));
    EXPECT_THAT(refusal(ollama_chat("{}")), HasSubstr("model"));
    EXPECT_THAT(refusal(ollama_chat(R"({"model": "m", "messages": 5})")), HasSubstr("messages"));
    EXPECT_THAT(refusal(ollama_chat(R"({"model": "m", "messages": [{"role": "king", "content": ""}]})")),
                HasSubstr("king"));
    EXPECT_THAT(
        refusal(ollama_chat(R"({"model": "m", "messages": [{"role": "user", "content": "", "images": ["x"]}]})")),
        HasSubstr("images"));
    EXPECT_THAT(refusal(ollama_chat(R"({"model": "m", "tools": [{"type": "search"}]})")), HasSubstr("search"));
    EXPECT_THAT(refusal(ollama_chat(R"({"model": "m", "options": {"temperature": "hot"}})")),
                HasSubstr("options.temperature"));
    EXPECT_THAT(refusal(ollama_chat(R"({"model": "m", "options": {"mirostat": 2}})")), HasSubstr("mirostat"));
    EXPECT_THAT(refusal(ollama_chat(R"({"model": "m", "keep_alive": "soon"})")), HasSubstr("keep_alive"));
    EXPECT_THAT(refusal(ollama_chat(R"({"model": "m", "format": "xml"})")), HasSubstr("format"));
    EXPECT_THAT(refusal(kOllamaGenerate.parse(Json::parse(R"({"model": "m", "prompt": "x", "suffix": "y"})"))),
                HasSubstr("suffix"));
    EXPECT_EQ(kOllamaChat.error({.message = "no \"x\""}), "{\"error\":\"no \\\"x\\\"\"}\n");
}

TEST(OllamaChat, StreamsLinesOfJson) {
    const auto writer = kOllamaChat.writer({}, kOllamaHead);
    EXPECT_EQ(writer->stream_type(), "application/x-ndjson");
    std::string text = writer->begin();
    text += writer->write(text_delta("", "hm"));
    text += writer->write(text_delta("Hi"));
    Delta call;
    call.tool_calls = {{.index = 0, .id = "call_a", .name = "add", .arguments = "{\"a\":"}};
    text += writer->write(call);
    call.tool_calls = {{.index = 0, .id = "", .name = "", .arguments = "1}"}};
    text += writer->write(call);
    text += writer->write(end_delta(EndReason::tool_calls));
    text += writer->end();
    const std::vector<Json> lines = lines_of(text);
    ASSERT_EQ(lines.size(), 4U) << text;
    EXPECT_EQ(lines[0]["message"]["thinking"], "hm");
    EXPECT_EQ(lines[0]["created_at"], "2023-11-14T22:13:20.000Z");
    EXPECT_EQ(lines[1].dump(), R"({"model":"tales","created_at":"2023-11-14T22:13:20.000Z",)"
                               R"("message":{"role":"assistant","content":"Hi"},"done":false})");
    EXPECT_EQ(lines[2]["message"]["tool_calls"][0]["function"]["arguments"].dump(), R"({"a":1})");
    EXPECT_EQ(lines[3]["done"], true);
    EXPECT_EQ(lines[3]["done_reason"], "stop");
    EXPECT_EQ(lines[3]["total_duration"], 3'750'000'000);
    EXPECT_EQ(lines[3]["load_duration"], 250'000'000);
    EXPECT_EQ(lines[3]["prompt_eval_count"], 11);
    EXPECT_EQ(lines[3]["prompt_eval_duration"], 1'000'000'000);
    EXPECT_EQ(lines[3]["eval_count"], 5);
    EXPECT_EQ(lines[3]["eval_duration"], 2'000'000'000);
}

TEST(OllamaGenerate, AppliesTheTemplateUnlessItIsRaw) {
    const auto told = kOllamaGenerate.parse(Json::parse(R"({"model": "m", "prompt": "x", "system": "s"})"));
    ASSERT_TRUE(told);
    EXPECT_EQ(told->messages.dump(), R"([{"role":"system","content":"s"},{"role":"user","content":"x"}])");
    const auto raw = kOllamaGenerate.parse(Json::parse(R"({"model": "m", "prompt": "x", "raw": true})"));
    ASSERT_TRUE(raw);
    EXPECT_EQ(raw->kind, AskKind::completion);
    EXPECT_EQ(std::get<std::string>(raw->prompts.at(0)), "x");

    WholeAnswer whole(1);
    whole.add(text_delta("Hi", "hm"));
    Delta last = end_delta(EndReason::length);
    last.logprobs = {{.chosen = {.text = "H", .bytes = "H", .logprob = -0.5F},
                      .top = {{.text = "J", .bytes = "J", .logprob = -1.0F}}}};
    whole.add(last);
    const Json json = Json::parse(kOllamaGenerate.writer({}, kOllamaHead)->whole(whole.choices()));
    EXPECT_EQ(json["response"], "Hi");
    EXPECT_EQ(json["thinking"], "hm");
    EXPECT_EQ(json["done_reason"], "length");
    EXPECT_EQ(
        json["logprobs"].dump(),
        R"([{"token":"H","logprob":-0.5,"bytes":[72],"top_logprobs":[{"token":"J","logprob":-1.0,"bytes":[74]}]}])");
}

TEST(OllamaEmbed, TakesOneTextOrSeveral) {
    const auto one = kOllamaEmbed.parse(Json::parse(R"({"model": "m", "input": "x"})"));
    ASSERT_TRUE(one);
    EXPECT_EQ(one->prompts.size(), 1U);
    EXPECT_TRUE(one->truncates);
    const auto two = kOllamaEmbed.parse(Json::parse(R"({"model": "m", "input": ["x", "y"], "truncate": false})"));
    EXPECT_EQ(two->prompts.size(), 2U);
    EXPECT_FALSE(two->truncates);
    EXPECT_FALSE(kOllamaEmbed.parse(Json::parse(R"({"model": "m", "input": [5]})")));
    const std::string text =
        kOllamaEmbed.embeddings(*one, kOllamaHead, {.vectors = {{0.5F, 1.0F}}, .prompt_tokens = 3, .total_seconds = 1});
    EXPECT_EQ(text,
              "{\"model\":\"tales\",\"embeddings\":[[0.5,1.0]],\"total_duration\":1000000000,"
              "\"load_duration\":250000000,\"prompt_eval_count\":3}\n");
}

TEST(OllamaEmbed, TakesTheOlderForm) {
    const auto ask = kOllamaEmbeddings.parse(Json::parse(R"({"model": "m", "prompt": "x"})"));
    ASSERT_TRUE(ask) << ask.error().message;
    EXPECT_EQ(std::get<std::string>(ask->prompts.front()), "x");
    EXPECT_FALSE(kOllamaEmbeddings.parse(Json::parse(R"({"model": "m"})")));
    EXPECT_EQ(kOllamaEmbeddings.embeddings(*ask, kOllamaHead, {.vectors = {{0.5F, 1.0F}}}),
              "{\"embedding\":[0.5,1.0]}\n");
}

TEST(OllamaModels, AreListed) {
    ModelCard card;
    card.name = "tales";
    card.state = ModelState::ready;
    card.created_s = 1'700'000'000;
    card.file_bytes = 100;
    card.family = "llama";
    card.parameters = 7'200'000'000;
    card.quantization = "q8_0";
    card.context = 512;
    card.trained_context = 1024;
    card.has_tools = true;
    card.memory_bytes = 300;
    card.device_bytes = 200;
    card.expires_in_s = 60;
    ModelCard other;
    other.name = "other";
    const std::vector<ModelCard> cards = {card, other};
    const Json tags = ollama_tags(cards);
    EXPECT_EQ(tags["models"].size(), 2U);
    EXPECT_EQ(tags["models"][0]["details"]["parameter_size"], "7.2B");
    EXPECT_EQ(tags["models"][0]["details"]["quantization_level"], "Q8_0");
    EXPECT_EQ(tags["models"][0]["digest"].get<std::string>().size(), 64U);
    const Json ps = ollama_ps(cards, std::chrono::system_clock::time_point());
    ASSERT_EQ(ps["models"].size(), 1U) << "only what is loaded";
    EXPECT_EQ(ps["models"][0]["expires_at"], "1970-01-01T00:01:00.000Z");
    EXPECT_EQ(ps["models"][0]["size_vram"], 200);
    EXPECT_EQ(ps["models"][0]["context_length"], 512);
    const Json show = ollama_show(card);
    EXPECT_EQ(show["model_info"]["llama.context_length"], 1024);
    EXPECT_EQ(show["capabilities"].dump(), R"(["completion","tools"])");
    EXPECT_EQ(ollama_version("0.1")["tandem"], "0.1");
}

TEST(OllamaModels, AreNamedInTwoWays) {
    EXPECT_EQ(*ollama_model_name({{"name", "a:latest"}}), "a");
    EXPECT_EQ(*ollama_model_name({{"model", "b:7b"}}), "b:7b");
    EXPECT_FALSE(ollama_model_name(Json::object()));
}

TEST(TimeText, ReadsDurations) {
    EXPECT_EQ(parse_duration("5m"), 300);
    EXPECT_EQ(parse_duration("1h30m0.5s"), 5400.5);
    EXPECT_EQ(parse_duration("300ms"), 0.3);
    EXPECT_EQ(parse_duration("-1m"), -60);
    EXPECT_EQ(parse_duration("0"), 0);
    EXPECT_EQ(parse_duration("-1"), -1);
    EXPECT_EQ(parse_duration("42"), 42);
    for (const char* bad : {"", "-", "--1", "m", "5 m", "5x", "5m3", "nan", "inf", "1e9", "5m-3s"})
        EXPECT_FALSE(parse_duration(bad)) << bad;
}

}  // namespace
}  // namespace tandem::server
