#include "format/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

namespace tandem::format {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some editors begin a file so

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Those that a string has as they are: neither its end, nor an escape, nor a control character, nor a part of a longer
// one.
constexpr std::array<bool, 256> kIsPlain = [] {
    std::array<bool, 256> plain = {};
    for (size_t c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
    return plain;
}();

// Bytes of the UTF-8 character of more than one byte that `text` begins with; 0: it begins with none (Unicode, table
// 3-7).
size_t long_character(std::string_view text) {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const auto follows = [&](size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
    const unsigned first = byte(0);
    const unsigned second = byte(1);
    if (!follows(1) || first < 0xC2) return 0;
    if (first < 0xE0) return 2;
    if (!follows(2)) return 0;
    if (first < 0xF0) {
        const bool is_long_form = first == 0xE0 && second < 0xA0;
        const bool is_surrogate = first == 0xED && second > 0x9F;
        return is_long_form || is_surrogate ? 0 : 3;
    }
    const bool is_long_form = first == 0xF0 && second < 0x90;
    const bool is_past_unicode = first > 0xF4 || (first == 0xF4 && second > 0x8F);
    return !follows(3) || is_long_form || is_past_unicode ? 0 : 4;
}

void append_character(std::string& out, uint32_t code) {
    const auto rest = [&](unsigned shift) { out += static_cast<char>(0x80U | ((code >> shift) & 0x3FU)); };
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xC0U | (code >> 6U));
        rest(0);
    } else if (code < 0x10000) {
        out += static_cast<char>(0xE0U | (code >> 12U));
        rest(6);
        rest(0);
    } else {
        out += static_cast<char>(0xF0U | (code >> 18U));
        rest(12);
        rest(6);
        rest(0);
    }
}

// Finite, or nothing. What is too small for a double becomes 0.
std::optional<double> fraction_of(std::string_view text) {
    double value = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{})
        value = std::strtod(std::string(text).c_str(), nullptr);
    if (!std::isfinite(value)) return std::nullopt;
    return value;
}

}  // namespace

JsonTokens::JsonTokens(std::string_view text, size_t most_digits) : text_(text), most_digits_(most_digits) {
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
}

void JsonTokens::skip_spaces() {
    const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; };
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
}

bool JsonTokens::take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return wrong("this is no value");
    at_ += word.size();
    return true;
}

bool JsonTokens::take_string(std::string& out) {
    out.clear();
    ++at_;
    for (;;) {
        const size_t begin = at_;
        while (at_ < text_.size() && kIsPlain[static_cast<unsigned char>(text_[at_])]) ++at_;
        out.append(text_, begin, at_ - begin);
        if (is_at_end()) return wrong("a string has no end");
        const char c = text_[at_];
        if (c == '"') break;
        if (c == '\\') {
            if (!take_escape(out)) return false;
            continue;
        }
        const size_t length = long_character(text_.substr(at_, 4));
        if (length == 0 && static_cast<unsigned char>(c) < 0x20)
            return wrong("a control character in a string must be written as an escape");
        if (length == 0) return wrong("a string is not UTF-8");
        out.append(text_, at_, length);
        at_ += length;
    }
    ++at_;
    return true;
}

bool JsonTokens::take_escape(std::string& out) {
    static constexpr std::string_view kNames = "\"\\/bfnrt";
    static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const char c = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (c == 'u') return take_utf16(out);
    const size_t which = kNames.find(c);
    if (which == kNames.npos) return wrong("an escape of a string is none of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u");
    out += kMeanings[which];
    at_ += 2;
    return true;
}

// \uXXXX, or two of them for what does not fit one.
bool JsonTokens::take_utf16(std::string& out) {
    uint32_t code = 0;
    if (!take_hex(code)) return false;
    if (code >= 0xD800 && code < 0xE000) {
        uint32_t low = 0;
        const bool is_pair = code < 0xDC00 && text_.substr(at_, 2) == "\\u";
        if (is_pair && !take_hex(low)) return false;
        if (low < 0xDC00 || low >= 0xE000) return wrong("half of a pair of \\u escapes");
        code = 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
    }
    append_character(out, code);
    return true;
}

bool JsonTokens::take_hex(uint32_t& out) {
    const std::string_view digits = text_.substr(std::min(at_ + 2, text_.size()), 4);
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
    if (status != std::errc{} || digits.size() != 4 || end != digits.data() + 4)
        return wrong("\\u must have four hexadecimal digits behind it");
    at_ += 6;
    return true;
}

size_t JsonTokens::end_of_digits(size_t from) const {
    while (from < text_.size() && is_digit(text_[from])) ++from;
    return from;
}

bool JsonTokens::end_of_number(size_t& end) {
    const auto at = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
    const size_t first = at_ + (peek() == '-' ? 1 : 0);
    if (!is_digit(at(first))) return wrong(is_at_end() ? "the text ends where a value must come" : "this is no value");
    end = at(first) == '0' ? first + 1 : end_of_digits(first);
    if (at(end) == '.') {
        if (!is_digit(at(end + 1))) return wrong("a digit is missing behind the point of a number");
        end = end_of_digits(end + 1);
    }
    if (at(end) == 'e' || at(end) == 'E') {
        const size_t sign = at(end + 1) == '+' || at(end + 1) == '-' ? 1 : 0;
        if (!is_digit(at(end + 1 + sign))) return wrong("a digit is missing in the exponent of a number");
        end = end_of_digits(end + 1 + sign);
    }
    return true;
}

bool JsonTokens::take_number(JsonNumber& out) {
    size_t end = 0;
    if (!end_of_number(end)) return false;
    if (end - at_ > most_digits_) {
        error_ = fmt::format("a number has more than {} characters", most_digits_);
        return false;
    }
    const std::string_view text = text_.substr(at_, end - at_);
    const auto is_whole = [&](auto& value) {
        const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
        return status == std::errc{} && stop == text.data() + text.size();
    };
    if (is_whole(out.natural)) {
        out.kind = JsonNumber::Kind::natural;
    } else if (is_whole(out.negative)) {
        out.kind = JsonNumber::Kind::negative;
    } else if (const auto fraction = fraction_of(text)) {
        out = {.kind = JsonNumber::Kind::fraction, .fraction = *fraction};
    } else {
        return wrong("a number is too large for a double");
    }
    at_ = end;
    return true;
}

bool JsonTokens::wrong(std::string_view reason) {
    const std::string_view before = text_.substr(0, at_);
    const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
    const size_t column = at_ - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    error_ = fmt::format("not valid JSON: parse error at line {}, column {}: {}", line, column, reason);
    return false;
}

}  // namespace tandem::format
