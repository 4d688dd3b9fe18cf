#include "server/ask.h"

#include <gtest/gtest.h>

#include <limits>

namespace tandem::server {
namespace {

std::string refusal(const Ask& ask) {
    const Reply<Ok> reply = check(ask);
    return reply ? "" : reply.error().param;
}

TEST(CheckAsk, TakesAnOrdinaryOne) {
    EXPECT_EQ(refusal({}), "");
}

TEST(CheckAsk, NamesTheFieldThatIsOutOfRange) {
    Ask ask;
    ask.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(refusal(ask), "temperature");
    ask = {};
    ask.n = 1'000'000;
    EXPECT_EQ(refusal(ask), "n");
    ask = {};
    ask.stop = {""};
    EXPECT_EQ(refusal(ask), "stop");
    ask = {};
    ask.logprobs = 21;
    EXPECT_EQ(refusal(ask), "logprobs");
    ask = {};
    ask.format = {.kind = FormatKind::gbnf, .source = std::string(1 << 20, 'x')};
    EXPECT_EQ(refusal(ask), "response_format");
    ask = {};
    ask.max_tokens = -1;
    EXPECT_EQ(refusal(ask), "max_tokens");
}

TEST(CheckAsk, WantsTheChosenToolToExist) {
    Ask ask;
    ask.tool_choice = ToolChoice::required;
    EXPECT_EQ(refusal(ask), "tool_choice");
    ask.tools = Json::parse(R"([{"type": "function", "function": {"name": "weather"}}])");
    EXPECT_EQ(refusal(ask), "");
    ask.tool_choice = ToolChoice::named;
    ask.tool_name = "time";
    EXPECT_EQ(refusal(ask), "tool_choice");
    ask.tool_name = "weather";
    EXPECT_EQ(refusal(ask), "");
}

}  // namespace
}  // namespace tandem::server
