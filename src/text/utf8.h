// UTF-8 as the tokenizers need it: checked decoding, and the few character classes they ask about.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";    // U+2581, how a vocabulary writes a space

struct Utf8Char {
    uint32_t code = 0;
    size_t length = 0;        // bytes of the character; of the broken part (1 to 3) when it is not valid
    bool valid = false;       // else code is U+FFFD
    bool incomplete = false;  // not valid only because the text ends: more bytes could complete it
};

// The character `text` starts with; `text` must not be empty.
Utf8Char decode_utf8(std::string_view text);

void append_utf8(std::string& out, uint32_t code);

bool is_valid_utf8(std::string_view text);

// Every broken part becomes one U+FFFD.
std::string to_valid_utf8(std::string_view text);

// Bytes of the character by its first byte alone, at most what is left: how SentencePiece walks.
inline size_t utf8_step(std::string_view text) {
    constexpr unsigned char kLength[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    const size_t length = kLength[static_cast<unsigned char>(text.front()) >> 4];
    return length < text.size() ? length : text.size();
}

// Unicode White_Space; general categories N, P, M and Mn; Cc, Cf and Co.
bool is_space(uint32_t code);
bool is_number(uint32_t code);
bool is_punctuation(uint32_t code);
bool is_mark(uint32_t code);
bool is_nonspacing_mark(uint32_t code);
bool is_control(uint32_t code);
bool is_word(uint32_t code);  // Alphabetic, marks, decimal digits, connectors, joiners

// Replaces every occurrence; `from` must not be empty.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

}  // namespace tandem::text
