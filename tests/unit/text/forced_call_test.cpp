// Whatever a grammar of calls allows is read as calls, of tools that are offered, with arguments that are valid.
#include <gtest/gtest.h>

#include <map>

#include "text/answer_reader.h"
#include "text/grammar/compiled_grammar.h"
#include "unit/text/random_schemas.h"
#include "unit/text/schema_validator.h"

namespace tandem::text {
namespace {

using Json = nlohmann::ordered_json;

struct Family {
    const char* name;
    const char* chat_template;  // as much of it as tells the style
    bool makes_several = true;  // calls at once
};

constexpr Family kFamilies[] = {
    {"Qwen 3, Hermes, Granite 4, SmolLM 3", "{{tools}} <think></think> <tool_call></tool_call>"},
    {"Qwen 3 Coder, 3.5", "{{tools}} <tool_call><function=f><parameter=p></parameter></function></tool_call>"},
    {"GLM 4.5", "{{tools}} <think></think> <tool_call>f<arg_key>k</arg_key><arg_value>v</arg_value></tool_call>"},
    {"Gemma 4", "{{tools}} <|channel>thought\n<channel|> <|tool_call>call:f{}<tool_call|>"},
    {"Mistral", "{{tools}} [TOOL_CALLS]"},
    {"Ministral 3", "{{tools}} [THINK][/THINK] [TOOL_CALLS]name[ARGS]"},
    {"Granite 3, Phi 4", "{{tools}} <|tool_call|>"},
    {"Llama 3", R"({{tools}} {"name": f, "parameters": p})", false},
    {"gpt-oss", "{{tools}} <|start|>assistant<|channel|>final<|message|>", false},
    {"of no form of their own", "<start_of_turn>{{ role }}", false},
};

// Calls as the families write them.
constexpr std::pair<const char*, const char*> kWritten[] = {
    {kFamilies[0].chat_template,
     "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}\n</tool_call>"},
    {kFamilies[1].chat_template,
     "<tool_call>\n<function=get>\n<parameter=city>\nif a < b: "
     "\"x\"\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
     "<parameter=Tags>\n[\"a\", \"<b>\"]\n</parameter>\n</function>\n</tool_call>"},
    {kFamilies[2].chat_template,
     "<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n<arg_key>days</arg_key>\n"
     "<arg_value>3</arg_value>\n</tool_call>"},
    {kFamilies[2].chat_template,
     "<tool_call>get<arg_key>city</arg_key><arg_value>Oslo</arg_value><arg_key>days</arg_key><arg_value>3</"
     "arg_value>"
     "</tool_call>"},
    {kFamilies[3].chat_template,
     "<|tool_call>call:get{city:<|\"|>Oslo, {Norway}<|\"|>,days:3,more:{x:1.5,y:<|\"|>b<|\"|>},"
     "Tags:[<|\"|>a<|\"|>,<|\"|>b<|\"|>]}<tool_call|>"},
    {kFamilies[4].chat_template, "[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}]"},
    {kFamilies[5].chat_template, "[TOOL_CALLS]get[ARGS]{\"city\": \"Oslo\", \"days\": 3}"},
    {kFamilies[6].chat_template,
     "<|tool_call|>[{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}]<|/tool_call|>"},
    {kFamilies[6].chat_template,
     "<|tool_call|>[{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}]"},
    {kFamilies[7].chat_template, "{\"name\": \"get\", \"parameters\": {\"city\": \"Oslo\", \"days\": 3}}"},
    {kFamilies[8].chat_template,
     "<|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"city\": \"Oslo\", \"days\": 3}"},
    {kFamilies[9].chat_template, "{\"name\": \"get\", \"arguments\": {\"city\": \"Oslo\", \"days\": 3}}"},
};

// Bytes, marks as control tokens or as text, and an end.
std::shared_ptr<const TokenTrie> vocabulary(const AnswerFormat& format, bool has_controls) {
    std::vector<std::string> tokens(256);
    for (size_t byte = 0; byte < 255; ++byte) tokens[byte] = std::string(1, static_cast<char>(byte));
    for (const std::string_view mark : marks_of(format, true)) {
        tokens.push_back((has_controls ? std::string(1, kControlByte) : "") + std::string(mark));
    }
    for (const char* const text : {"\n</parameter>\n", "</function>\n", "</arg_value>", "true", "get_", "{\"", "\": "})
        tokens.emplace_back(text);
    const auto end = static_cast<TokenId>(tokens.size());
    tokens.emplace_back();
    return std::make_shared<const TokenTrie>(std::move(tokens), std::vector<TokenId>{end});
}

struct Offer {
    CallRules rules;
    AnswerReaderOptions reader;
    std::map<std::string, Json> schemas;
};

Offer random_offer(const AnswerFormat& format, unsigned seed) {
    std::mt19937 random(seed);
    Offer offer;
    offer.rules = {.format = format, .several = seed % 2 == 0};
    offer.reader.format = format;
    for (const char* const name : {"get_weather", "get", "a-b"}) {
        if (!offer.schemas.empty() && random() % 2 == 0) continue;
        const Json parameters =
            random() % 8 == 0 ? Json() : SchemaMaker(static_cast<unsigned>(random())).make_parameters();
        offer.rules.tools.push_back({{"name", name}, {"parameters", parameters}});
        offer.schemas[name] = parameters.is_null() ? Json{{"type", "object"}} : parameters;
        offer.reader.tools.emplace_back(name);
        for (const std::string& parameter : text_parameters(parameters))
            offer.reader.text_parameters.insert({name, parameter});
    }
    return offer;
}

std::vector<AnswerPart> read_in_random_pieces(const AnswerReaderOptions& options, std::string_view text,
                                              unsigned seed) {
    std::mt19937 random(seed);
    AnswerReader reader(options);
    std::vector<AnswerPart> parts;
    const auto take = [&](std::vector<AnswerPart> more) { parts.insert(parts.end(), more.begin(), more.end()); };
    while (!text.empty()) {
        const std::string_view piece = text.substr(0, 1 + random() % 9);
        take(reader.push(piece));
        text.remove_prefix(piece.size());
    }
    take(reader.finish());
    return parts;
}

// Of a text that a random walk made; false where the walk came to no end.
bool expect_valid_calls(const Offer& offer, bool has_controls, unsigned seed) {
    const auto grammar = compile_calls(offer.rules);
    const std::string source = offer.rules.tools.dump();
    EXPECT_TRUE(grammar) << source << ": " << grammar.error().message;
    if (!grammar) return false;
    const auto trie = vocabulary(offer.reader.format, has_controls);
    const auto masks = std::make_shared<const TokenMasks>(*grammar, trie);
    std::optional<std::string> text = walk(masks, closing_tokens(*trie), seed);
    if (!text) return false;
    std::erase(*text, kControlByte);
    const std::vector<AnswerPart> parts = read_in_random_pieces(offer.reader, *text, seed);
    EXPECT_FALSE(parts.empty()) << *text;
    EXPECT_TRUE(offer.rules.several || parts.size() == 1) << *text;
    for (const AnswerPart& part : parts) {
        EXPECT_EQ(part.kind, AnswerPart::Kind::call) << source << "\n" << *text << "\nleft over: " << part.text;
        if (part.kind != AnswerPart::Kind::call) break;
        const auto schema = offer.schemas.find(part.name);
        const Json arguments = Json::parse(part.text, nullptr, false);
        const bool is_valid = schema != offer.schemas.end() && arguments.is_object() &&
                              SchemaValidator(schema->second).validates(arguments);
        EXPECT_TRUE(is_valid) << source << "\n" << *text << "\nread as " << part.name << " " << part.text;
    }
    return true;
}

TEST(ForcedCalls, AreReadAndValidInEveryForm) {
    for (const Family& family : kFamilies) {
        SCOPED_TRACE(family.name);
        const AnswerFormat format = answer_format(family.chat_template);
        int ended = 0;
        for (unsigned seed = 0; seed < 100 && !HasFailure(); ++seed) {
            ended += expect_valid_calls(random_offer(format, seed), seed % 3 != 0, seed) ? 1 : 0;
        }
        EXPECT_GT(ended, 85);
    }
}

TEST(ForcedCalls, MayFollowTextWhereTheModelIsFree) {
    const Json tools = Json::parse(R"([{"name": "get", "parameters": {"type": "object", "properties": {
        "days": {"type": "integer"}}, "required": ["days"]}}])");
    struct Answers {
        const char* chat_template;
        const char* call;
        const char* broken;  // the same with other arguments
    };
    const Answers all[] = {
        {kFamilies[0].chat_template, "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"days\": 3}}\n</tool_call>",
         "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"days\": \"3"},
        {kFamilies[2].chat_template, "<tool_call>get\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
         "<tool_call>get\n<arg_key>days</arg_key>\n<arg_value>x"},
        {kFamilies[3].chat_template, "<|tool_call>call:get{days:3}<tool_call|>", "<|tool_call>call:get{days:<"},
        {kFamilies[5].chat_template, "[TOOL_CALLS]get[ARGS]{\"days\": 3}", "[TOOL_CALLS]get[ARGS]{\"day\""},
        {kFamilies[7].chat_template, "{\"name\": \"get\", \"parameters\": {\"days\": 3}}", "{\"name\": \"got"},
    };
    for (const auto& [chat_template, call, broken] : all) {
        const AnswerFormat format = answer_format(chat_template);
        const auto grammar = compile_calls({.format = format, .with_text = true, .tools = tools});
        ASSERT_TRUE(grammar) << grammar.error().message;
        const bool bare = format.calls == CallStyle::plain;
        const std::string before = bare ? "" : "I look < [at] it.\n";
        EXPECT_TRUE(matches(*grammar, before + call)) << call;
        EXPECT_TRUE(matches(*grammar, "It is 3 < 4.")) << chat_template;
        EXPECT_EQ(match(*grammar, before + broken), Match::none) << broken;
        if (!format.reasons()) continue;
        const std::string thought = std::string(format.reasoning_begin) + "\nhm" + std::string(format.reasoning_end);
        EXPECT_TRUE(matches(*grammar, thought + before + call)) << thought;
        EXPECT_TRUE(matches(*grammar, thought + "\n\nYes.")) << thought;
        EXPECT_TRUE(matches(*grammar, std::string(format.reasoning_begin) + call)) << "cut off";
        const auto begun =
            compile_calls({.format = format, .with_text = true, .begins_in_reasoning = true, .tools = tools});
        EXPECT_TRUE(matches(*begun, "I may " + std::string(broken) + std::string(format.reasoning_end) + call));
    }
    const AnswerFormat harmony = answer_format(kFamilies[8].chat_template);
    const auto grammar = compile_calls({.format = harmony, .with_text = true, .tools = tools});
    ASSERT_TRUE(grammar) << grammar.error().message;
    const std::string thought = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant";
    EXPECT_TRUE(matches(*grammar, thought + "<|channel|>final<|message|>Yes < no."));
    const std::string call = thought + "<|channel|>commentary to=functions.get <|constrain|>json<|message|>";
    EXPECT_TRUE(matches(*grammar, call + "{\"days\": 3}"));
    EXPECT_EQ(match(*grammar, call + "{\"days\": \"3"), Match::none);
}

// A text that a family writes, and whether the grammar of its calls takes it.
TEST(ForcedCalls, AreWrittenAsTheModelWasTrained) {
    const Json parameters = Json::parse(R"({"type": "object", "required": ["city", "days"], "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "Tags": {"type": "array", "items": {"type": "string"}},
        "more": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"enum": ["a", "b"]}}}}})");
    for (const auto& [chat_template, text] : kWritten) {
        const AnswerFormat format = answer_format(chat_template);
        const Json tools = Json::array({{{"name", "get"}, {"parameters", parameters}}});
        const auto grammar = compile_calls({.format = format, .tools = tools});
        ASSERT_TRUE(grammar) << grammar.error().message;
        EXPECT_TRUE(matches(*grammar, text)) << text;
        EXPECT_FALSE(matches(*grammar, std::string(text) + text)) << "one call was allowed";
    }
}

TEST(ForcedCalls, NameWhatAFormCannotWrite) {
    const auto failure = [](const char* chat_template, const Json& tool) {
        const AnswerFormat format = answer_format(chat_template);
        const auto grammar = compile_calls({.format = format, .tools = Json::array({tool})});
        return grammar ? std::string() : grammar.error().message;
    };
    const Json odd = Json::parse(R"({"name": "get", "parameters": {"properties": {"a<b": {"type": "string"}}}})");
    EXPECT_EQ(failure(kFamilies[0].chat_template, odd), "");
    EXPECT_EQ(failure(kFamilies[3].chat_template, odd), "");
    EXPECT_EQ(failure(kFamilies[1].chat_template, odd),
              "tool 'get': schema at its root: the model's form of calls has no way to write the name 'a<b'");
    const Json refused = Json::parse(R"({"name": "get", "parameters": {"not": {}}})");
    EXPECT_EQ(failure(kFamilies[0].chat_template, refused),
              "tool 'get': schema at /not: the keyword is not supported: leave it out, or say the same with others");
    EXPECT_EQ(failure(kFamilies[2].chat_template, {{"name", "a>b"}}),
              "tool 'a>b': the model's form of calls has no way to write its name: rename it");
}

// Of parts, neighbours of a kind joined.
std::string joined_parts(const std::vector<AnswerPart>& parts) {
    std::string line;
    for (size_t i = 0; i < parts.size(); ++i) {
        const bool is_new = i == 0 || parts[i].kind != parts[i - 1].kind || parts[i].kind == AnswerPart::Kind::call;
        if (is_new) line += fmt::format("|{} {}:", static_cast<int>(parts[i].kind), parts[i].name);
        line += parts[i].text;
    }
    return line;
}

// With a part cut off, left out, said twice, or something odd put in.
std::string broken(std::string text, std::mt19937& random) {
    static constexpr std::string_view kOdd[] = {"<tool_call>",
                                                "</tool_call>",
                                                "<|tool_call>",
                                                "<|\"|>",
                                                "[ARGS]",
                                                "[TOOL_CALLS]",
                                                "<think>",
                                                "</think>",
                                                "\"",
                                                "\\",
                                                "{",
                                                "}",
                                                "ü",
                                                "\xC3",
                                                "\xF0\x9F\x98\x80",
                                                "\\ud83d",
                                                "\n\n",
                                                "<arg_value>",
                                                "</parameter>",
                                                "<|channel|>",
                                                "<|message|>",
                                                "<|end|>",
                                                "get",
                                                ","};
    for (size_t times = 1 + random() % 3; times > 0; --times) {
        const size_t at = random() % (text.size() + 1);
        const size_t count = random() % 12;
        switch (random() % 4) {
            case 0:
                text.erase(at);
                break;
            case 1:
                text.erase(at, count);
                break;
            case 2:
                text.insert(at, text.substr(at, count * 5));
                break;
            default:
                text.insert(at, kOdd[random() % std::size(kOdd)]);
        }
    }
    return text;
}

TEST(ForcedCalls, BrokenOnesAreReadAlikeHoweverTheyCome) {
    std::mt19937 random(7);
    for (int round = 0; round < 3'000; ++round) {
        const auto& [chat_template, written] = kWritten[static_cast<size_t>(round) % std::size(kWritten)];
        AnswerReaderOptions options = {.format = answer_format(chat_template), .tools = {"get", "get_weather"}};
        options.begins_in_reasoning = options.format.reasons() && random() % 4 == 0;
        const std::string text = broken(std::string("I look.\n") + written + "\n" + written, random);
        AnswerReader reader(options);
        std::vector<AnswerPart> whole = reader.push(text);
        for (AnswerPart& part : reader.finish()) whole.push_back(std::move(part));
        for (const AnswerPart& part : whole) {
            if (part.kind != AnswerPart::Kind::call) continue;
            EXPECT_TRUE(Json::parse(part.text, nullptr, false).is_object()) << text;
        }
        EXPECT_EQ(joined_parts(read_in_random_pieces(options, text, static_cast<unsigned>(round))), joined_parts(whole))
            << text;
        AnswerReader cut(options);
        cut.push(text);
        for (const AnswerPart& part : cut.finish(true))
            EXPECT_FALSE(part.kind == AnswerPart::Kind::call && part.name.empty());
    }
}

}  // namespace
}  // namespace tandem::text
