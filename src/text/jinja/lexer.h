// Cuts a template into tokens, and applies the whitespace rules of trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::text::jinja {

enum class TokenType : uint8_t {
    text,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    real,
    symbol,  // an operator or bracket: Token::text
    end,
};

struct Token {
    TokenType type = TokenType::end;
    int line = 1;
    std::string text;  // of text, names, strings (without quotes and escapes) and symbols
    int64_t integer = 0;
    double real = 0;

    bool is(TokenType t) const { return type == t; }
    bool is_name(std::string_view name) const { return type == TokenType::name && text == name; }
    bool is_symbol(std::string_view symbol) const { return type == TokenType::symbol && text == symbol; }
};

// "chat template, line 12: ..."
Error error_at(int line, std::string_view message);

// The last token is always an end.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace tandem::text::jinja
