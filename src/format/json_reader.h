// JsonReader: reads JSON text (RFC 8259) once and tells a handler what it meets; nothing is kept beside the token at
// hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem::format {

// A number as it is written: exact where it is a whole one that 64 bits hold.
struct JsonNumber {
    enum class Kind : uint8_t { natural, negative, fraction } kind = Kind::natural;
    uint64_t natural = 0;
    int64_t negative = 0;
    double fraction = 0;
};

// The tokens of a text. What takes one is false where it is not well-formed; error() then says where and why.
class JsonTokens {
  public:
    // `most_digits`: of a number, before any of them is looked at.
    JsonTokens(std::string_view text, size_t most_digits);

    void skip_spaces();
    // The next character; 0 at the end, where none is either.
    char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool is_at_end() const { return at_ == text_.size(); }
    void advance() { ++at_; }

    bool take_word(std::string_view word);  // true, false, null
    bool take_string(std::string& out);
    bool take_number(JsonNumber& out);

    bool wrong(std::string_view reason);
    const std::string& error() const { return error_; }

  private:
    bool take_escape(std::string& out);
    bool take_utf16(std::string& out);
    bool take_hex(uint32_t& out);
    size_t end_of_digits(size_t from) const;
    bool end_of_number(size_t& end);

    std::string_view text_;
    size_t most_digits_;
    size_t at_ = 0;
    std::string error_;
};

// `Handler` has the functions of the calls below; each is false to end the reading, for a reason that it keeps.
template <typename Handler>
class JsonReader {
  public:
    JsonReader(JsonTokens& tokens, Handler& handler) : tokens_(tokens), handler_(handler) {}

    bool read() {
        if (!read_value()) return false;
        tokens_.skip_spaces();
        return tokens_.is_at_end() || tokens_.wrong("there is more behind the value");
    }

  private:
    // The handler bounds the depth.
    // NOLINTNEXTLINE(misc-no-recursion)
    bool read_value() {
        tokens_.skip_spaces();
        switch (tokens_.peek()) {
            case '{':
                return handler_.start_object() && read_members() && handler_.end_object();
            case '[':
                return handler_.start_array() && read_elements() && handler_.end_array();
            case '"':
                return tokens_.take_string(text_) && handler_.string(text_);
            case 't':
                return tokens_.take_word("true") && handler_.boolean(true);
            case 'f':
                return tokens_.take_word("false") && handler_.boolean(false);
            case 'n':
                return tokens_.take_word("null") && handler_.null();
            default:
                return read_number();
        }
    }

    bool read_number() {
        JsonNumber number;
        if (!tokens_.take_number(number)) return false;
        switch (number.kind) {
            case JsonNumber::Kind::natural:
                return handler_.natural(number.natural);
            case JsonNumber::Kind::negative:
                return handler_.negative(number.negative);
            case JsonNumber::Kind::fraction:
                return handler_.fraction(number.fraction);
        }
        return false;
    }

    // NOLINTNEXTLINE(misc-no-recursion)
    bool read_members() {
        if (is_empty('}')) return true;
        do {
            tokens_.skip_spaces();
            if (tokens_.peek() != '"') return tokens_.wrong("a key in quotes is missing");
            if (!tokens_.take_string(text_) || !handler_.key(text_)) return false;
            tokens_.skip_spaces();
            if (tokens_.peek() != ':') return tokens_.wrong("a colon is missing behind a key");
            tokens_.advance();
            if (!read_value()) return false;
        } while (goes_on());
        return takes('}') || tokens_.wrong("a comma or } is missing");
    }

    // NOLINTNEXTLINE(misc-no-recursion)
    bool read_elements() {
        if (is_empty(']')) return true;
        do {
            if (!read_value()) return false;
        } while (goes_on());
        return takes(']') || tokens_.wrong("a comma or ] is missing");
    }

    // Behind the bracket that opens.
    bool is_empty(char end) {
        tokens_.advance();
        return takes(end);
    }

    bool goes_on() { return takes(','); }

    bool takes(char c) {
        tokens_.skip_spaces();
        if (tokens_.is_at_end() || tokens_.peek() != c) return false;
        tokens_.advance();
        return true;
    }

    JsonTokens& tokens_;
    Handler& handler_;
    std::string text_;  // of a key or a string
};

}  // namespace tandem::format
