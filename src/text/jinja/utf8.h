// Code points of UTF-8 text, with the properties that Python's string methods ask for.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem::text::jinja::utf8 {

// The code point at pos, which moves past it. The text is valid and pos is at a code point.
char32_t next(std::string_view text, size_t& pos);

size_t length(std::string_view text);
// The byte where code point n starts, or the end of the text if it has fewer.
size_t offset(std::string_view text, size_t n);

bool is_space(char32_t c);
bool is_line_break(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_word(char32_t c);  // \w of a regular expression
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_printable(char32_t c);

// Case mapping of whole characters: some become two.
void append_upper(std::string& out, char32_t c);
void append_lower(std::string& out, char32_t c);
void append_folded(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);

// As std::string_view::find, but in linear time also for the worst text and needle.
size_t find(std::string_view text, std::string_view needle, size_t from = 0);

std::string_view trim_left(std::string_view text);
std::string_view trim_right(std::string_view text);

}  // namespace tandem::text::jinja::utf8
