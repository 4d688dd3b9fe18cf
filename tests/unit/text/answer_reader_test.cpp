#include "text/answer_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "format/json.h"
#include "unit/text/answer_formats.h"

namespace tandem::text {
namespace {

using PartKind = AnswerPart::Kind;

AnswerReaderOptions with_tools(const AnswerFormat& format) {
    return {.format = format, .tools = {"add", "get_weather", "get"}};
}

// The parts in one line, neighbours of a kind joined: "think[...]", "add(...)", and content as it is.
std::string joined(const std::vector<AnswerPart>& parts) {
    std::string line;
    for (size_t i = 0; i < parts.size(); ++i) {
        const bool first = i == 0 || parts[i - 1].kind != parts[i].kind;
        const bool last = i + 1 == parts.size() || parts[i + 1].kind != parts[i].kind;
        if (parts[i].kind == PartKind::call) {
            line += parts[i].name + "(" + parts[i].text + ")";
        } else if (parts[i].kind == PartKind::reasoning) {
            line += (first ? "think[" : "") + parts[i].text + (last ? "]" : "");
        } else {
            line += parts[i].text;
        }
    }
    return line;
}

template <typename NextLength>
std::string read_in_pieces(const AnswerReaderOptions& options, std::string_view text, NextLength next_length) {
    AnswerReader reader(options);
    std::vector<AnswerPart> parts;
    const auto take = [&](std::vector<AnswerPart> more) {
        for (AnswerPart& part : more) parts.push_back(std::move(part));
    };
    for (size_t at = 0; at < text.size();) {
        const size_t length = next_length();
        take(reader.push(text.substr(at, length)));
        at += length;
    }
    take(reader.finish());
    EXPECT_TRUE(reader.finish().empty());
    return joined(parts);
}

// The same for every length of the pieces.
std::string read(const AnswerReaderOptions& options, std::string_view text) {
    std::string whole = read_in_pieces(options, text, [&] { return text.size(); });
    for (size_t step = 1; step < std::min<size_t>(text.size(), 30); ++step) {
        EXPECT_EQ(read_in_pieces(options, text, [&] { return step; }), whole) << "in pieces of " << step;
    }
    return whole;
}

TEST(AnswerReader, SplitsReasoningFromContent) {
    const AnswerReaderOptions plain{.format = kQwen};
    EXPECT_EQ(read(plain, "<think>\nhm, 2 < 3\n\n</think>\n\nIt is so.\n"), "think[hm, 2 < 3]It is so.\n");
    EXPECT_EQ(read(plain, "\n <think>a</think>b"), "think[a]b");
    EXPECT_EQ(read(plain, "<think>never ends </thin"), "think[never ends </thin]");
    EXPECT_EQ(read(plain, "<think>\n\n</think>\n\nNo thoughts."), "No thoughts.");
    EXPECT_EQ(read(plain, " <thing> is no mark"), " <thing> is no mark");
    EXPECT_EQ(read(plain, "a <think>late</think>"), "a <think>late</think>");
    EXPECT_EQ(read({.format = kQwen, .begins_in_reasoning = true}, "so\n</think>\nyes"), "think[so]yes");
    EXPECT_EQ(read({.format = kQwen, .splits_reasoning = false}, "<think>a</think>b"), "<think>a</think>b");
    EXPECT_EQ(read({.format = kGemma}, "<think>a</think>b"), "<think>a</think>b");
    EXPECT_EQ(read(plain, ""), "");
    EXPECT_EQ(read(plain, " \n"), " \n");
}

TEST(AnswerReader, FindsTaggedCalls) {
    const AnswerReaderOptions options = with_tools(kQwen);
    EXPECT_EQ(
        read(options, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\":  2.50, \"a\": 1e3}}\n</tool_call>"),
        R"(add({"b":  2.50, "a": 1e3}))");
    EXPECT_EQ(read(options,
                   "<think>\nadd</think>\n\nLet me see.\n<tool_call>{\"name\":\"add\",\"arguments\":{}}"
                   "</tool_call>\n<tool_call>{\"arguments\":{\"s\":\"</tool_call>\"},\"name\":\"other\"}"
                   "</tool_call>\nDone."),
              R"(think[add]Let me see.add({})other({"s":"</tool_call>"})Done.)");
    EXPECT_EQ(read(options, R"(<tool_call>{"name":"add"}</tool_call>)"), "add({})");
    EXPECT_EQ(read(options, R"(<tool_call>{"name":"add","arguments":{}})"), "add({})") << "without its end";
    EXPECT_EQ(read(options, R"(<tool_call>{"name":"add","arguments":{}} {"name":"get","arguments":{}}</tool_call>)"),
              "add({})get({})")
        << "two in one mark";
    EXPECT_EQ(read(options, R"(<tool_call>{"name":"add","arguments":"{\"a\": 1}"}</tool_call>)"), R"(add({"a": 1}))");
    EXPECT_EQ(read(options, R"(<tool_call>{"type":"function","function":{"name":"add","arguments":{"a":[1]}}})"),
              R"(add({"a":[1]}))");
}

TEST(AnswerReader, WhatIsNoCallIsContent) {
    for (const char* text : {
             "<tool_call>",
             "<tool_call> and",
             "a\n<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":",
             "<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>",
             "<tool_call>{\"name\":\"add\",\"arguments\":[]}",
             "<tool_call>[{\"name\":\"add\",\"arguments\":{}}, 5]</tool_call>",
             "<tool_call>{]</tool_call>x",
             "<tool_call>{\"a\":01}",
             "<tool_call>[]",
             "<tool_call>{\"name\":\"add\",\"arguments\":\"no\"}",
             "<tool_call>{\"name\":\"\",\"arguments\":{}}",
             "  {\"name\":\"x\",\"arguments\":{}} ",
             "{\"answer\": 42}",
             "{}",
             "[1, 2]",
             "{\"name\": \"add\"} and",
             "use <tool_call> or < or </tool_call>",
             "<tool_call>{\"function\":{\"function\":{\"name\":\"add\"}}}",
             "{\"name\":\"add\",\"arguments\":{}, \n",
         }) {
        EXPECT_EQ(read(with_tools(kQwen), text), text);
    }
    const std::string nested = "<tool_call>" + std::string(2000, '[');
    EXPECT_EQ(read(with_tools(kQwen), nested), nested);
    EXPECT_EQ(read({.format = kQwen}, "<tool_call>{\"name\":\"add\",\"arguments\":{}}"),
              "<tool_call>{\"name\":\"add\",\"arguments\":{}}")
        << "nothing was offered";
    EXPECT_EQ(read(with_tools(kQwen), "<tool_call>{\"name\":<tool_call>{\"name\":\"add\",\"arguments\":{}}"),
              "<tool_call>{\"name\":add({})")
        << "a broken call does not hide the next";
}

TEST(AnswerReader, FindsTheCallsOfOtherTemplates) {
    const std::string list = R"([{"name": "add", "arguments": {"a": 1}}, {"name": "get", "arguments": {}, "id": "x"}])";
    EXPECT_EQ(read(with_tools(kMistral), "[TOOL_CALLS]" + list), R"(add({"a": 1})get({}))");
    EXPECT_EQ(read(with_tools(kMistral), " " + list + "\n"), R"(add({"a": 1})get({}))");
    EXPECT_EQ(read(with_tools(kMistral), "So: [TOOL_CALLS] " + list), R"(So:add({"a": 1})get({}))");
    EXPECT_EQ(read(with_tools(kMistral), "[TOOL_CALLS]add"), "[TOOL_CALLS]add");
    EXPECT_EQ(read(with_tools(kMistral), "[1] is a footnote"), "[1] is a footnote");

    EXPECT_EQ(read(with_tools(kNamedMistral), "[TOOL_CALLS]get_weather[ARGS]{\"in\": \"Rome\"}[TOOL_CALLS]get{}"),
              R"(get_weather({"in": "Rome"})get({}))");
    EXPECT_EQ(read(with_tools(kNamedMistral), "get[ARGS]{\"x\": {}}add{}"), R"(get({"x": {}})add({}))");
    EXPECT_EQ(read(with_tools(kNamedMistral), "get it, or add{ nothing"), "get it, or add{ nothing");
    EXPECT_EQ(read(with_tools(kNamedMistral), "get[ARGS][]"), "get[ARGS][]");

    EXPECT_EQ(read(with_tools(kNamedMistral),
                   "[TOOL_CALLS]get[CALL_ID]VvvODy9mT[ARGS]{\"x\": 1}[TOOL_CALLS]add[CALL_"
                   "ID]000000001[ARGS]{}"),
              R"(get({"x": 1})add({}))");
    EXPECT_EQ(read(with_tools(kNamedMistral), "[TOOL_CALLS]get[CALL_ID]{}"), "get({})");
    const std::string endless = "[TOOL_CALLS]get[CALL_ID]" + std::string(200, 'x');
    EXPECT_EQ(read(with_tools(kNamedMistral), endless), endless);
    EXPECT_EQ(read(with_tools(kNamedMistral), "[TOOL_CALLS]get[CALL_ID]x"), "[TOOL_CALLS]get[CALL_ID]x");

    const std::string call = R"({"name": "add", "parameters": {"a": "x"}})";
    EXPECT_EQ(read(with_tools(kLlama), call), R"(add({"a": "x"}))");
    EXPECT_EQ(read(with_tools(kLlama), "<|python_tag|>" + call + "; " + call), R"(add({"a": "x"})add({"a": "x"}))");
    EXPECT_EQ(read(with_tools(kLlama), "I shall add.\n\n<|python_tag|>" + call), R"(I shall add.add({"a": "x"}))");
    EXPECT_EQ(read(with_tools(kLlama), call + "; done"), R"(add({"a": "x"}); done)");
    EXPECT_EQ(read(with_tools(kLlama), R"({"type": "function", "name": "add", "parameters": {}})"), "add({})");
    EXPECT_EQ(read(with_tools(kGemma), R"({"name": "add", "arguments": {}})"), "add({})");
}

// As far as a text that was cut off has calls.
std::string read_cut(const AnswerReaderOptions& options, std::string_view text) {
    AnswerReader reader(options);
    std::vector<AnswerPart> parts = reader.push(text);
    for (AnswerPart& part : reader.finish(true)) parts.push_back(std::move(part));
    return joined(parts);
}

TEST(AnswerReader, KeepsACallThatWasCutOff) {
    const AnswerReaderOptions qwen = with_tools(kQwen);
    EXPECT_EQ(read_cut(qwen, "So.\n<tool_call>{\"name\":\"add\",\"arguments\":{\"a\": \"tw"), "So.add({\"a\": \"tw)");
    EXPECT_EQ(read_cut(qwen, "<tool_call>{\"name\":\"add\",\"arguments\":{}"), "add({})");
    EXPECT_EQ(read_cut(qwen, "<tool_call>{\"name\":\"add\",\"argu"), "add()");
    EXPECT_EQ(read_cut(qwen, "{\"name\":\"add\",\"parameters\":{\"a\": 1"), "add({\"a\": 1)");
    EXPECT_EQ(read_cut(qwen, "<tool_call>{\"function\":{\"name\":\"add\",\"arguments\":{"), "add({)");
    EXPECT_EQ(read_cut(with_tools(kNamedMistral), "[TOOL_CALLS]get[ARGS]{\"x\": [1, "), "get({\"x\": [1, )");
    const std::string first = R"([TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}, )";
    EXPECT_EQ(read_cut(with_tools(kMistral), first), R"(add({"a": 1}))");
    EXPECT_EQ(read_cut(with_tools(kMistral), first + "{\"name\": \"get\", \"arguments\": {\"x"),
              R"(add({"a": 1})get({"x))");
    for (const char* text : {
             "<tool_call>",
             "<tool_call>{\"name\":\"ad",
             "<tool_call>{\"name\":\"add\",\"arguments\":\"{",
             "<tool_call>{\"arguments\":{\"a\":1},",
             "{\"name\":\"other\",\"arguments\":{",
             "<tool_call>[{\"name\":\"add\",\"arguments\":{}}, 5, ",
         }) {
        EXPECT_EQ(read_cut(qwen, text), text) << "no call has begun";
    }
}

TEST(AnswerReader, HoldsBackOnlyWhatCouldBecomeAMark) {
    AnswerReader reader(with_tools(kQwen));
    EXPECT_EQ(joined(reader.push("a <too")), "a");
    EXPECT_EQ(joined(reader.push("th")), " <tooth");
    EXPECT_EQ(joined(reader.push(" {\"json\"")), " {\"json\"");
    EXPECT_EQ(joined(reader.push("\n\n")), "");
    EXPECT_EQ(joined(reader.push("b")), "\n\nb");

    AnswerReader json(with_tools(kLlama));
    EXPECT_EQ(joined(json.push("{\"na")), "");
    EXPECT_EQ(joined(json.push("tion\"")), "{\"nation\"") << "no call begins so";

    AnswerReader without_tools({.format = kGemma});
    EXPECT_EQ(joined(without_tools.push("<tool ")), "<tool ");
}

TEST(AnswerReader, KeepsTheArgumentsThatAreCompleteOfACallThatIsNoJson) {
    AnswerReaderOptions coder = with_tools(text::answer_format("{{tools}} <tool_call><function=f></tool_call>"));
    coder.text_parameters = {{"add", "a"}};
    const std::string begun = "So.<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n";
    EXPECT_EQ(read_cut(coder, begun + "<parameter=b>\n2"), "So.add({\"a\":\"1\")");
    EXPECT_EQ(read_cut(coder, begun + "</function>\n</tool"), "So.add({\"a\":\"1\"})");
    EXPECT_EQ(read_cut(coder, "<tool_call>\n<function=add>\n<param"), "add()");
    EXPECT_EQ(read_cut(coder, "<tool_call>\n<function=ad"), "<tool_call>\n<function=ad") << "no name yet";
    const AnswerReaderOptions glm = with_tools(text::answer_format("{{tools}} <tool_call>f<arg_key>k</arg_key>"));
    EXPECT_EQ(read_cut(glm, "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>[1]</arg_value>\n<arg_k"),
              "add({\"a\":[1])");
    EXPECT_EQ(read_cut(glm, "<tool_call>add<arg_key>a</arg_key><arg_value>1"), "add()");
    EXPECT_EQ(read_cut(glm, "<tool_call>ad"), "<tool_call>ad") << "the name may go on";
    const AnswerReaderOptions gemma = with_tools(text::answer_format("{{tools}} <|tool_call>call:f{}<tool_call|>"));
    EXPECT_EQ(read_cut(gemma, "<|tool_call>call:add{a:<|\"|>x"), "add()");
    EXPECT_EQ(read_cut(gemma, "<|tool_call>call:ad"), "<|tool_call>call:ad");
}

// Marks, parts of them and other text in any order: however it is cut, the parts are the same, and nothing is lost.
TEST(AnswerReader, GivesTheSameForAnyPiecesOfAnyText) {
    const std::vector<std::string> words = {
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "[TOOL_CALLS]",
        "[CALL_ID]",
        "[ARGS]",
        "<|python_tag|>",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        ";",
        ",",
        ":",
        "\"name\"",
        "\"add\"",
        "add",
        "get",
        "1",
        "true",
        "\"arguments\"",
        " ",
        "\n\n",
        "é",
        "text",
        "<",
        std::string(70, ' '),
        "{\"name\":\"add\",",
        "\"arguments\":{}}",
        "{\"name\":\"get\",\"parameters\":{\"a\":[1,{\"b\":\"}\"}]}}",
    };
    std::mt19937 random(7);
    const auto below = [&](size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random); };
    for (int round = 0; round < 3000; ++round) {
        std::string text;
        for (size_t count = below(14); count > 0; --count) text += words[below(words.size())];
        for (const AnswerFormat& format : {kQwen, kMistral, kNamedMistral, kLlama}) {
            AnswerReaderOptions options = with_tools(format);
            options.begins_in_reasoning = below(8) == 0;
            const std::string whole = read_in_pieces(options, text, [&] { return text.size(); });
            ASSERT_EQ(read_in_pieces(options, text, [] { return 1; }), whole) << text;
            ASSERT_EQ(read_in_pieces(options, text, [&] { return below(9) + 1; }), whole) << text;
        }
    }
}

TEST(AnswerReader, SplitsTheChannelsOfHarmony) {
    const AnswerReaderOptions plain{.format = kHarmony};
    EXPECT_EQ(
        read(plain,
             "<|channel|>analysis<|message|>hm, <|x|> 2 < 3<|end|><|start|>assistant<|channel|>final<|message|>It is "
             "so."),
        "think[hm, <|x|> 2 < 3]It is so.");
    EXPECT_EQ(read(plain, "<|channel|>final<|message|>At once.<|return|>"), "At once.");
    EXPECT_EQ(read(plain, "<|channel|>analysis<|message|>never ends <|en"), "think[never ends <|en]");
    EXPECT_EQ(read(plain, "{\"answer\": 42}"), "{\"answer\": 42}") << "where the prompt has the header";
    EXPECT_EQ(read(plain, "<|channel|>analysis<|mess"), "") << "half a header";
    EXPECT_EQ(read(plain, "<|channel|>commentary to=functions.add<|message|>{}<|call|>"), "{}") << "no tools";
    EXPECT_EQ(read(plain, ""), "");
}

TEST(AnswerReader, FindsTheCallsOfHarmony) {
    const AnswerReaderOptions options = with_tools(kHarmony);
    EXPECT_EQ(read(options,
                   "<|channel|>analysis<|message|>add them<|end|><|start|>assistant<|channel|>commentary "
                   "to=functions.add <|constrain|>json<|message|>{\"b\":  2.50, \"a\": 1e3}"),
              R"(think[add them]add({"b":  2.50, "a": 1e3}))")
        << "the mark that ends a call stops the answer and is not shown";
    EXPECT_EQ(read(options, " to=functions.get<|channel|>commentary json<|message|>{}<|call|>"), "get({})")
        << "in the role";
    EXPECT_EQ(read(options,
                   "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant<|channel|>commentary "
                   "to=functions.get<|message|>"),
              "Let me see.get({})");
    EXPECT_EQ(read(options, "<|channel|>commentary to=functions.get<|message|>no object"), "no object");
    AnswerReader cut(options);
    (void)cut.push("<|channel|>commentary to=functions.add<|message|>{\"a\": 1");
    EXPECT_EQ(joined(cut.finish(true)), "add({\"a\": 1)");
}

TEST(AnswerReader, FindsTheCallsOfGemma4) {
    const AnswerReaderOptions options = with_tools(kGemma4);
    EXPECT_EQ(
        read(
            options,
            "<|channel>thought\nadd<channel|>Let me see.<|tool_call>call:add{a:1,b:-2.5e3,list:[<|\"|>x, y<|\"|>,true],"
            "deep:{k:null,<|\"|>a b<|\"|>:<|\"|>}<|\"|>}}<tool_call|><|tool_call>call:get{}<tool_call|>"),
        R"(think[add]Let me see.add({"a":1,"b":-2500.0,"list":["x, y",true],"deep":{"k":null,"a b":"}"}})get({}))");
    EXPECT_EQ(read({.format = kGemma4}, "<|channel>thought\n<channel|>No thoughts."), "No thoughts.");
    for (const char* text :
         {"<|tool_call>call:add{a:1<tool_call|>", "<|tool_call>call:{}<tool_call|>", "<|tool_call>add{}<tool_call|>",
          "<|tool_call>call:add{a:}<tool_call|> x", "<|tool_call>call:add{}"}) {
        EXPECT_EQ(read(options, text), text);
    }
}

TEST(AnswerReader, FindsCallsThatAreSpelledOut) {
    AnswerReaderOptions options = with_tools(kGlm);
    options.text_parameters = {{"add", "note"}};
    EXPECT_EQ(read(options,
                   "<think>so</think>\n<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>note</"
                   "arg_key>\n"
                   "<arg_value>2</arg_value>\n<arg_key>at</arg_key><arg_value>New York</arg_value></tool_call>\n"
                   "<tool_call>get</tool_call>"),
              R"(think[so]add({"a":1,"note":"2","at":"New York"})get({}))");
    EXPECT_EQ(read(options, "<tool_call>add<arg_key>a</tool_call>x"), "<tool_call>add<arg_key>a</tool_call>x");
    options.format = kSpelled;
    EXPECT_EQ(
        read(options,
             "<tool_call>\n<function=add>\n<parameter=a>\n[1, 2]\n</parameter>\n<parameter=note>\n7\n\n</parameter>\n"
             "</function>\n</tool_call>"),
        R"(add({"a":[1,2],"note":"7\n"}))");
    EXPECT_EQ(read(options, "<tool_call><function=></tool_call>"), "<tool_call><function=></tool_call>");
}

TEST(AnswerReader, FindsCallsBetweenBars) {
    const AnswerReaderOptions options = with_tools(kBarred);
    EXPECT_EQ(
        read(options, R"(<|tool_call|>[{"name": "add", "arguments": {"a": 1}}, {"name": "get", "arguments": {}}])"),
        R"(add({"a": 1})get({}))");
    EXPECT_EQ(read(options, R"(<|tool_call|>[{"name":"add","arguments":{}}]<|/tool_call|>done)"), "add({})done");
}

}  // namespace
}  // namespace tandem::text
