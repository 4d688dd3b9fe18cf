#include "text/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "text/jinja/limits.h"
#include "text/jinja/numbers.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"
#include "text/utf8.h"

namespace tandem::text::jinja {

namespace {

constexpr size_t kNone = std::string_view::npos;

// Line ends become \n, and one at the very end is dropped.
std::string normalize_newlines(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (size_t i = 0; i < source.size(); i++) {
        if (source[i] != '\r') {
            out += source[i];
            continue;
        }
        out += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') i++;
    }
    if (out.ends_with('\n')) out.pop_back();
    return out;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

class Lexer {
  public:
    explicit Lexer(std::string_view source) : source_(source) {}

    Result<std::vector<Token>> run() {
        while (pos_ < source_.size()) TRY(lex_text());
        push(TokenType::end);
        return std::move(tokens_);
    }

  private:
    std::string_view rest() const { return source_.substr(pos_); }

    void advance(size_t bytes) {
        std::string_view passed = source_.substr(pos_, bytes);
        line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
        line_start_ = passed.empty() ? line_start_ : passed.back() == '\n';
        pos_ += bytes;
    }

    void skip_space() { advance(rest().size() - utf8::trim_left(rest()).size()); }

    Token& push(TokenType type) {
        tokens_.emplace_back();
        tokens_.back().type = type;
        tokens_.back().line = line_;
        return tokens_.back();
    }

    Error error(std::string_view message) const { return error_at(line_, message); }

    // The text up to the next tag, and then that tag.
    Status lex_text() {
        size_t tag = pos_;
        while (true) {
            tag = source_.find('{', tag);
            if (tag == kNone || tag + 1 >= source_.size()) {
                push_text(rest());
                advance(rest().size());
                return Ok{};
            }
            char c = source_[tag + 1];
            if (c == '%' || c == '{' || c == '#') break;
            tag++;
        }
        char kind = source_[tag + 1];
        char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
        if (sign != '-' && sign != '+') sign = '\0';
        std::string_view text = source_.substr(pos_, tag - pos_);
        push_text(text_before_tag(text, sign, kind == '{'));
        advance(text.size());
        size_t opening = sign ? 3 : 2;
        if (kind == '#') return lex_comment(opening);
        if (kind == '%') {
            if (auto size = raw_tag_size("raw", true)) return lex_raw(*size);
        }
        push(kind == '{' ? TokenType::variable_begin : TokenType::block_begin);
        advance(opening);
        return lex_tag(kind == '{');
    }

    void push_text(std::string_view text) {
        if (!text.empty()) push(TokenType::text).text = text;
    }

    // '-' removes the whitespace before a tag; without a sign, what indents a tag that starts its line goes.
    std::string_view text_before_tag(std::string_view text, char sign, bool variable) const {
        if (sign == '-') return utf8::trim_right(text);
        if (sign == '+' || variable) return text;
        size_t newline = text.rfind('\n');
        size_t start = newline == kNone ? 0 : newline + 1;
        bool starts_line = start > 0 || line_start_;
        return starts_line && utf8::trim_left(text.substr(start)).empty() ? text.substr(0, start) : text;
    }

    // After the end of a tag: '-' takes all whitespace, otherwise a block takes one newline.
    void finish_tag(char sign, bool trim_newline) {
        if (sign == '-') {
            skip_space();
        } else if (sign != '+' && trim_newline && rest().starts_with('\n')) {
            advance(1);
        }
    }

    Status lex_comment(size_t opening) {
        int line = line_;
        size_t close = source_.find("#}", pos_ + opening);
        if (close == kNone) return error_at(line, "missing end of comment tag");
        char before = close > pos_ + opening ? source_[close - 1] : '\0';
        advance(close + 2 - pos_);
        finish_tag(before == '-' || before == '+' ? before : '\0', true);
        return Ok{};
    }

    // Bytes of {% raw %} or {% endraw %} at the position, up to the sign or bracket that ends it.
    std::optional<size_t> raw_tag_size(std::string_view word, bool opening) const {
        std::string_view text = rest();
        if (!text.starts_with("{%")) return std::nullopt;
        size_t size = 2;
        if (size < text.size() && (text[size] == '-' || text[size] == '+')) size++;
        auto skip = [&] { size = text.size() - utf8::trim_left(text.substr(size)).size(); };
        skip();
        if (!text.substr(size).starts_with(word)) return std::nullopt;
        size += word.size();
        skip();
        std::string_view after = text.substr(size);
        bool ends = after.starts_with("%}") || after.starts_with("-%}") || (!opening && after.starts_with("+%}"));
        return ends ? std::optional<size_t>(size) : std::nullopt;
    }

    // Consumes [-+]%} and gives the sign.
    char take_tag_end() {
        char sign = rest()[0] == '%' ? '\0' : rest()[0];
        advance(sign ? 3 : 2);
        return sign;
    }

    Status lex_raw(size_t tag_size) {
        int line = line_;
        advance(tag_size);
        finish_tag(take_tag_end(), false);
        size_t begin = pos_;
        bool line_start = line_start_;
        for (size_t end = source_.find("{%", pos_); end != kNone; end = source_.find("{%", end + 1)) {
            advance(end - pos_);
            auto size = raw_tag_size("endraw", false);
            if (!size) continue;
            char sign = source_[end + 2] == '-' || source_[end + 2] == '+' ? source_[end + 2] : '\0';
            line_start_ = line_start;
            push_text(text_before_tag(source_.substr(begin, end - begin), sign, false));
            advance(*size);
            finish_tag(take_tag_end(), true);
            return Ok{};
        }
        return error_at(line, "missing end of raw directive");
    }

    // The inside of {{ }} or {% %}.
    Status lex_tag(bool variable) {
        std::string_view close = variable ? "}}" : "%}";
        std::string brackets;
        while (true) {
            std::string_view text = rest();
            if (text.empty()) return error("unexpected end of template inside a tag");
            if (brackets.empty()) {
                char sign = text[0] == '-' || (text[0] == '+' && !variable) ? text[0] : '\0';
                if (text.substr(sign ? 1 : 0).starts_with(close)) {
                    push(variable ? TokenType::variable_end : TokenType::block_end);
                    advance(sign ? 3 : 2);
                    finish_tag(sign, !variable);
                    return Ok{};
                }
            }
            TRY(lex_token(brackets));
        }
    }

    Status lex_token(std::string& brackets) {
        size_t after = 0;
        char32_t c = utf8::next(rest(), after);
        if (utf8::is_space(c)) {
            skip_space();
            return Ok{};
        }
        if (c >= '0' && c <= '9') return lex_number();
        if (c == '\'' || c == '"') return lex_string();
        if (utf8::is_word(c)) return lex_name();
        return lex_symbol(brackets);
    }

    // (\d+_)*\d+ : digits with single underscores between them.
    static size_t digits_size(std::string_view text) {
        size_t n = 0;
        while (n < text.size() && (is_digit(text[n]) || (text[n] == '_' && n > 0 && is_digit(text[n - 1]) &&
                                                         n + 1 < text.size() && is_digit(text[n + 1])))) {
            n++;
        }
        return n;
    }

    // The size of a number with a fraction or exponent, or 0.
    static size_t real_size(std::string_view text) {
        size_t n = digits_size(text);
        bool real = false;
        if (n + 1 < text.size() && text[n] == '.' && is_digit(text[n + 1])) {
            n += 1 + digits_size(text.substr(n + 1));
            real = true;
        }
        if (n < text.size() && (text[n] == 'e' || text[n] == 'E')) {
            size_t exponent = n + 1;
            if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) exponent++;
            size_t digits = digits_size(text.substr(exponent));
            if (digits > 0) return exponent + digits;
        }
        return real ? n : 0;
    }

    static size_t integer_size(std::string_view text) {
        auto run_of = [&](size_t from, std::string_view allowed) {
            size_t n = from;
            while (n < text.size()) {
                size_t digit = text[n] == '_' ? n + 1 : n;
                if (digit >= text.size() || allowed.find(text[digit]) == kNone) break;
                n = digit + 1;
            }
            return n;
        };
        if (text[0] != '0') return run_of(0, "0123456789");
        if (text.size() > 1) {
            char letter = static_cast<char>(text[1] | 0x20);
            std::string_view allowed = letter == 'b'   ? "01"
                                       : letter == 'o' ? "01234567"
                                       : letter == 'x' ? "0123456789abcdefABCDEF"
                                                       : "";
            size_t n = allowed.empty() ? 0 : run_of(2, allowed);
            if (n > 2) return n;
        }
        return run_of(0, "0");
    }

    Status lex_number() {
        bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';
        size_t size = after_dot ? 0 : real_size(rest());
        bool real = size > 0;
        if (!real) size = integer_size(rest());
        std::string_view text = rest().substr(0, size);
        Token& token = push(real ? TokenType::real : TokenType::integer);
        if (real) {
            token.real = parse_real(text).value_or(0);
        } else {
            auto value = parse_integer(text, 0);
            if (!value) return error(fmt::format("the integer {} does not fit in 64 bits", text.substr(0, 40)));
            token.integer = *value;
        }
        advance(size);
        return Ok{};
    }

    Status lex_name() {
        std::string_view text = rest();
        size_t size = 0;
        while (size < text.size()) {
            size_t after = size;
            if (!utf8::is_word(utf8::next(text, after))) break;
            size = after;
        }
        size_t pos = 0;
        if (utf8::is_numeric(utf8::next(text, pos))) return error("invalid character in identifier");
        push(TokenType::name).text = text.substr(0, size);
        advance(size);
        return Ok{};
    }

    Status lex_string() {
        std::string_view text = rest();
        size_t end = 1;
        while (end < text.size() && text[end] != text[0]) end += text[end] == '\\' ? 2 : 1;
        if (end >= text.size()) return error("a string is not closed");
        Token& token = push(TokenType::string);
        Result<std::string> value = unescape(text.substr(1, end - 1));
        if (!value) return error(value.error().message);
        token.text = std::move(*value);
        advance(end + 1);
        return Ok{};
    }

    static Result<char32_t> hex_escape(std::string_view text, size_t& pos, size_t digits) {
        uint32_t code = 0;
        std::string_view hex = text.substr(pos, digits);
        auto [ptr, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
        if (error != std::errc() || hex.size() != digits || ptr != hex.data() + digits) {
            return fail("truncated escape in a string");
        }
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
            return fail("the escape {} in a string is not a character", hex);
        }
        pos += digits;
        return static_cast<char32_t>(code);
    }

    static char32_t octal_escape(std::string_view text, size_t& pos) {
        char32_t code = 0;
        for (int i = 0; i < 3 && pos < text.size() && text[pos] >= '0' && text[pos] <= '7'; i++) {
            code = code * 8 + static_cast<char32_t>(text[pos++] - '0');
        }
        return code;
    }

    // Python's escapes; what follows any other backslash stays as it is, with the backslash.
    static Result<std::string> unescape(std::string_view text) {
        constexpr std::string_view kLetters = "abfnrtv\\'\"";
        constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
        std::string out;
        for (size_t pos = 0; pos < text.size();) {
            char c = text[pos++];
            if (c != '\\') {
                out += c;
                continue;
            }
            char letter = text[pos];
            size_t known = kLetters.find(letter);
            if (known != kNone) {
                out += kMeanings[known];
                pos++;
            } else if (letter == '\n') {
                pos++;
            } else if (letter >= '0' && letter <= '7') {
                append_utf8(out, octal_escape(text, pos));
            } else if (letter == 'x' || letter == 'u' || letter == 'U') {
                pos++;
                append_utf8(out, TRY(hex_escape(text, pos, letter == 'x' ? 2 : letter == 'u' ? 4 : 8)));
            } else if (letter == 'N') {
                return fail("\\N escapes in strings are not supported");
            } else {
                out += '\\';
            }
        }
        return out;
    }

    Status lex_symbol(std::string& brackets) {
        constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
        constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
        std::string_view text = rest();
        size_t size = 0;
        for (std::string_view two : kTwo) {
            if (text.starts_with(two)) size = 2;
        }
        if (size == 0 && kOne.find(text[0]) != kNone) size = 1;
        if (size == 0) {
            size_t after = 0;
            utf8::next(text, after);
            return error(fmt::format("unexpected character {}", quote_name(text.substr(0, after))));
        }
        TRY(balance(text[0], brackets));
        push(TokenType::symbol).text = text.substr(0, size);
        advance(size);
        return Ok{};
    }

    Status balance(char c, std::string& brackets) const {
        if (c == '(') brackets += ')';
        if (c == '[') brackets += ']';
        if (c == '{') brackets += '}';
        if (c != ')' && c != ']' && c != '}') return Ok{};
        if (brackets.empty()) return error(fmt::format("unexpected '{}'", c));
        if (brackets.back() != c) return error(fmt::format("unexpected '{}', expected '{}'", c, brackets.back()));
        brackets.pop_back();
        return Ok{};
    }

    std::string_view source_;
    size_t pos_ = 0;
    int line_ = 1;
    bool line_start_ = true;  // whether what was consumed last ended with a newline
    std::vector<Token> tokens_;
};

}  // namespace

Error error_at(int line, std::string_view message) {
    constexpr size_t kMaxBytes = 1000;
    std::string text(message.substr(0, utf8::offset(message, kMaxBytes)));
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::replace(text.begin(), text.end(), '\r', ' ');
    return fail("chat template, line {}: {}", line, text);
}

Result<std::vector<Token>> tokenize(std::string_view source) {
    if (source.size() > kMaxSourceBytes) {
        return fail("chat template: it has {} bytes, more than the {} allowed", source.size(), kMaxSourceBytes);
    }
    if (!is_valid_utf8(source)) return fail("chat template: it is not valid UTF-8");
    std::string text = normalize_newlines(source);
    return Lexer(text).run();
}

}  // namespace tandem::text::jinja
