// Runs grammars in tests: over bytes, over tokens, and along random walks that only take what the masks allow.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "text/grammar/compiled_grammar.h"
#include "text/grammar/matcher.h"

namespace tandem::text {

// Every byte is a token: ids 0 ... 255; 256 ends a text.
inline std::shared_ptr<const TokenTrie> byte_trie() {
    static const auto trie = [] {
        std::vector<std::string> tokens(257);
        for (size_t byte = 0; byte < 256; ++byte) tokens[byte] = std::string(1, static_cast<char>(byte));
        return std::make_shared<const TokenTrie>(std::move(tokens), std::vector<TokenId>{256});
    }();
    return trie;
}

inline GrammarMatcher byte_matcher(const CompiledGrammarPtr& grammar) {
    return GrammarMatcher(std::make_shared<const TokenMasks>(grammar, byte_trie()));
}

enum class Match { none, prefix, whole };

inline Match match(const CompiledGrammarPtr& grammar, std::string_view text) {
    GrammarMatcher matcher = byte_matcher(grammar);
    for (const char c : text) {
        if (!matcher.accept(static_cast<unsigned char>(c))) return Match::none;
    }
    return matcher.may_end() ? Match::whole : Match::prefix;
}

inline bool matches(const CompiledGrammarPtr& grammar, std::string_view text) {
    return match(grammar, text) == Match::whole;
}

inline bool is_set(const std::vector<uint32_t>& mask, TokenId id) {
    return ((mask[static_cast<size_t>(id) / 32] >> (static_cast<size_t>(id) % 32)) & 1U) != 0;
}

inline std::vector<uint32_t> mask_of(const GrammarMatcher& matcher, const TokenTrie& trie) {
    std::vector<uint32_t> mask((static_cast<size_t>(trie.vocab_size()) + 31) / 32);
    const Status filled = matcher.fill_mask(mask);
    EXPECT_TRUE(filled) << filled.error().message;
    return mask;
}

// Why a schema is refused.
inline std::string schema_failure(std::string_view schema) {
    const auto grammar = compile_json_schema(schema);
    return grammar ? "no error" : grammar.error().message;
}

// Texts that the grammar of a schema allows, and others.
inline void expect_json(std::string_view schema, const std::vector<std::string>& in,
                        const std::vector<std::string>& out) {
    const auto grammar = compile_json_schema(schema);
    ASSERT_TRUE(grammar) << schema << ": " << grammar.error().message;
    for (const std::string& text : in) EXPECT_TRUE(matches(*grammar, text)) << schema << " should allow " << text;
    for (const std::string& text : out) EXPECT_FALSE(matches(*grammar, text)) << schema << " should not allow " << text;
}

}  // namespace tandem::text
