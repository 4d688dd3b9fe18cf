#include "text/jinja/utf8.h"

#include <utf8proc.h>

#include <cstring>

#include "base/check.h"
#include "text/utf8.h"

namespace tandem::text::jinja::utf8 {

namespace {

utf8proc_category_t category(char32_t c) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_cased_ascii_upper(char32_t c) {
    return c >= 'A' && c <= 'Z';
}
bool is_cased_ascii_lower(char32_t c) {
    return c >= 'a' && c <= 'z';
}

}  // namespace

char32_t next(std::string_view text, size_t& pos) {
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    if (bytes[pos] < 0x80) return bytes[pos++];
    utf8proc_int32_t c = 0;
    utf8proc_ssize_t n = utf8proc_iterate(bytes + pos, static_cast<utf8proc_ssize_t>(text.size() - pos), &c);
    CHECK(n > 0, "invalid UTF-8 inside the template engine");
    pos += static_cast<size_t>(n);
    return static_cast<char32_t>(c);
}

size_t length(std::string_view text) {
    size_t n = 0;
    for (char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return n;
}

size_t offset(std::string_view text, size_t n) {
    size_t pos = 0;
    while (n > 0 && pos < text.size()) {
        pos++;
        while (pos < text.size() && (static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80) pos++;
        n--;
    }
    return pos;
}

bool is_space(char32_t c) {
    if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(char32_t c) {
    if (c < 0x80) return is_cased_ascii_upper(c) || is_cased_ascii_lower(c);
    switch (category(c)) {
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LL:
        case UTF8PROC_CATEGORY_LT:
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO:
            return true;
        default:
            return false;
    }
}

bool is_decimal(char32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9';
    return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
    if (is_decimal(c)) return true;
    return c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
           (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C);
}

bool is_numeric(char32_t c) {
    if (c < 0x80) return is_decimal(c);
    switch (category(c)) {
        case UTF8PROC_CATEGORY_ND:
        case UTF8PROC_CATEGORY_NL:
        case UTF8PROC_CATEGORY_NO:
            return true;
        default:
            return false;
    }
}

bool is_word(char32_t c) {
    return c == '_' || is_alpha(c) || is_numeric(c);
}

bool is_upper(char32_t c) {
    return c < 0x80 ? is_cased_ascii_upper(c) : category(c) == UTF8PROC_CATEGORY_LU;
}

bool is_lower(char32_t c) {
    return c < 0x80 ? is_cased_ascii_lower(c) : category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}

bool is_title(char32_t c) {
    return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_printable(char32_t c) {
    if (c < 0x80) return c >= 0x20 && c < 0x7F;
    switch (category(c)) {
        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_CC:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_CS:
        case UTF8PROC_CATEGORY_CO:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP:
        case UTF8PROC_CATEGORY_ZS:
            return false;
        default:
            return true;
    }
}

void append_upper(std::string& out, char32_t c) {
    if (c == 0xDF) {
        out += "SS";
        return;
    }
    append_utf8(out, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_lower(std::string& out, char32_t c) {
    if (c == 0x130) {
        out += "i\u0307";
        return;
    }
    append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

void append_folded(std::string& out, char32_t c) {
    if (c == 0xDF) {
        out += "ss";
        return;
    }
    append_lower(out, c);
}

void append_title(std::string& out, char32_t c) {
    if (c == 0xDF) {
        out += "Ss";
        return;
    }
    append_utf8(out, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

size_t find(std::string_view text, std::string_view needle, size_t from) {
    if (from > text.size()) return std::string_view::npos;
    const void* at = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
    return at ? static_cast<size_t>(static_cast<const char*>(at) - text.data()) : std::string_view::npos;
}

std::string_view trim_left(std::string_view text) {
    size_t pos = 0;
    while (pos < text.size()) {
        size_t after = pos;
        if (!is_space(next(text, after))) break;
        pos = after;
    }
    return text.substr(pos);
}

std::string_view trim_right(std::string_view text) {
    while (!text.empty()) {
        size_t start = text.size() - 1;
        while ((static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) start--;
        size_t pos = start;
        if (!is_space(next(text, pos))) break;
        text = text.substr(0, start);
    }
    return text;
}

}  // namespace tandem::text::jinja::utf8
