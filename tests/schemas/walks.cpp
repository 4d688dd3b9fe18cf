// Answers JSON Schemas as fast as they can be compiled: schema_walks WALKS SEED reads one schema a line, and writes a
// line {"answers": [...], "unfinished": n} or {"refused": "..."} for each. An answer is a random walk over bytes that
// takes whatever the masks allow, as a model that knows nothing would; it shares the grammar and the masks with the
// program, and nothing else.
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>

#include "text/grammar/compiled_grammar.h"
#include "text/grammar/matcher.h"

namespace {

using tandem::text::compile_json_schema;
using tandem::text::CompiledGrammarPtr;
using tandem::text::GrammarMatcher;
using tandem::text::TokenId;
using tandem::text::TokenMasks;
using tandem::text::TokenTrie;

constexpr size_t kStop = 256;      // the token that ends an answer; the others are bytes
constexpr size_t kPatience = 120;  // bytes after which it rather closes what is open
constexpr size_t kMostBytes = 1'000;

std::shared_ptr<const TokenTrie> byte_trie() {
    std::vector<std::string> tokens(kStop + 1);
    for (size_t byte = 0; byte < kStop; ++byte) tokens[byte] = std::string(1, static_cast<char>(byte));
    return std::make_shared<const TokenTrie>(std::move(tokens), std::vector<TokenId>{static_cast<TokenId>(kStop)});
}

// How readily a byte is taken where it is allowed. Short texts from few letters meet the names and the values of a
// schema more often than those of all of Unicode would.
unsigned weight(size_t token, bool hurry) {
    if (token == kStop) return hurry ? 4'000 : 30;
    const auto c = static_cast<char>(token);
    if (c == '"' || c == '}' || c == ']') return hurry ? 1'000 : 60;
    if (c == ',') return hurry ? 1 : 60;
    if (c == '{' || c == '[') return hurry ? 1 : 12;
    if (c >= 'a' && c <= 'd') return 14;
    if (c >= '0' && c <= '9') return 8;
    if (c == '-' || c == '.' || c == 't' || c == 'f' || c == 'n') return 6;
    return 1;
}

struct Walker {
    std::mt19937_64 random;
    std::shared_ptr<const TokenTrie> trie = byte_trie();

    // Nothing where it did not come to its end.
    std::optional<std::string> walk(const std::shared_ptr<const TokenMasks>& masks) {
        GrammarMatcher matcher(masks);
        std::array<uint32_t, kStop / 32 + 1> mask{};
        std::string text;
        while (text.size() < kMostBytes) {
            if (!matcher.fill_mask(mask)) return std::nullopt;
            const size_t token = choose(mask, text.size() > kPatience);
            if (token == kStop) return text;
            if (!matcher.accept(static_cast<TokenId>(token))) {
                std::cerr << "a byte that the mask allows is not accepted after " << text << "\n";
                std::exit(1);
            }
            text += static_cast<char>(token);
        }
        return std::nullopt;
    }

    size_t choose(const std::array<uint32_t, kStop / 32 + 1>& mask, bool hurry) {
        std::array<unsigned, kStop + 1> weights{};
        unsigned sum = 0;
        for (size_t token = 0; token <= kStop; ++token) {
            if (((mask[token / 32] >> (token % 32)) & 1U) != 0) sum += weights[token] = weight(token, hurry);
        }
        auto left = static_cast<unsigned>(random() % sum);
        size_t token = 0;
        for (; left >= weights[token]; ++token) left -= weights[token];
        return token;
    }
};

nlohmann::json answer(Walker& walker, const std::string& schema, int walks) {
    const auto grammar = compile_json_schema(schema);
    if (!grammar) return {{"refused", grammar.error().message}};
    const auto masks = std::make_shared<const TokenMasks>(*grammar, walker.trie);
    std::set<std::string> answers;
    int unfinished = 0;
    for (int i = 0; i < walks; ++i) {
        if (auto text = walker.walk(masks))
            answers.insert(std::move(*text));
        else
            ++unfinished;
    }
    return {{"answers", answers}, {"unfinished", unfinished}};
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: schema_walks WALKS SEED < schemas, one a line\n";
        return 2;
    }
    Walker walker{.random = std::mt19937_64(std::stoul(argv[2]))};
    const int walks = std::stoi(argv[1]);
    for (std::string schema; std::getline(std::cin, schema);) {
        std::cout << answer(walker, schema, walks).dump() << std::endl;
    }
}
