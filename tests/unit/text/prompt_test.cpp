#include "text/prompt.h"

#include <gtest/gtest.h>

#include "text/byte_level.h"

namespace tandem::text {
namespace {

using Json = nlohmann::ordered_json;
using Kind = PromptError::Kind;

constexpr int kVocab = 262;
constexpr PromptLimits kLimits = {.context = 64, .vocab = kVocab};

// A token for each byte, and a few with a meaning.
Tokenizer make_bytes() {
    Json vocab = Json::object();
    for (int byte = 0; byte < 256; ++byte) {
        std::string letter;
        const char raw = static_cast<char>(byte);
        append_byte_level({&raw, 1}, letter);
        vocab[letter] = byte;
    }
    Json added = Json::array();
    for (const char* mark : {"<s>", "</s>", "<think>", "</think>", "<tool_call>", "</tool_call>"}) {
        added.push_back({{"id", 256 + added.size()}, {"content", mark}, {"special", true}, {"normalized", false}});
    }
    const Json root = {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}},
                       {"added_tokens", added},
                       {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
                       {"decoder", {{"type", "ByteLevel"}}}};
    return parse_tokenizer_json(root.dump(), "bytes").value();
}

const Tokenizer& bytes() {
    static const Tokenizer tokenizer = make_bytes();
    return tokenizer;
}

PromptMaker maker(const char* source) {
    return {bytes(), source == nullptr ? std::nullopt : std::optional(ChatTemplate::parse(source).value())};
}

constexpr const char* kPlain = "{% for m in messages %}{{ m.role[0] + ':' + m.content + ';' }}{% endfor %}";
constexpr const char* kOpensThinking =
    "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n{# and it ends with </think> #}";
constexpr const char* kSwitch =
    "{% for m in messages %}{{ m.content }}{% endfor %}{{ '<think>' if thinking or enable_thinking else '</think>' }}";

PromptInput question(const std::string& text) {
    PromptInput input;
    input.messages.push_back({{"role", "user"}, {"content", text}});
    return input;
}

std::string text_of(const Made<Prompt>& prompt) {
    return prompt ? bytes().decode(prompt->tokens, false) : prompt.error().message;
}

TEST(PromptMaker, MakesTokensOfAConversationATextOrTokens) {
    EXPECT_EQ(text_of(maker(kPlain).chat(question("hi"), kLimits)), "u:hi;");
    EXPECT_EQ(text_of(maker(kPlain).text("hi", kLimits)), "hi");
    EXPECT_EQ(text_of(PromptMaker::tokens({'h', 'i'}, kLimits)), bytes().decode(std::vector<TokenId>{'h', 'i'}));
}

TEST(PromptMaker, SaysWhereAPromptIsNotUtf8) {
    PromptInput input = question("caf\xE9");
    input.messages.insert(input.messages.begin(), Json{{"role", "system"}, {"content", "brief"}});
    const Made<Prompt> prompt = maker(kPlain).chat(input, kLimits);
    ASSERT_FALSE(prompt);
    EXPECT_EQ(prompt.error().kind, Kind::not_utf8);
    EXPECT_EQ(prompt.error().field, "messages[1].content");
    EXPECT_TRUE(prompt.error().message.starts_with("the prompt is not UTF-8: byte 4 of the user message is 0xE9; "))
        << prompt.error().message;
    EXPECT_EQ(maker(nullptr).text("a\xFF", kLimits).error().kind, Kind::not_utf8);
    EXPECT_EQ(maker(nullptr).cut_text("a\xC3", kLimits).error().kind, Kind::not_utf8);
    input = question("?");
    input.tools = Json::array({{{"function", {{"name", "\xFF"}}}}});
    EXPECT_EQ(maker(kPlain).chat(input, kLimits).error().field, "tools[0].function.name");
    input = question("?");
    input.values = {{"mood", "\xFF"}};
    EXPECT_EQ(maker(kPlain).chat(input, kLimits).error().field, "chat_template_kwargs.mood");
}

TEST(PromptMaker, RefusesWhatHasNoTokensTooManyOrUnknownOnes) {
    EXPECT_EQ(maker(nullptr).text("", kLimits).error().kind, Kind::empty);
    EXPECT_EQ(PromptMaker::tokens({}, kLimits).error().kind, Kind::empty);
    EXPECT_EQ(PromptMaker::tokens({1, kVocab}, kLimits).error().kind, Kind::unknown_token);
    EXPECT_EQ(PromptMaker::tokens({-1}, kLimits).error().kind, Kind::unknown_token);
    EXPECT_TRUE(maker(nullptr).text(std::string(64, 'a'), kLimits));
    const Made<Prompt> prompt = maker(nullptr).text(std::string(65, 'a'), kLimits);
    ASSERT_FALSE(prompt);
    EXPECT_EQ(prompt.error().kind, Kind::too_long);
    EXPECT_EQ(prompt.error().tokens, 65);
    EXPECT_TRUE(maker(nullptr).text(std::string(65, 'a'), {.context = 0, .vocab = kVocab})) << "no limit";
}

// Of a text that cannot fit only a beginning is encoded: the count that is told is that of the beginning.
TEST(PromptMaker, EncodesNoMoreThanShowsThatATextIsTooLong) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += "é日";
    const Made<Prompt> prompt = maker(kPlain).chat(question(text), kLimits);
    ASSERT_FALSE(prompt);
    EXPECT_EQ(prompt.error().kind, Kind::too_long);
    EXPECT_GT(prompt.error().tokens, 128);
    EXPECT_LT(prompt.error().tokens, 4096) << "of 500,000";
    EXPECT_NE(prompt.error().message.find("more than"), std::string::npos);
    const Made<Prompt> cut = maker(nullptr).cut_text(text, kLimits);
    ASSERT_TRUE(cut);
    EXPECT_EQ(cut->tokens.size(), 64U);
    EXPECT_TRUE(text.starts_with(bytes().decode(std::vector<TokenId>(cut->tokens.begin(), cut->tokens.begin() + 50))));
}

// A beginning with few tokens proves nothing: the whole text is looked at.
TEST(PromptMaker, ALongTextOfFewTokensFits) {
    const std::string text(6 * 2000, 'a');
    std::string marks;
    for (int i = 0; i < 60; ++i) marks += "<tool_call>";
    EXPECT_TRUE(maker(nullptr).text(marks, kLimits));
    EXPECT_FALSE(maker(nullptr).text(text, kLimits));
}

TEST(PromptMaker, ClosesReasoningThatMustNotBegin) {
    EXPECT_TRUE(maker(kOpensThinking).chat(question("q"), kLimits)->begins_in_reasoning);
    PromptInput input = question("q");
    input.thinking = false;
    const Made<Prompt> prompt = maker(kOpensThinking).chat(input, kLimits);
    EXPECT_EQ(text_of(prompt), "q<think>\n</think>\n\n");
    EXPECT_FALSE(prompt->begins_in_reasoning);
    EXPECT_EQ(prompt->shown, (std::vector<TokenId>{258, 259})) << "the marks that the reader must see";
    input = question("q");
    input.constrained = true;
    EXPECT_EQ(text_of(maker(kOpensThinking).chat(input, kLimits)), "q<think>\n</think>\n\n");
}

TEST(PromptMaker, TheSwitchHasBothNamesThatTemplatesKnow) {
    for (const char* name : {"thinking", "enable_thinking"}) {
        const std::string source = "{{ messages[0].content }}{{ 'on' if " + std::string(name) + " else 'off' }}";
        PromptInput input = question("q");
        input.thinking = true;
        EXPECT_EQ(text_of(maker(source.c_str()).chat(input, kLimits)), "qon");
        input.thinking = false;
        EXPECT_EQ(text_of(maker(source.c_str()).chat(input, kLimits)), "qoff");
        input.thinking.reset();
        EXPECT_EQ(text_of(maker(source.c_str()).chat(input, kLimits)), "qoff");
    }
}

TEST(PromptMaker, TheEffortSaysWhetherTheModelThinks) {
    const char* const source = "{{ reasoning_effort }} {{ enable_thinking }}{#<|channel|><|message|>#}";
    const std::string plain = "{{ reasoning_effort }} {{ enable_thinking }}";
    const auto said = [&](const char* effort, std::optional<bool> thinking, const std::string& of) {
        PromptInput input = question("q");
        input.reasoning_effort = effort;
        input.thinking = thinking;
        return text_of(maker(of.c_str()).chat(input, kLimits));
    };
    EXPECT_EQ(said("none", {}, plain), "none False");
    EXPECT_EQ(said("minimal", {}, plain), "minimal False");
    EXPECT_EQ(said("high", {}, plain), "high True");
    EXPECT_EQ(said("high", false, plain), "high False");
    EXPECT_EQ(said("", {}, plain), " ");
    EXPECT_EQ(said("high", {}, source), "high True");
    EXPECT_EQ(said("xhigh", {}, source), "high True");
    EXPECT_EQ(said("none", {}, source), "low False") << "gpt-oss knows no less";
    EXPECT_EQ(said("", false, source), "low False");
}

TEST(PromptMaker, GoesOnFromTheLastMessageAndIntoACall) {
    PromptInput input = question("q");
    input.messages.push_back({{"role", "assistant"}, {"content", "Sure"}});
    input.continues_last = true;
    EXPECT_EQ(text_of(maker(kPlain).chat(input, kLimits)), "u:q;Sure");
    input = question("q");
    input.tools = Json::array({{{"type", "function"}, {"function", {{"name", "f"}}}}});
    input.calls_tool = true;
    const Made<Prompt> call =
        maker("{{ messages[0].content }}{% if tools %}{{ tools[0].function.name }}<tool_call></tool_call>{% endif %}")
            .chat(input, kLimits);
    EXPECT_EQ(text_of(call), "qf<tool_call></tool_call>") << "the grammar begins with the mark";
    EXPECT_EQ(call->format.calls, CallStyle::tagged);
    input.messages.push_back({{"role", "assistant"}, {"content", "Sure"}});
    input.continues_last = true;
    const char* const harmony =
        "{{ messages[0].content }}{{ tools[0].function.name }}{#<|channel|><|message|>#}<|start|>assistant";
    EXPECT_EQ(text_of(maker(harmony).chat(input, {.context = 128, .vocab = kLimits.vocab})),
              "qf<|start|>assistant<|channel|>final<|message|>Sure<|end|><|start|>assistant");
}

TEST(PromptMaker, NamesWhatIsWrongWithATemplate) {
    const Made<Prompt> none = maker(nullptr).chat(question("q"), kLimits);
    EXPECT_EQ(none.error().kind, Kind::no_template);
    EXPECT_EQ(none.error().field, "model");
    const Made<Prompt> failed = maker("{{ raise_exception('no such role') }}").chat(question("q"), kLimits);
    EXPECT_EQ(failed.error().kind, Kind::template_failed);
    EXPECT_NE(failed.error().message.find("no such role"), std::string::npos);
}

TEST(PromptMaker, KnowsWhetherAModelThinksByAnyOfTheMarks) {
    EXPECT_FALSE(maker(kPlain).chat_template()->answer_format().reasons());
    EXPECT_TRUE(maker(kSwitch).chat_template()->answer_format().reasons());
    for (const char* marks : {"[THINK][/THINK]", "<|START_THINKING|><|END_THINKING|>", "<thinking></thinking>"}) {
        EXPECT_TRUE(maker(marks).chat_template()->answer_format().reasons()) << marks;
    }
}

}  // namespace
}  // namespace tandem::text
