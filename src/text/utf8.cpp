#include "text/utf8.h"

#include <utf8proc.h>

#include "base/check.h"

namespace tandem::text {

namespace {

struct LeadByte {
    size_t length;            // 0: no character starts with it
    unsigned char low, high;  // bounds of the second byte: they exclude overlong forms, surrogates and > U+10FFFF
    uint32_t bits;            // what the lead byte itself contributes
};

LeadByte lead_byte(unsigned char byte) {
    if (byte < 0x80) return {1, 0, 0, byte};
    if (byte < 0xC2) return {0, 0, 0, 0};
    if (byte < 0xE0) return {2, 0x80, 0xBF, byte & 0x1FU};
    if (byte < 0xF0) {
        const auto low = static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80);
        const auto high = static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF);
        return {3, low, high, byte & 0x0FU};
    }
    if (byte < 0xF5) {
        const auto low = static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80);
        const auto high = static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF);
        return {4, low, high, byte & 0x07U};
    }
    return {0, 0, 0, 0};
}

utf8proc_category_t category(uint32_t code) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

}  // namespace

Utf8Char decode_utf8(std::string_view text) {
    const LeadByte lead = lead_byte(static_cast<unsigned char>(text.front()));
    if (lead.length == 0) return {.code = 0xFFFD, .length = 1};
    uint32_t code = lead.bits;
    for (size_t i = 1; i < lead.length; ++i) {
        if (i == text.size()) return {.code = 0xFFFD, .length = i, .incomplete = true};
        const auto byte = static_cast<unsigned char>(text[i]);
        const bool in_bounds = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0U) == 0x80U;
        if (!in_bounds) return {.code = 0xFFFD, .length = i};
        code = (code << 6) | (byte & 0x3FU);
    }
    return {.code = code, .length = lead.length, .valid = true};
}

void append_utf8(std::string& out, uint32_t code) {
    utf8proc_uint8_t bytes[4];
    const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

bool is_valid_utf8(std::string_view text) {
    while (!text.empty()) {
        const Utf8Char next = decode_utf8(text);
        if (!next.valid) return false;
        text.remove_prefix(next.length);
    }
    return true;
}

std::string to_valid_utf8(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Utf8Char next = decode_utf8(text);
        out += next.valid ? text.substr(0, next.length) : kReplacement;
        text.remove_prefix(next.length);
    }
    return out;
}

bool is_space(uint32_t code) {
    if (code <= 0x20) return code == 0x20 || (code >= 0x09 && code <= 0x0D);
    if (code < 0x85) return false;
    if (code == 0x85) return true;
    const auto c = category(code);
    return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

bool is_number(uint32_t code) {
    const auto c = category(code);
    return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(uint32_t code) {
    const auto c = category(code);
    return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool is_mark(uint32_t code) {
    const auto c = category(code);
    return c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(uint32_t code) {
    return category(code) == UTF8PROC_CATEGORY_MN;
}

bool is_control(uint32_t code) {
    const auto c = category(code);
    return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO;
}

bool is_word(uint32_t code) {
    const auto c = category(code);
    const bool joiner = code == 0x200C || code == 0x200D;
    const bool circled_letter = (code >= 0x24B6 && code <= 0x24E9) || (code >= 0x1F130 && code <= 0x1F149) ||
                                (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) || c == UTF8PROC_CATEGORY_PC || joiner ||
           circled_letter;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
    CHECK(!from.empty());
    std::string out;
    out.reserve(text.size());
    for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
        out += text.substr(0, at);
        out += to;
        text.remove_prefix(at + from.size());
    }
    return out += text;
}

}  // namespace tandem::text
