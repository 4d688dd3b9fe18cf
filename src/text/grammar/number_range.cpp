#include "text/grammar/number_range.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

namespace tandem::text::grammar {

namespace {

constexpr int kDoubleDigits = 15;  // decimals of so many digits are told apart as doubles
constexpr int kInt64Digits = 18;   // and so many fit in 64 bits
constexpr int kUsualDigits = 9;    // of a number bounded on one side only
constexpr int kUsualFraction = 6;
constexpr int64_t kMaxModulus = 100;

int64_t power_of_ten(int exponent) {
    int64_t power = 1;
    for (int i = 0; i < exponent; ++i) power *= 10;
    return power;
}

int digits_of(int64_t value) {
    int digits = 1;
    for (; value >= 10; value /= 10) ++digits;
    return digits;
}

// |value| * 10^shift rounded down, and whether that left something off. Past 18 digits: the largest of 18 digits.
struct Scaled {
    int64_t value = 0;
    bool rounded = false;
};

Scaled scale(const Decimal& decimal, int shift) {
    Scaled scaled;
    if (decimal.digits.empty()) return scaled;
    const int kept = decimal.integer_digits() + shift;
    if (kept > kInt64Digits) return {power_of_ten(kInt64Digits) - 1, false};
    for (int i = 0; i < kept; ++i) {
        const auto at = static_cast<size_t>(i);
        scaled.value = scaled.value * 10 + (at < decimal.digits.size() ? decimal.digits[at] - '0' : 0);
    }
    const auto dropped = static_cast<size_t>(std::max(kept, 0));
    scaled.rounded =
        dropped < decimal.digits.size() && decimal.digits.find_first_not_of('0', dropped) != std::string::npos;
    return scaled;
}

int64_t ceiling(const Decimal& decimal, int shift, bool exclusive) {
    const Scaled scaled = scale(decimal, shift);
    const int64_t up = scaled.rounded && !decimal.negative ? 1 : 0;
    const int64_t value = decimal.negative ? -scaled.value : scaled.value + up;
    return value + (exclusive && !scaled.rounded ? 1 : 0);
}

int64_t floor(Decimal decimal, int shift, bool exclusive) {
    decimal.negative = !decimal.negative;
    return -ceiling(decimal, shift, exclusive);
}

// Texts of whole numbers, a dot some digits before their end, that are multiples of a modulus.
class DigitTexts {
  public:
    DigitTexts(Grammar& grammar, int fraction, int64_t modulus)
        : grammar_(grammar), fraction_(fraction), modulus_(modulus) {}

    // Not negative; nothing when low > high.
    std::vector<NodeId> range(int64_t low, int64_t high) {
        std::vector<NodeId> options;
        for (int length = fraction_ + 1; length <= std::max(digits_of(high), fraction_ + 1); ++length) {
            const int64_t least = length == fraction_ + 1 ? 0 : power_of_ten(length - 1);
            const int64_t from = std::max(low, least);
            const int64_t to = std::min(high, power_of_ten(length) - 1);
            if (from <= to) options.push_back(between(written(from, length), written(to, length), 0, 0));
        }
        return options;
    }

  private:
    static std::string written(int64_t value, int length) {
        std::string digits = std::to_string(value);
        return std::string(static_cast<size_t>(length) - digits.size(), '0') + digits;
    }

    NodeId digit(char first, char last) {
        const auto [known, is_new] = digit_nodes_.try_emplace({first, last});
        if (is_new) known->second = grammar_.characters({{static_cast<uint32_t>(first), static_cast<uint32_t>(last)}});
        return known->second;
    }

    int64_t after(int64_t remainder, char c) const { return (remainder * 10 + (c - '0')) % modulus_; }

    NodeId digits(size_t count) {
        return grammar_.repeat(digit('0', '9'), static_cast<uint32_t>(count), static_cast<uint32_t>(count));
    }

    // What follows when so many digits are left, with the dot if it stands here.
    NodeId with_dot(size_t left, NodeId rest) {
        if (fraction_ == 0 || left != static_cast<size_t>(fraction_)) return rest;
        return grammar_.sequence({grammar_.literal("."), rest});
    }

    // The digits from `pos` on: from those of low to those of high.
    NodeId between(std::string_view low, std::string_view high, size_t pos, int64_t remainder) {
        const size_t left = low.size() - pos;
        if (low.find_first_not_of('0', pos) == std::string_view::npos &&
            high.find_first_not_of('9', pos) == std::string_view::npos) {
            return tail(left, remainder);
        }
        std::vector<NodeId> options;
        const char first = low[pos];
        const char last = high[pos];
        const std::string nines(low.size(), '9');
        const std::string zeros(low.size(), '0');
        if (first == last) {
            options.push_back(lead(first, left, between(low, high, pos + 1, after(remainder, first))));
        } else {
            options.push_back(lead(first, left, between(low, nines, pos + 1, after(remainder, first))));
            options.push_back(lead(last, left, between(zeros, high, pos + 1, after(remainder, last))));
            if (modulus_ == 1 && last - first > 1) {
                const NodeId middle = digit(static_cast<char>(first + 1), static_cast<char>(last - 1));
                options.push_back(with_dot(left, grammar_.sequence({middle, tail(left - 1, 0)})));
            }
            for (char c = static_cast<char>(first + 1); modulus_ > 1 && c < last; ++c) {
                options.push_back(lead(c, left, tail(left - 1, after(remainder, c))));
            }
        }
        return grammar_.choice(options);
    }

    NodeId lead(char c, size_t left, NodeId rest) { return with_dot(left, grammar_.sequence({digit(c, c), rest})); }

    NodeId tail(size_t left, int64_t remainder) { return with_dot(left, any(left, remainder)); }

    // Any digits that make it a multiple; the dot before the first of them is the caller's.
    NodeId any(size_t left, int64_t remainder) {
        if (left == 0) return remainder == 0 ? Grammar::empty() : grammar_.nothing();
        if (modulus_ == 1) {
            const size_t fraction = std::min(left, static_cast<size_t>(fraction_));
            const size_t whole = left - fraction;
            if (whole == 0) return digits(fraction);
            return grammar_.sequence({digits(whole), with_dot(fraction, digits(fraction))});
        }
        const auto known = uses_.find({left, remainder});
        if (known != uses_.end()) return known->second;
        const RuleId rule = grammar_.add_rule({});
        const NodeId use = grammar_.use(rule);
        uses_[{left, remainder}] = use;
        std::vector<NodeId> options;
        options.reserve(10);
        for (char c = '0'; c <= '9' && !grammar_.full(); ++c) {
            options.push_back(grammar_.sequence({digit(c, c), tail(left - 1, after(remainder, c))}));
        }
        grammar_.define(rule, grammar_.choice(options));
        return use;
    }

    Grammar& grammar_;
    int fraction_;
    int64_t modulus_;
    std::map<std::pair<size_t, int64_t>, NodeId> uses_;  // of rules, by digits left and remainder
    std::map<std::pair<char, char>, NodeId> digit_nodes_;
};

// How the multiples look at each number of fraction digits.
struct Multiple {
    int64_t factor = 1;  // times 10^-fraction
    int fraction = 0;

    // What the number without its dot must be a multiple of.
    int64_t modulus(int fraction_digits) const {
        const int64_t shift = power_of_ten(fraction - fraction_digits);
        return factor / std::gcd(factor, shift);
    }
};

Result<Multiple> read_multiple(const Decimal& decimal) {
    Decimal reduced = decimal;
    while (reduced.digits.ends_with('0')) {
        reduced.digits.pop_back();
        ++reduced.exponent;
    }
    const int fraction = reduced.fraction_digits();
    if (reduced.negative || reduced.digits.empty()) return fail("multipleOf must be above 0");
    const Scaled factor = scale(reduced, fraction);
    if (fraction > kUsualFraction || factor.value > kMaxModulus) {
        return fail("only multiples of up to {} units of the last of at most {} decimals are supported", kMaxModulus,
                    kUsualFraction);
    }
    return Multiple{factor.value, fraction};
}

// A bound so far out that every number we write is within it is none.
bool is_beyond(const std::optional<Decimal>& bound, int digits, bool negative) {
    return bound && !bound->digits.empty() && bound->negative == negative && bound->integer_digits() > digits;
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
    Decimal decimal;
    if (text.starts_with('-')) {
        decimal.negative = true;
        text.remove_prefix(1);
    }
    bool past_dot = false;
    size_t at = 0;
    for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
        if (text[at] == '.') {
            if (past_dot) return std::nullopt;
            past_dot = true;
            continue;
        }
        if (text[at] < '0' || text[at] > '9') return std::nullopt;
        decimal.digits += text[at];
        if (past_dot) --decimal.exponent;
    }
    if (decimal.digits.empty()) return std::nullopt;
    if (at < text.size()) {
        ++at;
        if (at < text.size() && text[at] == '+') ++at;
        int exponent = 0;
        const char* end = text.data() + text.size();
        const auto result = std::from_chars(text.data() + at, end, exponent);
        if (result.ec != std::errc() || result.ptr != end || std::abs(exponent) > 10'000) return std::nullopt;
        decimal.exponent += exponent;
    }
    while (!decimal.digits.empty() && decimal.digits.back() == '0') {
        decimal.digits.pop_back();
        ++decimal.exponent;
    }
    decimal.digits.erase(0, decimal.digits.find_first_not_of('0'));
    if (decimal.digits.empty()) decimal.negative = false;
    return decimal;
}

Result<NodeId> number_in_bounds(Grammar& grammar, const NumberBounds& bounds) {
    NumberBounds used = bounds;
    const int most_digits = bounds.integer ? kInt64Digits : kDoubleDigits;
    if (is_beyond(used.min, most_digits, true)) used.min.reset();
    if (is_beyond(used.max, most_digits, false)) used.max.reset();
    if (is_beyond(used.min, most_digits, false) || is_beyond(used.max, most_digits, true)) {
        return fail("numbers of more than {} digits are not supported", most_digits);
    }
    int digits = 1;
    for (const auto& bound : {used.min, used.max}) {
        if (bound) digits = std::max(digits, bound->integer_digits());
    }
    const bool is_plain_integer = bounds.integer && !bounds.multiple_of;
    if (!used.min || !used.max) digits = std::max(digits, is_plain_integer ? kDoubleDigits : kUsualDigits);
    const Decimal limit{.digits = std::string(static_cast<size_t>(digits), '9')};
    if (!used.max) used.max = limit;
    if (!used.min) {
        used.min = limit;
        used.min->negative = true;
    }

    Multiple multiple;
    if (used.multiple_of) multiple = TRY(read_multiple(*used.multiple_of));
    int most_fraction = std::max({kUsualFraction, used.min->fraction_digits(), used.max->fraction_digits()}) + 1;
    most_fraction = std::min(most_fraction, kDoubleDigits - digits);
    if (used.multiple_of) most_fraction = std::min(most_fraction, multiple.fraction);
    if (used.integer || most_fraction < 0) most_fraction = 0;

    std::vector<NodeId> options;
    for (int fraction = 0; fraction <= most_fraction; ++fraction) {
        const int64_t modulus = used.multiple_of ? multiple.modulus(fraction) : 1;
        const int64_t low = ceiling(*used.min, fraction, used.exclusive_min && bounds.min.has_value());
        const int64_t high = floor(*used.max, fraction, used.exclusive_max && bounds.max.has_value());
        DigitTexts texts(grammar, fraction, modulus);
        for (const NodeId option : texts.range(std::max<int64_t>(low, 0), high)) options.push_back(option);
        std::vector<NodeId> negative = texts.range(std::max<int64_t>(-high, 1), -low);
        if (negative.empty()) continue;
        options.push_back(grammar.sequence({grammar.literal("-"), grammar.choice(negative)}));
    }
    return grammar.shared(grammar.choice(options));
}

}  // namespace tandem::text::grammar
