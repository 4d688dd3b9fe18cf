// Random schemas and random walks over real vocabularies: whatever the masks allow ends as JSON that is valid.
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "format/checkpoint.h"
#include "grammar_tools.h"
#include "schema_validator.h"
#include "text/tokenizer.h"

namespace tandem::text {
namespace {

using Json = nlohmann::ordered_json;

// The tokenizer of the embedded model.
const Tokenizer& tales_tokenizer() {
    static const Tokenizer tokenizer = [] {
        const auto path = std::filesystem::path(TANDEM_SOURCE_DIR) / "assets" / "tales-q8_0.gguf";
        const auto checkpoint = format::Checkpoint::open(path);
        return load_tokenizer(checkpoint.value()).value();
    }();
    return tokenizer;
}

class SchemaMaker {
  public:
    explicit SchemaMaker(unsigned seed) : random_(seed) {}

    Json make() {
        Json schema = value(3);
        if (uses_reference_) schema["$defs"] = {{"tree", tree()}};
        return schema;
    }

  private:
    size_t below(size_t end) { return random_() % end; }
    bool chance(size_t one_in) { return below(one_in) == 0; }

    Json value(int depth) {
        switch (below(depth > 0 ? 13 : 8)) {
            case 0:
                return {{"type", "boolean"}};
            case 1:
                return string();
            case 2:
                return integer();
            case 3:
                return number();
            case 4:
                return {{"enum", Json::array({"red", "gr\"een", 3, nullptr, "ü", -1.5, true})}};
            case 5:
                return {{"const", chance(2) ? Json("fixed") : Json(42)}};
            case 6:
                return {{"type", Json::array({"string", "null"})}, {"maxLength", below(30)}};
            case 7:
                return pattern();
            case 8:
                return array(depth);
            case 9:
                return {{"anyOf", Json::array({value(depth - 1), value(depth - 1)})}};
            case 10:
                return alternatives(depth);
            default:
                return chance(6) ? reference() : object(depth);
        }
    }

    Json string() {
        Json schema = {{"type", "string"}};
        if (chance(2)) schema["minLength"] = below(4);
        if (chance(2)) schema["maxLength"] = 4 + below(60);
        return schema;
    }

    Json pattern() {
        const std::vector<std::string> patterns = {"^[a-z]+[0-9]{2}$", "^(foo|ba[rz])(,(foo|ba[rz]))*$", "x",
                                                   "^\\w{1,8}@\\w+$",  "^\\d{4}-\\d{2}-\\d{2}$",         "[A-Z]{2}$",
                                                   "^a?b*c+$"};
        return {{"type", "string"}, {"pattern", patterns[below(patterns.size())]}};
    }

    Json integer() {
        Json schema = {{"type", "integer"}};
        const int low = static_cast<int>(below(2000)) - 1000;
        if (chance(2)) schema[chance(2) ? "minimum" : "exclusiveMinimum"] = low;
        if (chance(2)) schema["maximum"] = low + 2 + static_cast<int>(below(500));
        if (!schema.contains("maximum") && chance(4)) schema["multipleOf"] = 1 + below(20);
        return schema;
    }

    Json number() {
        Json schema = {{"type", "number"}};
        const double low = static_cast<double>(below(2000)) / 16 - 60;
        if (chance(2)) schema["minimum"] = low;
        if (chance(2)) schema[chance(2) ? "maximum" : "exclusiveMaximum"] = low + 0.5 + static_cast<double>(below(100));
        if (chance(5)) schema["multipleOf"] = 0.01;
        return schema;
    }

    Json array(int depth) {
        Json schema = {{"type", "array"}, {"items", value(depth - 1)}};
        if (chance(2)) schema["minItems"] = below(3);
        schema["maxItems"] = 2 + below(4);
        if (chance(4)) schema["prefixItems"] = Json::array({value(depth - 1), value(0)});
        return schema;
    }

    Json object(int depth) {
        Json schema = {{"type", "object"}, {"properties", Json::object()}};
        Json required = Json::array();
        const size_t count = below(5);
        for (size_t i = 0; i < count; ++i) {
            const std::string name = chance(5) ? "naïve \"key\"" : std::string(1, static_cast<char>('a' + i)) + "_name";
            schema["properties"][name] = value(depth - 1);
            if (chance(2)) required.push_back(name);
        }
        if (!required.empty()) schema["required"] = required;
        if (chance(2)) schema["additionalProperties"] = chance(2) ? Json(false) : integer();
        return schema;
    }

    // An option is told by the constant of its "kind".
    Json alternatives(int depth) {
        const auto option = [&](const char* kind) {
            return Json{{"type", "object"},
                        {"properties", {{"kind", {{"const", kind}}}, {"value", value(depth - 1)}}},
                        {"required", Json::array({"kind"})}};
        };
        return {{chance(2) ? "oneOf" : "anyOf", Json::array({option("one"), option("other")})}};
    }

    Json reference() {
        uses_reference_ = true;
        return {{"$ref", "#/$defs/tree"}};
    }

    static Json tree() {
        return Json::parse(
            R"({"type": "object", "properties": {"left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
            "n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["left", "n"], "additionalProperties": false})");
    }

    std::mt19937 random_;
    bool uses_reference_ = false;
};

// The token of a mask that `random` falls on.
TokenId pick(const std::vector<uint32_t>& mask, size_t random) {
    const auto tokens = [](uint32_t word) { return static_cast<size_t>(std::popcount(word)); };
    size_t allowed = 0;
    for (const uint32_t word : mask) allowed += tokens(word);
    size_t skip = random % allowed;
    size_t at = 0;
    for (; skip >= tokens(mask[at]); ++at) skip -= tokens(mask[at]);
    uint32_t word = mask[at];
    for (; skip > 0; --skip) word &= word - 1;
    return static_cast<TokenId>(at * 32 + static_cast<size_t>(std::countr_zero(word)));
}

// The tokens that may close a string, a list or an object.
std::vector<TokenId> closing_tokens(const TokenTrie& trie) {
    std::vector<TokenId> closing;
    for (TokenId id = 0; id < trie.vocab_size(); ++id) {
        const std::string_view bytes = trie.bytes(id);
        if (bytes.ends_with('"') || bytes.ends_with('}') || bytes.ends_with(']')) closing.push_back(id);
    }
    return closing;
}

// Takes any allowed token; after a while rather those that close something. Nothing when that does not come to an end.
std::optional<std::string> walk(const std::shared_ptr<const TokenMasks>& masks, const std::vector<TokenId>& closing,
                                unsigned seed) {
    GrammarMatcher matcher(masks);
    const TokenTrie& trie = masks->trie();
    std::mt19937 random(seed);
    std::string text;
    for (int step = 0; step < 4'000; ++step) {
        const auto mask = mask_of(matcher, trie);
        if (step > 25 && matcher.may_end()) break;
        TokenId chosen = pick(mask, random());
        if (step > 25) {  // random strings would go on for long
            for (const TokenId id : closing) {
                if (is_set(mask, id) && random() % 3 == 0) chosen = id;
            }
        }
        if (!matcher.accept(chosen)) {
            ADD_FAILURE() << "an allowed token is not accepted";
            return std::nullopt;
        }
        if (matcher.finished()) break;
        text += trie.bytes(chosen);
    }
    if (!matcher.finished() && !matcher.may_end()) return std::nullopt;
    return text;
}

TEST(GrammarWalk, OutputsOfAThousandRandomSchemasAreValid) {
    const auto trie = std::make_shared<const TokenTrie>(tales_tokenizer());
    const std::vector<TokenId> closing = closing_tokens(*trie);
    int valid = 0;
    for (unsigned seed = 0; seed < 1'000; ++seed) {
        const Json schema = SchemaMaker(seed).make();
        const auto grammar = compile_json_schema(schema.dump());
        ASSERT_TRUE(grammar) << schema.dump() << ": " << grammar.error().message;
        const auto masks = std::make_shared<const TokenMasks>(*grammar, trie);
        const auto text = walk(masks, closing, seed);
        if (!text) continue;  // it was still on its way
        const Json value = Json::parse(*text, nullptr, false);
        ASSERT_FALSE(value.is_discarded()) << schema.dump() << "\n" << *text;
        ASSERT_TRUE(SchemaValidator(schema).validates(value)) << schema.dump() << "\n" << *text;
        ++valid;
    }
    EXPECT_GT(valid, 980);
}

// Compares masks with what accept() says of every token, along a random walk.
void expect_masks_are_right(const Result<CompiledGrammarPtr>& grammar, const std::string& source, unsigned seed) {
    static const auto trie = std::make_shared<const TokenTrie>(tales_tokenizer());
    ASSERT_TRUE(grammar) << grammar.error().message;
    GrammarMatcher matcher(std::make_shared<const TokenMasks>(*grammar, trie));
    std::mt19937 random(seed);
    for (int step = 0; step < 12 && !matcher.finished(); ++step) {
        const auto mask = mask_of(matcher, *trie);
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < trie->vocab_size(); ++id) {
            const bool accepted = matcher.accept(id);
            if (accepted) matcher.rollback(1);
            ASSERT_EQ(accepted, is_set(mask, id)) << source << " token " << trie->bytes(id);
            if (accepted) allowed.push_back(id);
        }
        ASSERT_TRUE(matcher.accept(allowed[random() % allowed.size()]));
    }
}

TEST(GrammarWalk, MasksAreWhatAcceptTakesForEveryTokenOfAVocabulary) {
    for (unsigned seed = 0; seed < 12; ++seed) {
        const std::string schema = SchemaMaker(seed + 5'000).make().dump();
        expect_masks_are_right(compile_json_schema(schema), schema, seed);
    }
}

TEST(GrammarWalk, MasksAreRightWhereTextMayNotGoOnForLong) {
    for (const char* rules :
         {"root ::= [^\\n]{9,30} \"\\n\" [^x]{1,40}", "root ::= (\"- \" .{3,60} \"!\"){2,9}",
          "root ::= (.{0,7} \"the\")* [^a]{130,140}", "root ::= part{5,300}\npart ::= [^e ]{1,25} \" \"",
          "root ::= \"a\" .* \"b\"", "root ::= ([^\\\\\"] | \"\\\\\" .){200,220}",
          // Rules that end within plain text, and go on with more of it.
          "root ::= (.{2,6} | \"- \" .{1,3}) [a-z]* .{1,300} \" end\"", "root ::= ((.{1,3} \" \"){2,200}){2,200}",
          "root ::= name \"x\" | name [0-9]\nname ::= .{1,150}", "root ::= [^a]{0,4} (\"a\" | \"ä\") .{140}"}) {
        for (unsigned seed = 0; seed < 3; ++seed) expect_masks_are_right(compile_gbnf(rules), rules, seed);
    }
}

TEST(GrammarWalk, EveryKindOfVocabularyWorks) {
    for (const char* name : {"bpe-gpt2/tokenizer.json", "bpe-llama3/tokenizer.json", "spm-bpe-gemma/tokenizer.model",
                             "spm-unigram-bytes/tokenizer.model"}) {
        const auto tokenizer = load_tokenizer_file(std::filesystem::path(TANDEM_TEST_DATA) / "tokenizers" / name);
        ASSERT_TRUE(tokenizer) << tokenizer.error().message;
        const auto trie = std::make_shared<const TokenTrie>(*tokenizer);
        const auto grammar = compile_gbnf("root ::= [a-zé ]{3,12} \"!\"");
        ASSERT_TRUE(grammar);
        const auto masks = std::make_shared<const TokenMasks>(*grammar, trie);
        for (unsigned seed = 0; seed < 20; ++seed) {
            const auto text = walk(masks, closing_tokens(*trie), seed);
            ASSERT_TRUE(text) << name;
            EXPECT_TRUE(matches(*grammar, *text)) << name << ": " << *text;
        }
    }
}

TEST(GrammarMatcher, TokensMaySpanSeveralPartsOfAGrammar) {
    const std::vector<std::string> tokens = {"[{\"a\":", "1", "},{\"a\":", "}]", "},{\"b", "", "1},{\"a\":2}]", " 1"};
    const auto trie = std::make_shared<const TokenTrie>(tokens, std::vector<TokenId>{5});
    const auto grammar = compile_json_schema(
        R"({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}})");
    ASSERT_TRUE(grammar);
    GrammarMatcher matcher(std::make_shared<const TokenMasks>(*grammar, trie));
    const auto allowed = [&] { return mask_of(matcher, *trie)[0]; };
    EXPECT_EQ(allowed(), 0b1U);
    EXPECT_TRUE(matcher.accept(0));
    EXPECT_EQ(allowed(), 0b11000010U);
    EXPECT_TRUE(matcher.accept(1));
    EXPECT_EQ(allowed(), 0b1001110U);
    EXPECT_TRUE(matcher.accept(2));
    EXPECT_TRUE(matcher.accept(6));
    EXPECT_TRUE(matcher.may_end());
    EXPECT_EQ(allowed(), 0b100000U);
    EXPECT_FALSE(matcher.accept(1));
    EXPECT_TRUE(matcher.accept(5));
    EXPECT_TRUE(matcher.finished());
    EXPECT_FALSE(matcher.accept(5));
    std::vector<uint32_t> none(1);
    EXPECT_FALSE(matcher.fill_mask(none));
    matcher.rollback(3);  // the end, and two tokens
    EXPECT_FALSE(matcher.finished());
    EXPECT_EQ(matcher.accepted(), 2U);
    EXPECT_TRUE(matcher.accept(3));
    EXPECT_TRUE(matcher.may_end());
}

TEST(GrammarMatcher, AVocabularyThatCannotGoOnIsAnError) {
    const auto trie = std::make_shared<const TokenTrie>(std::vector<std::string>{"a", ""}, std::vector<TokenId>{1});
    const auto grammar = compile_gbnf("root ::= \"ab\"");
    GrammarMatcher matcher(std::make_shared<const TokenMasks>(*grammar, trie));
    ASSERT_TRUE(matcher.accept(0));
    std::vector<uint32_t> mask(3, ~0U);
    const Status filled = matcher.fill_mask(mask);
    ASSERT_FALSE(filled);
    EXPECT_EQ(filled.error().message, "no token of the model can go on as the grammar demands");
    EXPECT_EQ(mask, std::vector<uint32_t>(3, 0U));
}

TEST(TokenTrie, LeavesOutWhatIsNoText) {
    const Tokenizer& tokenizer = tales_tokenizer();
    const TokenTrie trie(tokenizer);
    size_t with_text = 0;
    for (TokenId id = 0; id < trie.vocab_size(); ++id) {
        if (tokenizer.is_special(id) || trie.is_stop(id)) {
            EXPECT_EQ(trie.bytes(id), "");
        }
        with_text += trie.bytes(id).empty() ? 0 : 1;
    }
    uint32_t plain = 0;
    for (const uint32_t word : trie.plain_tokens(trie.most_plain()))
        plain += static_cast<uint32_t>(std::popcount(word));
    const auto nodes = trie.nodes();
    EXPECT_EQ(plain, trie.tokens(trie.plain_root(), static_cast<uint32_t>(nodes.size())).size());
    EXPECT_GT(plain, with_text / 2);
    size_t in_nodes = 0;
    for (uint32_t node = 0; node < trie.nodes().size(); ++node) {
        for (const TokenId id : trie.tokens(node)) EXPECT_EQ(trie.bytes(id).size(), trie.nodes()[node].depth);
        in_nodes += trie.tokens(node).size();
    }
    EXPECT_EQ(in_nodes, with_text);
    EXPECT_GT(with_text, 1'000U);
}

}  // namespace
}  // namespace tandem::text
