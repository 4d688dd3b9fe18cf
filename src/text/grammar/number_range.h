// Number texts within bounds, digit by digit and exact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "text/grammar/grammar.h"

namespace tandem::text::grammar {

// digits * 10^exponent, exactly.
struct Decimal {
    bool negative = false;
    std::string digits;  // without leading zeros; empty: zero
    int exponent = 0;

    // Of a JSON number; nothing for what is none.
    static std::optional<Decimal> parse(std::string_view text);
    int integer_digits() const { return static_cast<int>(digits.size()) + exponent; }
    int fraction_digits() const { return exponent < 0 && !digits.empty() ? -exponent : 0; }
};

struct NumberBounds {
    std::optional<Decimal> min, max;
    bool exclusive_min = false;
    bool exclusive_max = false;
    bool integer = false;
    std::optional<Decimal> multiple_of;
};

// Numbers without exponent, of up to 15 digits (18 for integers with bounds that large), so that a reader that takes
// them for doubles sees them within the bounds as well.
Result<NodeId> number_in_bounds(Grammar& grammar, const NumberBounds& bounds);

}  // namespace tandem::text::grammar
