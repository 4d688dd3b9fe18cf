#include "text/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/file.h"
#include "format/checkpoint.h"
#include "format/gguf_writer.h"

namespace tandem::text {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kTurns =
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

ChatInput hello() {
    ChatInput input;
    input.messages = Json::array({{{"role", "user"}, {"content", "hi"}}});
    input.bos_token = "[";
    input.eos_token = "]";
    return input;
}

TEST(ChatTemplate, RendersAConversation) {
    auto chat_template = ChatTemplate::parse(kTurns);
    ASSERT_TRUE(chat_template);
    EXPECT_EQ(chat_template->source(), kTurns);
    ChatInput input = hello();
    EXPECT_EQ(*chat_template->render(input), "[<user>hi]<assistant>");
    input.add_generation_prompt = false;
    EXPECT_EQ(*chat_template->render(input), "[<user>hi]");
}

TEST(ChatTemplate, ToolsAreDefinedButNoneWhenThereAreNone) {
    auto chat_template = ChatTemplate::parse("{{ tools is defined }} {{ tools is none }} {{ tools|tojson }}");
    ASSERT_TRUE(chat_template);
    ChatInput input = hello();
    EXPECT_EQ(*chat_template->render(input), "True True null");
    input.tools = Json::parse(R"([{"type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": 2}}}])");
    EXPECT_EQ(*chat_template->render(input),
              R"(True False [{"type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": 2}}}])");
}

TEST(ChatTemplate, ExtraVariablesHideTheOthers) {
    auto chat_template = ChatTemplate::parse("{{ enable_thinking }} {{ bos_token }} {{ missing is defined }}");
    ASSERT_TRUE(chat_template);
    ChatInput input = hello();
    input.extra = {{"enable_thinking", false}, {"bos_token", "<bos>"}};
    EXPECT_EQ(*chat_template->render(input), "False <bos> False");
}

TEST(ChatTemplate, ATemplateForToolsIsUsedWhenThereAreTools) {
    auto chat_template = ChatTemplate::parse("plain", "tools");
    ASSERT_TRUE(chat_template);
    ChatInput input = hello();
    EXPECT_EQ(*chat_template->render(input), "plain");
    input.tools = Json::array();
    EXPECT_EQ(*chat_template->render(input), "plain");
    input.tools = Json::array({{{"name", "f"}}});
    EXPECT_EQ(*chat_template->render(input), "tools");
    EXPECT_EQ(chat_template->source(), "plain");
}

TEST(ChatTemplate, ThreadsMayShareOne) {
    auto chat_template = ChatTemplate::parse(
        "{% set n = namespace(s='x') %}{% for i in range(2000) %}"
        "{% set n.s = 'abc' ~ i %}{% endfor %}{{ n.s }}");
    ASSERT_TRUE(chat_template);
    std::vector<std::string> texts(4);
    std::vector<std::thread> threads;
    threads.reserve(texts.size());
    for (std::string& text : texts) threads.emplace_back([&] { text = *chat_template->render(hello()); });
    for (std::thread& thread : threads) thread.join();
    for (const std::string& text : texts) EXPECT_EQ(text, "abc1999");
}

TEST(GgufTemplate, StandsInTheMetadata) {
    format::GgufWriter writer;
    writer.set("general.architecture", std::string_view("llama"));
    fs::path path = fs::path(testing::TempDir()) / "chat_template.gguf";
    auto loaded = [&]() -> Result<std::optional<ChatTemplate>> {
        TRY(writer.write(path));
        format::Checkpoint checkpoint = TRY(format::Checkpoint::open(path));
        return load_chat_template(checkpoint);
    };
    auto none = loaded();
    ASSERT_TRUE(none) << none.error().message;
    EXPECT_FALSE(*none);

    writer.set("tokenizer.chat_template", std::string_view(kTurns));
    writer.set("tokenizer.chat_template.tool_use", std::string_view("tools"));
    auto found = loaded();
    ASSERT_TRUE(found && *found);
    EXPECT_EQ((*found)->source(), kTurns);
    ChatInput input = hello();
    input.tools = Json::array({{{"name", "f"}}});
    EXPECT_EQ(*(*found)->render(input), "tools");
    fs::remove(path);
}

// A Hugging Face directory, as far as a checkpoint needs it, with more files.
class HuggingFaceTemplate : public testing::Test {
  protected:
    void SetUp() override {
        directory_ = fs::path(testing::TempDir()) /
                     ("chat_template_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
        fs::remove_all(directory_);
        fs::create_directories(directory_);
        write("config.json", R"({"model_type": "llama"})");
        // No tensors: the length of the header, and the header.
        write("model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
    }
    void TearDown() override { fs::remove_all(directory_); }

    void write(const fs::path& name, std::string_view content) {
        fs::create_directories((directory_ / name).parent_path());
        ASSERT_TRUE(write_file(directory_ / name, content));
    }

    // The source, "none", or the error.
    std::string loaded() {
        auto checkpoint = format::Checkpoint::open(directory_);
        if (!checkpoint) return checkpoint.error().message;
        auto chat_template = load_chat_template(*checkpoint);
        if (!chat_template) return chat_template.error().message;
        return *chat_template ? (*chat_template)->source() : "none";
    }

    fs::path directory_;
};

TEST_F(HuggingFaceTemplate, MayBeMissing) {
    EXPECT_EQ(loaded(), "none");
    write("tokenizer_config.json", R"({"bos_token": "<s>"})");
    EXPECT_EQ(loaded(), "none");
}

TEST_F(HuggingFaceTemplate, AFileOfItsOwnComesFirst) {
    write("tokenizer_config.json", R"({"chat_template": "from the tokenizer"})");
    EXPECT_EQ(loaded(), "from the tokenizer");
    write("chat_template.json", R"({"chat_template": "from the processor"})");
    EXPECT_EQ(loaded(), "from the processor");
    write("chat_template.jinja", "from the file");
    EXPECT_EQ(loaded(), "from the file");
}

TEST_F(HuggingFaceTemplate, IsChosenByNameFromAList) {
    write("tokenizer_config.json",
          R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]})");
    EXPECT_EQ(loaded(), "D");
    auto checkpoint = format::Checkpoint::open(directory_);
    ASSERT_TRUE(checkpoint);
    auto chat_template = load_chat_template(*checkpoint);
    ASSERT_TRUE(chat_template && *chat_template);
    ChatInput input = hello();
    EXPECT_EQ(*(*chat_template)->render(input), "D");
    input.tools = Json::array({{{"name", "f"}}});
    EXPECT_EQ(*(*chat_template)->render(input), "T");
}

TEST_F(HuggingFaceTemplate, ErrorsNameTheModelAndTheLine) {
    write("chat_template.jinja", "a\n{% if %}");
    EXPECT_NE(loaded().find("chat template, line 2: expected an expression"), std::string::npos) << loaded();
    EXPECT_NE(loaded().find(directory_.filename().string()), std::string::npos) << loaded();
    fs::remove(directory_ / "chat_template.jinja");
    write("tokenizer_config.json", R"({"chat_template": [{"template": 5}]})");
    EXPECT_NE(loaded().find("tokenizer_config.json: an entry of chat_template has no name"), std::string::npos);
}

}  // namespace
}  // namespace tandem::text
