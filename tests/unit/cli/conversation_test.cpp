#include "cli/conversation.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace tandem::cli {
namespace {

std::string temporary(const char* name) {
    return testing::TempDir() + name;
}

Result<Conversation> load_text(std::string_view text) {
    const std::string path = temporary("conversation.json");
    EXPECT_TRUE(write_file(path, text));
    return load_conversation(path);
}

TEST(Conversation, ComesBackAsItWasSaved) {
    const Conversation saved{.system = "Be brief.",
                             .messages = {{"user", "Wie geht's?\n\"gut\" \\ \xc3\xa4"}, {"assistant", ""}}};
    ASSERT_TRUE(save_conversation(temporary("saved.json"), saved));
    const auto loaded = load_conversation(temporary("saved.json"));
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->system, saved.system);
    EXPECT_EQ(loaded->messages, saved.messages);
}

TEST(Conversation, MayBeABareListWithASystemMessage) {
    const auto loaded =
        load_text(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "u", "name": "ignored"}])");
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->system, "s");
    EXPECT_EQ(loaded->messages, (std::vector<Message>{{"user", "u"}}));
}

TEST(Conversation, AnythingElseIsAnErrorOfOneLine) {
    const char* const bad[] = {"",
                               "hello",
                               "{",
                               "{}",
                               "3",
                               "{\"messages\": 1}",
                               "[1]",
                               R"([{"role": "user"}])",
                               R"([{"role": 1, "content": "x"}])",
                               R"([{"role": "tool", "content": "x"}])",
                               R"([{"role": "user", "content": [1]}])"};
    for (const char* text : bad) {
        const auto loaded = load_text(text);
        ASSERT_FALSE(loaded) << text;
        EXPECT_NE(loaded.error().message.find("conversation.json"), std::string::npos);
        EXPECT_EQ(loaded.error().message.find('\n'), std::string::npos) << loaded.error().message;
    }
    EXPECT_FALSE(load_text(std::string(100000, '[')));
    EXPECT_FALSE(load_conversation(temporary("no such file")));
}

TEST(Conversation, AFullDiskIsAnErrorOfOneLine) {
    const Status status = save_conversation("/dev/full", {.system = {}, .messages = {{"user", "hello"}}});
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().message.find("/dev/full: "), std::string::npos);
    EXPECT_NE(status.error().message.find("No space left"), std::string::npos) << status.error().message;
}

TEST(Conversation, BytesThatAreNoTextAreReplaced) {
    ASSERT_TRUE(save_conversation(temporary("bytes.json"), {.system = {},
                                                            .messages = {{"user",
                                                                          "a\xff"
                                                                          "b"}}}));
    const auto loaded = load_conversation(temporary("bytes.json"));
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->messages[0].content,
              "a\xef\xbf\xbd"
              "b");
}

}  // namespace
}  // namespace tandem::cli
