// Random schemas and random walks over real vocabularies: whatever the masks allow ends as JSON that is valid.
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "format/checkpoint.h"
#include "schema_validator.h"
#include "text/tokenizer.h"
#include "unit/text/grammar_tools.h"
#include "unit/text/random_schemas.h"

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
            const bool is_mark = tokenizer.is_special(id) && !trie.is_stop(id);
            EXPECT_EQ(trie.bytes(id), is_mark ? kControlByte + std::string(tokenizer.piece(id)) : "");
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
