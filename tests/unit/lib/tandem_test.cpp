// The C interface, as a program uses it, with the model inside the library.
#include <tandem/tandem.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "golden/model_files.h"
#include "unit/lib/scripted_model.h"

namespace {

using testing::HasSubstr;

struct Close {
    void operator()(tandem_model* model) const { tandem_close(model); }
    void operator()(tandem_request* request) const { tandem_request_free(request); }
};
using ModelPtr = std::unique_ptr<tandem_model, Close>;
using RequestPtr = std::unique_ptr<tandem_request, Close>;

ModelPtr open(std::vector<const char*> options = {"device=cpu"}) {
    options.push_back(nullptr);
    ModelPtr model(tandem_open(nullptr, options.data()));
    EXPECT_NE(model, nullptr) << tandem_error();
    return model;
}

RequestPtr ask(const ModelPtr& model, const char* prompt, const char* max_tokens = "24") {
    RequestPtr request(tandem_request_new(model.get()));
    EXPECT_EQ(tandem_request_message(request.get(), "user", prompt), 0) << tandem_error();
    EXPECT_EQ(tandem_request_set(request.get(), "max_tokens", max_tokens), 0) << tandem_error();
    EXPECT_EQ(tandem_request_set(request.get(), "seed", "7"), 0) << tandem_error();
    return request;
}

// An answer that goes on for thousands of tokens: nothing ends it but a cancel.
constexpr const char* kLongContext = "context=16384";
RequestPtr ask_for_ever(const ModelPtr& model) {
    RequestPtr request = ask(model, "Tell me a story", "0");
    for (const char* end : {"<eos>", "<end_of_turn>"}) {
        std::vector<int32_t> tokens(4);  // <bos> before it
        EXPECT_EQ(tandem_tokenize(model.get(), end, 1, tokens.data(), tokens.size()), 2);
        EXPECT_EQ(tandem_request_set(request.get(), "logit_bias", (std::to_string(tokens[1]) + "=-1000").c_str()), 0);
    }
    return request;
}

int collect(const char* text, size_t bytes, void* user) {
    static_cast<std::string*>(user)->append(text, bytes);
    return 0;
}

std::string error_of_open(const char* model, std::vector<const char*> options) {
    options.push_back(nullptr);
    EXPECT_EQ(tandem_open(model, options.data()), nullptr);
    return tandem_error();
}

TEST(Library, AnswersInPiecesThatAreTheAnswer) {
    const ModelPtr model = open({"device=cpu", "threads=1", "context=256"});
    EXPECT_STREQ(tandem_model_device(model.get()), "cpu");
    EXPECT_EQ(tandem_model_context(model.get()), 256);
    const RequestPtr request = ask(model, "Tell me a story about a fox");
    std::string text;
    ASSERT_EQ(tandem_request_generate(request.get(), collect, &text), 0) << tandem_error();
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(text, tandem_request_answer(request.get()));
    EXPECT_STREQ(tandem_request_finish(request.get()), "length");
    tandem_usage usage{};
    usage.size = sizeof(usage);
    ASSERT_EQ(tandem_request_usage(request.get(), &usage), 0);
    EXPECT_EQ(usage.answer_tokens, 24);
    EXPECT_EQ(usage.prompt_tokens, tandem_request_prompt(request.get(), nullptr, 0));
    EXPECT_EQ(usage.seed, 7U);

    // the same seed, by another request without a listener: the same text, and the prompt is known
    const RequestPtr again = ask(model, "Tell me a story about a fox");
    ASSERT_EQ(tandem_request_generate(again.get(), nullptr, nullptr), 0) << tandem_error();
    EXPECT_EQ(text, tandem_request_answer(again.get()));
}

TEST(Library, WritesOnlyTheUsageThatTheCallerKnows) {
    const ModelPtr model = open();
    const RequestPtr request = ask(model, "hello", "1");
    tandem_usage usage{};
    usage.size = 0;
    EXPECT_EQ(tandem_request_usage(request.get(), &usage), -1);
    EXPECT_THAT(tandem_error(), HasSubstr("set it to sizeof(tandem_usage)"));
    usage.size = offsetof(tandem_usage, cached_tokens);  // of an older version
    usage.seed = 99;
    ASSERT_EQ(tandem_request_generate(request.get(), nullptr, nullptr), 0) << tandem_error();
    EXPECT_EQ(tandem_request_usage(request.get(), &usage), 0);
    EXPECT_GT(usage.prompt_tokens, 0);
    EXPECT_EQ(usage.seed, 99U);
}

TEST(Library, RequestsOutliveTheModelAndRunAtOnce) {
    ModelPtr model = open({"device=cpu", "sequences=4", "context=128"});
    std::vector<RequestPtr> requests;
    for (const char* prompt : {"a fox", "a king", "the sea", "a lamp", "snow", "bread"}) {
        requests.push_back(ask(model, prompt));
    }
    model.reset();
    std::vector<std::string> texts(requests.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < requests.size(); ++i) {
        threads.emplace_back(
            [&, i] { EXPECT_EQ(tandem_request_generate(requests[i].get(), collect, &texts[i]), 0) << tandem_error(); });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < requests.size(); ++i) EXPECT_EQ(texts[i], tandem_request_answer(requests[i].get())) << i;
    EXPECT_NE(texts[0], texts[1]);
}

TEST(Library, AListenerEndsTheAnswer) {
    const ModelPtr model = open({"device=cpu", kLongContext});
    const RequestPtr request = ask_for_ever(model);
    int pieces = 0;
    const auto stop = [](const char*, size_t, void* user) -> int { return ++*static_cast<int*>(user); };
    ASSERT_EQ(tandem_request_generate(request.get(), stop, &pieces), 0) << tandem_error();
    EXPECT_EQ(pieces, 1) << "it is not called again";
    EXPECT_STREQ(tandem_request_finish(request.get()), "cancelled");
}

TEST(Library, AnotherThreadCancels) {
    const ModelPtr model = open({"device=cpu", kLongContext});
    const RequestPtr request = ask_for_ever(model);
    EXPECT_EQ(tandem_request_cancel(request.get()), 0) << "there is no answer under way";
    struct Meeting {
        std::mutex mutex;
        std::condition_variable changed;
        bool begun = false;
        bool cancelled = false;
    } meeting;
    std::thread other([&] {
        std::unique_lock lock(meeting.mutex);
        meeting.changed.wait(lock, [&] { return meeting.begun; });
        EXPECT_EQ(tandem_request_cancel(request.get()), 1);
        meeting.cancelled = true;
        meeting.changed.notify_all();
    });
    const auto meet = [](const char*, size_t, void* user) -> int {
        auto& with = *static_cast<Meeting*>(user);
        std::unique_lock lock(with.mutex);
        with.begun = true;
        with.changed.notify_all();
        with.changed.wait(lock, [&] { return with.cancelled; });
        return 0;
    };
    ASSERT_EQ(tandem_request_generate(request.get(), meet, &meeting), 0) << tandem_error();
    other.join();
    EXPECT_STREQ(tandem_request_finish(request.get()), "cancelled");
}

TEST(Library, HoldsAnswersToASchema) {
    const ModelPtr model = open();
    const RequestPtr request = ask(model, "How old is the fox?", "60");
    ASSERT_EQ(tandem_request_set(request.get(), "grammar",
                                 R"({"properties": {"age": {"enum": [1, 2]}}, "required": ["age"],
                                     "additionalProperties": false})"),
              0)
        << tandem_error();
    ASSERT_EQ(tandem_request_generate(request.get(), nullptr, nullptr), 0) << tandem_error();
    const auto json = nlohmann::json::parse(tandem_request_answer(request.get()));
    EXPECT_THAT(json["age"].get<int>(), testing::AnyOf(1, 2));
    ASSERT_EQ(tandem_request_set(request.get(), "grammar", "root ::= \"yes\" | \"no\""), 0) << tandem_error();
    ASSERT_EQ(tandem_request_generate(request.get(), nullptr, nullptr), 0) << tandem_error();
    EXPECT_THAT(tandem_request_answer(request.get()), testing::AnyOf(std::string("yes"), std::string("no")));
}

constexpr const char* kTools =
    R"([{"type": "function", "function": {"name": "get_weather", "description": "The weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])";

// A turn of each role between marks, tools as JSON in front.
tandem::Script with_turns(std::vector<std::string> pieces) {
    return {.chat_template = R"({%- if tools %}{{ tools | tojson }}{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}: {{ m.reasoning_content }}{{ m.content or "" }}
{%- for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }} {{ c.function.arguments | tojson }}</tool_call>
{%- endfor %}<|im_end|>{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant: {% endif %}{# <think></think> #})",
            .controls = {"<|im_start|>", "<think>", "</think>", "<tool_call>", "</tool_call>"},
            .pieces = std::move(pieces),
            .stop = "<|im_end|>"};
}

ModelPtr open_script(const tandem::Script& script, const std::filesystem::path& folder) {
    tandem::write_scripted_model(script, folder);
    const std::array<const char*, 2> options = {"device=cpu", nullptr};
    ModelPtr model(tandem_open(folder.c_str(), options.data()));
    EXPECT_NE(model, nullptr) << tandem_error();
    return model;
}

std::string prompt_of(const ModelPtr& model, const RequestPtr& request) {
    std::vector<int32_t> prompt(4096);
    const int64_t count = tandem_request_prompt(request.get(), prompt.data(), prompt.size());
    EXPECT_GT(count, 0) << tandem_error();
    std::string text(8192, '\0');
    const int64_t bytes =
        tandem_detokenize(model.get(), prompt.data(), static_cast<size_t>(count), 1, text.data(), text.size());
    text.resize(static_cast<size_t>(bytes));
    return text;
}

TEST(Library, TellsWhatTheModelThinksFromWhatItSays) {
    const tandem::golden::TempDir folder;
    const ModelPtr model =
        open_script(with_turns({"<think>", "Oslo is ", "a city.", "</think>", "\n\nIt ", "rains."}), folder.path());
    const RequestPtr request = ask(model, "How is the weather?", "64");
    std::string text;
    std::string thought;
    ASSERT_EQ(tandem_request_on_reasoning(request.get(), collect, &thought), 0);
    ASSERT_EQ(tandem_request_generate(request.get(), collect, &text), 0) << tandem_error();
    EXPECT_EQ(text, "It rains.");
    EXPECT_EQ(thought, "Oslo is a city.");
    EXPECT_STREQ(tandem_request_answer(request.get()), "It rains.");
    EXPECT_STREQ(tandem_request_reasoning(request.get()), "Oslo is a city.");
    EXPECT_STREQ(tandem_request_calls(request.get()), "[]");
    EXPECT_STREQ(tandem_request_finish(request.get()), "stop");

    // who listens to the reasoning may end the answer with it
    const auto stop = [](const char*, size_t, void*) -> int { return 1; };
    text.clear();
    ASSERT_EQ(tandem_request_on_reasoning(request.get(), stop, nullptr), 0);
    ASSERT_EQ(tandem_request_generate(request.get(), collect, &text), 0) << tandem_error();
    EXPECT_EQ(text, "");
    EXPECT_STREQ(tandem_request_finish(request.get()), "cancelled");

    // a text that is completed is text, marks and all
    tandem_request_clear(request.get());
    ASSERT_EQ(tandem_request_text(request.get(), "Weather"), 0);
    ASSERT_EQ(tandem_request_generate(request.get(), nullptr, nullptr), 0) << tandem_error();
    EXPECT_STREQ(tandem_request_reasoning(request.get()), "");
    EXPECT_THAT(tandem_request_answer(request.get()), HasSubstr("Oslo is a city."));
}

TEST(Library, CallsToolsAndIsGivenTheirResults) {
    const tandem::golden::TempDir folder;
    const ModelPtr model =
        open_script(with_turns({"<think>", "Oslo?", "</think>", "<tool_call>",
                                R"({"name": "get_weather", "arguments": {"city": "Oslo"}})", "</tool_call>"}),
                    folder.path());
    const RequestPtr request = ask(model, "How is the weather?", "64");
    ASSERT_EQ(tandem_request_tools(request.get(), kTools), 0) << tandem_error();
    EXPECT_THAT(prompt_of(model, request), HasSubstr("get_weather"));
    EXPECT_EQ(tandem_request_message(request.get(), "tool", "Rain"), -1);
    EXPECT_THAT(tandem_error(), HasSubstr("no call of the last answer"));
    EXPECT_EQ(tandem_request_keep(request.get()), -1) << "there is no answer yet";
    std::string text;
    ASSERT_EQ(tandem_request_generate(request.get(), collect, &text), 0) << tandem_error();
    EXPECT_EQ(text, "");
    EXPECT_STREQ(tandem_request_calls(request.get()), R"([{"name": "get_weather", "arguments": {"city": "Oslo"}}])");
    EXPECT_STREQ(tandem_request_finish(request.get()), "tool_calls");

    ASSERT_EQ(tandem_request_keep(request.get()), 0) << tandem_error();
    ASSERT_EQ(tandem_request_message(request.get(), "tool", "Rain"), 0) << tandem_error();
    EXPECT_EQ(tandem_request_message(request.get(), "tool", "Snow"), -1) << "one call, one result";
    EXPECT_THAT(prompt_of(model, request),
                HasSubstr("<tool_call>get_weather {\"city\": \"Oslo\"}</tool_call><|im_end|><|im_start|>tool: Rain"));

    // where no tools are offered, what looks like a call is text
    tandem_request_clear(request.get());
    ASSERT_EQ(tandem_request_tools(request.get(), nullptr), 0);
    ASSERT_EQ(tandem_request_message(request.get(), "user", "Hello"), 0);
    ASSERT_EQ(tandem_request_generate(request.get(), nullptr, nullptr), 0) << tandem_error();
    EXPECT_STREQ(tandem_request_calls(request.get()), "[]");
    EXPECT_THAT(tandem_request_answer(request.get()), HasSubstr("get_weather"));

    for (const char* const wrong : {"{}", "[1]", "[{}]", "[", R"([{"type": "search", "function": {"name": "x"}}])"})
        EXPECT_EQ(tandem_request_tools(request.get(), wrong), -1) << wrong;
}

TEST(Library, TextsBecomeTokensAndBack) {
    const ModelPtr model = open();
    const std::string text = "Once upon a time: \xc3\xa4 \xe2\x82\xac";
    const int64_t count = tandem_tokenize(model.get(), text.c_str(), 0, nullptr, 0);
    ASSERT_GT(count, 2);
    std::vector<int32_t> tokens(static_cast<size_t>(count), -1);
    EXPECT_EQ(tandem_tokenize(model.get(), text.c_str(), 0, tokens.data(), 2), count);
    EXPECT_EQ(tokens[2], -1) << "only as many as there is room for";
    tandem_tokenize(model.get(), text.c_str(), 0, tokens.data(), tokens.size());
    std::string back(text.size() + 1, 'x');
    const auto bytes = tandem_detokenize(model.get(), tokens.data(), tokens.size(), 0, back.data(), back.size());
    EXPECT_EQ(bytes, static_cast<int64_t>(text.size()));
    EXPECT_STREQ(back.c_str(), text.c_str());

    // a prompt has the marks of its template, as tokens
    const RequestPtr request = ask(model, "hi");
    std::vector<int32_t> prompt(64);
    prompt.resize(static_cast<size_t>(tandem_request_prompt(request.get(), prompt.data(), prompt.size())));
    std::string shown(512, '\0'), plain(512, '\0');
    tandem_detokenize(model.get(), prompt.data(), prompt.size(), 1, shown.data(), shown.size());
    tandem_detokenize(model.get(), prompt.data(), prompt.size(), 0, plain.data(), plain.size());
    EXPECT_THAT(shown, HasSubstr("hi"));
    EXPECT_GT(std::string(shown.c_str()).size(), std::string(plain.c_str()).size());
}

TEST(Library, StandardOutputIsTheProgramsOwn) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const ModelPtr model = open({"device=cpu", kLongContext});
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("a context of 16384 is longer"));
}

TEST(Library, EmbeddingsHaveTheLengthOne) {
    const ModelPtr model = open();
    const int64_t dim = tandem_embed(model.get(), "a fox", nullptr, 0);
    ASSERT_GT(dim, 0);
    std::vector<float> values(static_cast<size_t>(dim));
    ASSERT_EQ(tandem_embed(model.get(), "a fox", values.data(), values.size()), dim) << tandem_error();
    double square = 0;
    for (const float value : values) square += static_cast<double>(value) * value;
    EXPECT_NEAR(std::sqrt(square), 1, 1e-3);
}

TEST(Library, SaysWhatIsWrong) {
    EXPECT_THAT(error_of_open("/nowhere/model.gguf", {}), HasSubstr("/nowhere/model.gguf: no such file"));
    EXPECT_THAT(error_of_open(nullptr, {"devise=cpu"}), HasSubstr("did you mean 'device'"));
    EXPECT_THAT(error_of_open(nullptr, {"device"}), HasSubstr("name=value"));
    EXPECT_THAT(error_of_open(nullptr, {"device=tpu"}), HasSubstr("device tpu: unknown device"));
    EXPECT_THAT(error_of_open(nullptr, {"context=many"}), HasSubstr("option context 'many' is not a"));
    EXPECT_THAT(error_of_open(nullptr, {"strict=yes"}), HasSubstr("on or off"));
    EXPECT_THAT(error_of_open(nullptr, {"kv=f8"}), HasSubstr("f16, f32, q8_0"));
    EXPECT_THAT(error_of_open(nullptr, {"device=cpu", "placement=sideways"}), HasSubstr("sideways"));

    const ModelPtr model = open();
    const RequestPtr request(tandem_request_new(model.get()));
    EXPECT_EQ(tandem_request_generate(request.get(), nullptr, nullptr), -1);
    EXPECT_THAT(tandem_error(), HasSubstr("the request is empty"));
    EXPECT_EQ(tandem_request_set(request.get(), "temprature", "1"), -1);
    EXPECT_THAT(tandem_error(), HasSubstr("did you mean 'temperature'"));
    EXPECT_EQ(tandem_request_set(request.get(), "temperature", "warm"), -1);
    EXPECT_EQ(tandem_request_set(request.get(), "grammar", "{\"type\": 7}"), -1);
    EXPECT_EQ(tandem_request_message(request.get(), "narrator", "x"), -1);
    EXPECT_EQ(tandem_request_message(request.get(), "user", nullptr), -1);
    EXPECT_THAT(tandem_error(), HasSubstr("the content is NULL"));
    EXPECT_EQ(tandem_request_text(request.get(), "Once"), 0);
    EXPECT_EQ(tandem_request_message(request.get(), "user", "x"), -1) << "it has a text";
    EXPECT_EQ(tandem_request_text(request.get(), std::string(1000000, 'x').c_str()), 0);
    EXPECT_EQ(tandem_request_generate(request.get(), nullptr, nullptr), -1);
    EXPECT_THAT(tandem_error(), HasSubstr("context"));
    EXPECT_EQ(tandem_request_generate(nullptr, nullptr, nullptr), -1);
    EXPECT_EQ(tandem_tokenize(nullptr, "x", 0, nullptr, 0), -1);
    EXPECT_STREQ(tandem_request_finish(request.get()), "") << "there was no answer";
    tandem_close(nullptr);
    tandem_request_free(nullptr);
}

}  // namespace
