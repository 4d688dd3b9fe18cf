#include "text/added_tokens.h"

#include "text/utf8.h"

namespace tandem::text {

namespace {

size_t previous_character(std::string_view text, size_t end) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) --begin;
    return begin;
}

bool is_word_before(std::string_view text, size_t at) {
    return at > 0 && is_word(decode_utf8(text.substr(previous_character(text, at))).code);
}

bool is_word_after(std::string_view text, size_t at) {
    return at < text.size() && is_word(decode_utf8(text.substr(at)).code);
}

size_t skip_spaces_back(std::string_view text, size_t at, size_t limit) {
    while (at > limit) {
        const size_t begin = previous_character(text, at);
        if (begin < limit || !is_space(decode_utf8(text.substr(begin)).code)) break;
        at = begin;
    }
    return at;
}

size_t skip_spaces(std::string_view text, size_t at) {
    while (at < text.size()) {
        const Utf8Char next = decode_utf8(text.substr(at));
        if (!is_space(next.code)) break;
        at += next.length;
    }
    return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
    std::vector<Trie::Key> keys;
    for (size_t i = 0; i < tokens_.size(); ++i) keys.push_back({tokens_[i].content, static_cast<int32_t>(i)});
    trie_ = Trie(std::move(keys));
}

void AddedTokens::split(std::string_view text, bool parse_special, std::vector<Segment>& out) const {
    size_t done = 0;  // all before it is in `out`
    for (size_t at = 0; at < text.size() && !trie_.empty();) {
        const auto match = trie_.longest_prefix(text.substr(at));
        if (match.length == 0) {
            ++at;
            continue;
        }
        const AddedToken& token = tokens_[static_cast<size_t>(match.value)];
        size_t begin = at;
        size_t end = at + match.length;
        at = end;
        if (begin < done || (token.special && !parse_special)) continue;
        if (token.single_word && (is_word_before(text, begin) || is_word_after(text, end))) continue;
        if (token.lstrip) begin = skip_spaces_back(text, begin, done);
        if (token.rstrip) end = skip_spaces(text, end);
        if (done < begin) out.push_back({text.substr(done, begin - done), std::nullopt});
        out.push_back({text.substr(begin, end - begin), token.id});
        done = end;
    }
    if (done < text.size()) out.push_back({text.substr(done), std::nullopt});
}

}  // namespace tandem::text
