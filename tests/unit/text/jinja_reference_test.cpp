// Everything jinja2 was asked, answered the same way. tests/data/templates/README.md says where the answers come from.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "jinja_render.h"
#include "text/chat_template.h"

namespace tandem::text::jinja {
namespace {

const std::filesystem::path kData = std::filesystem::path(TANDEM_TEST_DATA) / "templates";

Json read_json(const std::string& name) {
    Result<std::string> text = read_text_file(kData / name);
    CHECK(text, "a test file is missing");
    return Json::parse(*text);
}

void expect_cases(const std::string& file) {
    Json data = read_json(file);
    ASSERT_GT(data["cases"].size(), 100u);
    for (const Json& pair : data["cases"]) {
        std::string source = pair[0].get<std::string>();
        Result<std::string> text = try_render(source, data["variables"]);
        if (pair[1].is_null()) {
            EXPECT_FALSE(text) << source << "\nmust fail, and gives: " << (text ? *text : "");
        } else {
            EXPECT_EQ(text ? *text : text.error().message, pair[1].get<std::string>()) << source;
        }
    }
}

TEST(JinjaReference, LanguageCasesAgree) {
    expect_cases("language_cases.json");
}

TEST(JinjaReference, RandomCasesAgree) {
    expect_cases("random_cases.json");
}

ChatInput input_for(const Json& conversation) {
    ChatInput input;
    input.bos_token = "<s>";
    input.eos_token = "</s>";
    // Noon in UTC, the same day nearly everywhere.
    input.now = std::chrono::system_clock::from_time_t(1753876800);
    for (const auto& [name, value] : conversation.items()) {
        if (name == "messages") {
            input.messages = value;
        } else if (name == "tools") {
            input.tools = value;
        } else if (name == "add_generation_prompt") {
            input.add_generation_prompt = value.get<bool>();
        } else {
            input.extra[name] = value;
        }
    }
    return input;
}

TEST(JinjaReference, ChatTemplatesAgreeForEveryConversation) {
    Json conversations = read_json("conversations.json");
    Json expected = read_json("expected.json");
    ASSERT_GE(expected.size(), 5u);
    for (const auto& [file, answers] : expected.items()) {
        Result<std::string> source = read_text_file(kData / file);
        ASSERT_TRUE(source) << file;
        auto chat_template = ChatTemplate::parse(*source);
        ASSERT_TRUE(chat_template) << chat_template.error().message;
        for (const auto& [name, conversation] : conversations.items()) {
            auto text = chat_template->render(input_for(conversation));
            const Json& answer = answers[name];
            if (answer.is_null()) {
                EXPECT_FALSE(text) << file << ", " << name << " must fail, and gives: " << (text ? *text : "");
            } else {
                EXPECT_EQ(text ? *text : text.error().message, answer.get<std::string>()) << file << ", " << name;
            }
        }
    }
}

}  // namespace
}  // namespace tandem::text::jinja
