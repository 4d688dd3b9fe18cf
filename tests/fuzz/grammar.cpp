// Any text as a JSON Schema or a GBNF grammar: refused, or it runs. What its masks allow must be accepted, and a walk
// along them never gets stuck.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/grammar/matcher.h"

namespace {

using tandem::text::CompiledGrammarPtr;
using tandem::text::GrammarMatcher;
using tandem::text::TokenId;
using tandem::text::TokenMasks;
using tandem::text::TokenTrie;

// Every byte, and tokens that span several parts of a text.
std::shared_ptr<const TokenTrie> make_trie() {
    std::vector<std::string> tokens(256);
    for (size_t byte = 0; byte < 256; ++byte) tokens[byte] = std::string(1, static_cast<char>(byte));
    for (const char* text :
         {"\":", "\",\"", "},{\"", "\"}", "]}", "[[", "true", "null", "  ", "\n    ", "aaaa", "12", "0.", "\xC3\xA9"})
        tokens.emplace_back(text);
    tokens.emplace_back();
    const auto stop = static_cast<TokenId>(tokens.size()) - 1;
    return std::make_shared<const TokenTrie>(std::move(tokens), std::vector<TokenId>{stop});
}

void use(const CompiledGrammarPtr& grammar, std::string_view choices) {
    static const auto trie = make_trie();
    GrammarMatcher matcher(std::make_shared<const TokenMasks>(grammar, trie));
    std::vector<uint32_t> mask(9);
    for (size_t step = 0; step < 24 && !matcher.finished(); ++step) {
        if (!matcher.fill_mask(mask)) return;  // too ambiguous
        std::vector<TokenId> allowed;
        for (TokenId id = 0; id < trie->vocab_size(); ++id) {
            if (((mask[static_cast<size_t>(id) / 32] >> (static_cast<size_t>(id) % 32)) & 1U) != 0)
                allowed.push_back(id);
        }
        CHECK(!allowed.empty());
        const size_t choice =
            choices.empty() ? step * 7 : static_cast<unsigned char>(choices[step % choices.size()]) + step;
        const bool accepted = matcher.accept(allowed[choice % allowed.size()]);
        CHECK(accepted);
        if (step % 5 == 4) matcher.rollback(1);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto grammar = text.find("::=") != std::string_view::npos ? tandem::text::compile_gbnf(text)
                                                                    : tandem::text::compile_json_schema(text);
    if (grammar) use(*grammar, text.substr(size / 2));
    return 0;
}
