#include "text/jinja/numbers.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/jinja/utf8.h"

namespace tandem::text::jinja {

namespace {

std::string_view trimmed(std::string_view text) {
    return utf8::trim_right(utf8::trim_left(text));
}

bool is_alnum(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Without the underscores that may stand between two digits, or nothing if one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] != '_') {
            out += text[i];
            continue;
        }
        if (i == 0 || i + 1 == text.size() || !is_alnum(text[i - 1]) || !is_alnum(text[i + 1])) return std::nullopt;
    }
    return out;
}

// Removes 0x, 0o or 0b where the base allows it, and gives the base they mean.
int take_prefix(std::string_view& digits, int base) {
    if (digits.size() < 2 || digits[0] != '0') return base == 0 ? 10 : base;
    char letter = static_cast<char>(digits[1] | 0x20);
    int meant = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (meant == 0 || (base != 0 && base != meant)) return base == 0 ? 10 : base;
    digits.remove_prefix(2);
    return meant;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text, int base) {
    text = trimmed(text);
    bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    bool automatic = base == 0;
    bool leading_zero = text.starts_with('0');
    std::string_view rest = text;
    base = take_prefix(rest, base);
    bool prefixed = rest.size() != text.size();
    if (prefixed && rest.starts_with('_')) rest.remove_prefix(1);
    auto digits = without_underscores(rest);
    if (!digits || digits->empty()) return std::nullopt;
    // An unsigned number with the sign in front, so that the smallest integer can be read.
    std::string with_sign = (negative ? "-" : "") + *digits;
    if (!is_alnum((*digits)[0])) return std::nullopt;
    int64_t value = 0;
    const char* end = with_sign.data() + with_sign.size();
    auto [ptr, error] = std::from_chars(with_sign.data(), end, value, base);
    if (error != std::errc() || ptr != end) return std::nullopt;
    if (automatic && leading_zero && !prefixed && value != 0) return std::nullopt;  // int("010", 0) is an error
    return value;
}

std::optional<double> parse_real(std::string_view text) {
    text = trimmed(text);
    auto plain = without_underscores(text);
    if (!plain || plain->empty()) return std::nullopt;
    std::string_view digits = *plain;
    if (digits.starts_with('+')) digits.remove_prefix(1);
    if (digits.empty() || digits.starts_with('+')) return std::nullopt;
    double value = 0;
    const char* end = digits.data() + digits.size();
    auto [ptr, error] = std::from_chars(digits.data(), end, value);
    if (ptr != end) return std::nullopt;
    if (error == std::errc::result_out_of_range) return std::strtod(std::string(digits).c_str(), nullptr);
    if (error != std::errc()) return std::nullopt;
    if (std::isnan(value) && digits.find('(') != std::string_view::npos) return std::nullopt;
    return value;
}

std::string format_real(double value, int precision, char type) {
    char format[] = {'%', '.', '*', type, '\0'};
    int size = std::snprintf(nullptr, 0, format, precision, value);
    std::string out(static_cast<size_t>(size) + 1, '\0');
    std::snprintf(out.data(), out.size(), format, precision, value);
    out.pop_back();
    return out;
}

double round_real(double value, int64_t decimals) {
    constexpr int64_t kAllDigits = 323;  // no double has more decimals that matter
    if (!std::isfinite(value) || decimals > kAllDigits) return value;
    if (decimals < -308) return std::copysign(0.0, value);
    if (decimals >= 0) {
        return std::strtod(format_real(value, static_cast<int>(decimals), 'f').c_str(), nullptr);
    }
    // Whole numbers: round the exact decimal digits at a power of ten.
    double unit = std::pow(10.0, static_cast<double>(-decimals));
    return std::nearbyint(value / unit) * unit;
}

}  // namespace tandem::text::jinja
