#include <gtest/gtest.h>

#include "unit/text/answer_formats.h"

namespace tandem::text {
namespace {

TEST(AnswerFormat, IsKnownByTheMarksOfTheTemplate) {
    EXPECT_EQ(kQwen.calls, CallStyle::tagged);
    EXPECT_TRUE(kQwen.reasons());
    EXPECT_EQ(kQwen.reasoning_end, "</think>");
    EXPECT_TRUE(kQwen.knows_calls);
    EXPECT_EQ(kMistral.calls, CallStyle::listed);
    EXPECT_FALSE(kMistral.reasons());
    EXPECT_EQ(kNamedMistral.calls, CallStyle::named);
    EXPECT_EQ(kLlama.calls, CallStyle::plain);
    EXPECT_TRUE(kLlama.knows_calls);
    EXPECT_EQ(kGemma.calls, CallStyle::plain);
    EXPECT_FALSE(kGemma.knows_calls);
    EXPECT_EQ(answer_format("{{tools}} <tool_call><function=f></tool_call>").calls, CallStyle::spelled);
    EXPECT_EQ(answer_format("{{tools}} <tool_call>f<arg_key>k</arg_key></tool_call>").calls, CallStyle::keyed);
    EXPECT_EQ(answer_format("{{tools}} <|tool_call|>").calls, CallStyle::barred);
    EXPECT_EQ(kGemma4.calls, CallStyle::called);
    EXPECT_EQ(kGemma4.reasoning_end, "<channel|>");
    EXPECT_EQ(kHarmony.calls, CallStyle::harmony);
    EXPECT_TRUE(kHarmony.reasons());
    EXPECT_TRUE(kHarmony.knows_calls);
    const AnswerFormat own_way = answer_format("{{tools}} <function=f>");
    EXPECT_FALSE(own_way.knows_calls) << "a style that is not known needs a grammar";
}

TEST(AnswerFormat, SaysWhatComesBeforeAnAnswerOfAGrammar) {
    EXPECT_EQ(opening_of(kQwen), "");
    EXPECT_EQ(opening_of(kHarmony), "<|channel|>final<|message|>");
}

TEST(AnswerFormat, SeesWhetherThePromptOpensTheReasoning) {
    EXPECT_TRUE(opens_reasoning(kQwen, "<|im_start|>assistant\n<think>\n"));
    EXPECT_FALSE(opens_reasoning(kQwen, "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
    EXPECT_FALSE(opens_reasoning(kGemma, "<think>"));
}

TEST(AnswerFormat, HasMarksThatMustBeShown) {
    using Marks = std::vector<std::string_view>;
    EXPECT_EQ(marks_of(kQwen, true), (Marks{"<think>", "</think>", "<tool_call>", "</tool_call>"}));
    EXPECT_EQ(marks_of(kQwen, false), (Marks{"<think>", "</think>"}));
    EXPECT_EQ(marks_of(kNamedMistral, true), (Marks{"[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"}));
    EXPECT_EQ(marks_of(kLlama, true), Marks{"<|python_tag|>"});
    EXPECT_TRUE(marks_of(kGemma, false).empty());
    EXPECT_EQ(marks_of(kGemma4, true), (Marks{"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|\"|>"}));
    EXPECT_EQ(marks_of(kHarmony, false),
              (Marks{"<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>"}));
}

}  // namespace
}  // namespace tandem::text
