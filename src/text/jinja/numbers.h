// Numbers as text: reading what Python's int() and float() read, and rounding as round() does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::text::jinja {

// Nothing when the text is not a number. An integer out of 64 bits is not a number either.
std::optional<int64_t> parse_integer(std::string_view text, int base);
std::optional<double> parse_real(std::string_view text);

// What printf would write for %.<precision><type>, with type one of e f g E F G.
std::string format_real(double value, int precision, char type);

// Rounded to a number of decimals (which may be negative), half to even on the exact value.
double round_real(double value, int64_t decimals);

}  // namespace tandem::text::jinja
