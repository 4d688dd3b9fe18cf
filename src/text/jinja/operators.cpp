#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/native.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"

namespace tandem::text::jinja {

namespace {

constexpr std::string_view symbol(BinaryOp op) {
    constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
    return kSymbols[static_cast<int>(op)];
}

constexpr std::string_view symbol(CompareOp op) {
    constexpr std::string_view kSymbols[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    return kSymbols[static_cast<int>(op)];
}

Result<bool> equal_lists(Runtime& rt, const std::vector<Value>& a, const std::vector<Value>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); i++) {
        if (!TRY(equal(rt, a[i], b[i]))) return false;
    }
    return true;
}

Result<bool> equal_dicts(Runtime& rt, const DictObject& a, const DictObject& b) {
    if (a.entries.size() != b.entries.size()) return false;
    for (const auto& [key, value] : a.entries) {
        const Value* other = b.find(key);
        if (!other) return false;
        if (!TRY(equal(rt, value, *other))) return false;
    }
    return true;
}

bool equal_ranges(const RangeObject& a, const RangeObject& b) {
    if (a.count != b.count) return false;
    return a.count == 0 || (a.start == b.start && (a.count == 1 || a.step == b.step));
}

Result<bool> equal_views(Runtime& rt, const ViewObject& a, const ViewObject& b) {
    if (a.of != b.of || a.of == ViewOf::values) return false;
    const auto& x = a.dict.get<DictObject>();
    const auto& y = b.dict.get<DictObject>();
    if (a.of == ViewOf::items) return equal_dicts(rt, x, y);
    TRY(rt.step(x.entries.size()));
    return x.entries.size() == y.entries.size() &&
           std::all_of(x.entries.begin(), x.entries.end(), [&](const Entry& e) { return y.find(e.first) != nullptr; });
}

bool is_nan(const Value& v) {
    return v.is(Kind::real) && std::isnan(v.as_real());
}

// -1, 0 or 1; nothing where the two have no order at all (NaN).
Result<std::optional<int>> order(Runtime& rt, CompareOp op, const Value& a, const Value& b) {
    TRY(rt.step());
    if (a.is(Kind::undefined)) return undefined_error(a);
    if (b.is(Kind::undefined)) return undefined_error(b);
    if (a.is_number() && b.is_number()) {
        if (is_nan(a) || is_nan(b)) return std::optional<int>();
        return std::optional<int>(compare_numbers(a, b));
    }
    if (a.is(Kind::string) && b.is(Kind::string)) {
        TRY(rt.copy(std::min(a.text().size(), b.text().size())));
        return std::optional<int>(a.text().compare(b.text()));
    }
    if ((a.is(Kind::list) || a.is(Kind::tuple)) && a.kind() == b.kind()) {
        const auto& x = a.items();
        const auto& y = b.items();
        for (size_t i = 0; i < x.size() && i < y.size(); i++) {
            if (!TRY(equal(rt, x[i], y[i]))) return order(rt, op, x[i], y[i]);
        }
        return std::optional<int>(x.size() < y.size() ? -1 : x.size() > y.size());
    }
    return fail("'{}' not supported between instances of '{}' and '{}'", symbol(op), type_name(a), type_name(b));
}

Error unsupported(BinaryOp op, const Value& a, const Value& b) {
    if (a.is(Kind::undefined)) return undefined_error(a);
    if (b.is(Kind::undefined)) return undefined_error(b);
    return fail("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a), type_name(b));
}

Error overflow(BinaryOp op) {
    return fail("the result of {} does not fit in a 64-bit integer", symbol(op));
}

Result<Value> power(int64_t base, int64_t exponent) {
    int64_t result = 1;
    while (exponent > 0) {
        if (exponent & 1) {
            if (__builtin_mul_overflow(result, base, &result)) return overflow(BinaryOp::power);
        }
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow(BinaryOp::power);
    }
    return Value::integer(result);
}

Result<Value> integer_arithmetic(BinaryOp op, int64_t a, int64_t b) {
    int64_t result = 0;
    bool overflowed = false;
    switch (op) {
        case BinaryOp::add:
            overflowed = __builtin_add_overflow(a, b, &result);
            break;
        case BinaryOp::subtract:
            overflowed = __builtin_sub_overflow(a, b, &result);
            break;
        case BinaryOp::multiply:
            overflowed = __builtin_mul_overflow(a, b, &result);
            break;
        case BinaryOp::divide:
            if (b == 0) return fail("division by zero");
            return Value::real(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
        case BinaryOp::floor_divide:
            if (b == 0) return fail("integer division or modulo by zero");
            if (b == -1) return integer_arithmetic(BinaryOp::subtract, 0, a);
            result = a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
            break;
        case BinaryOp::modulo:
            if (b == 0) return fail("integer division or modulo by zero");
            result = b == -1 ? 0 : a % b;
            if (result != 0 && (result < 0) != (b < 0)) result += b;
            break;
        case BinaryOp::power:
            if (b >= 0) return power(a, b);
            if (a == 0) return fail("0.0 cannot be raised to a negative power");
            return Value::real(std::pow(static_cast<double>(a), static_cast<double>(b)));
    }
    if (overflowed) return overflow(op);
    return Value::integer(result);
}

Result<Value> real_power(double a, double b) {
    if (a == 0 && b < 0) return fail("0.0 cannot be raised to a negative power");
    double result = std::pow(a, b);
    if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) {
        return fail("a negative number cannot be raised to a fractional power");
    }
    if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) return fail("the result of ** is too large");
    return Value::real(result);
}

// Quotient rounded down, and a remainder with the sign of the divisor, such that a == quotient * b + remainder.
std::pair<double, double> floor_divide(double a, double b) {
    double remainder = std::fmod(a, b);
    double quotient = (a - remainder) / b;
    if (remainder != 0) {
        if ((b < 0) != (remainder < 0)) {
            remainder += b;
            quotient -= 1.0;
        }
    } else {
        remainder = std::copysign(0.0, b);
    }
    if (quotient == 0) return {std::copysign(0.0, a / b), remainder};
    double whole = std::floor(quotient);
    if (quotient - whole > 0.5) whole += 1.0;
    return {whole, remainder};
}

Result<Value> real_arithmetic(BinaryOp op, double a, double b) {
    switch (op) {
        case BinaryOp::add:
            return Value::real(a + b);
        case BinaryOp::subtract:
            return Value::real(a - b);
        case BinaryOp::multiply:
            return Value::real(a * b);
        case BinaryOp::divide:
            if (b == 0) return fail("float division by zero");
            return Value::real(a / b);
        case BinaryOp::floor_divide:
            if (b == 0) return fail("float floor division by zero");
            return Value::real(floor_divide(a, b).first);
        case BinaryOp::modulo:
            if (b == 0) return fail("float modulo");
            return Value::real(floor_divide(a, b).second);
        case BinaryOp::power:
            return real_power(a, b);
    }
    return Value();
}

Result<Value> concatenate(Runtime& rt, const Value& a, const Value& b) {
    bool safe = a.is_safe() || b.is_safe();
    TextBuilder out(rt);
    for (const Value* v : {&a, &b}) {
        if (safe && !v->is_safe()) {
            TRY(rt.room(6 * v->text().size()));
            TRY(out.add(escape_html(v->text())));
        } else {
            TRY(out.add(v->text()));
        }
    }
    return out.finish(safe);
}

Result<Value> sequence_of(Runtime& rt, Kind kind, std::vector<Value> items) {
    return kind == Kind::list ? rt.list(std::move(items)) : rt.tuple(std::move(items));
}

Result<Value> add(Runtime& rt, const Value& a, const Value& b) {
    if (a.is(Kind::string) && b.is(Kind::string)) return concatenate(rt, a, b);
    if ((a.is(Kind::list) || a.is(Kind::tuple)) && a.kind() == b.kind()) {
        TRY(rt.room((a.items().size() + b.items().size()) * sizeof(Value)));
        std::vector<Value> items = a.items();
        items.insert(items.end(), b.items().begin(), b.items().end());
        return sequence_of(rt, a.kind(), std::move(items));
    }
    if (a.is(Kind::string) && !b.is(Kind::undefined)) {
        return fail("can only concatenate str (not \"{}\") to str: convert it with the filter string, or use ~",
                    type_name(b));
    }
    return unsupported(BinaryOp::add, a, b);
}

Result<Value> repeat(Runtime& rt, const Value& sequence, int64_t times) {
    size_t n = times > 0 ? static_cast<size_t>(times) : 0;
    auto too_much = [&](size_t unit) { return unit > 0 && n > rt.limits().value_bytes / unit; };
    if (sequence.is(Kind::string)) {
        const std::string& text = sequence.text();
        if (too_much(text.size())) return fail("a string repeated {} times is too large", times);
        TRY(rt.room(text.size() * n));
        std::string out;
        out.reserve(text.size() * n);
        for (size_t i = 0; i < n && !text.empty(); i++) out += text;
        return rt.string(std::move(out), sequence.is_safe());
    }
    const auto& items = sequence.items();
    if (too_much(items.size() * sizeof(Value))) return fail("a list repeated {} times is too large", times);
    TRY(rt.room(items.size() * sizeof(Value) * n));
    std::vector<Value> out;
    out.reserve(items.size() * n);
    for (size_t i = 0; i < n && !items.empty(); i++) out.insert(out.end(), items.begin(), items.end());
    return sequence_of(rt, sequence.kind(), std::move(out));
}

bool is_repeatable(const Value& v) {
    return v.is(Kind::string) || v.is(Kind::list) || v.is(Kind::tuple);
}

}  // namespace

Error undefined_error(const Value& value) {
    if (!value.object()) return fail("a value is undefined");
    return Error{value.get<StringObject>().text};
}

bool truth(const Value& value) {
    switch (value.kind()) {
        case Kind::undefined:
        case Kind::none:
            return false;
        case Kind::boolean:
        case Kind::integer:
            return value.as_integer() != 0;
        case Kind::real:
            return value.as_real() != 0;
        case Kind::string:
            return !value.text().empty();
        case Kind::list:
        case Kind::tuple:
            return !value.items().empty();
        case Kind::dict:
            return !value.get<DictObject>().entries.empty();
        case Kind::range:
            return value.get<RangeObject>().count > 0;
        case Kind::view:
            return truth(value.get<ViewObject>().dict);
        default:
            return true;
    }
}

Result<bool> equal(Runtime& rt, const Value& a, const Value& b) {
    TRY(rt.step());
    if (a.is_number() && b.is_number()) return !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
    if (a.kind() != b.kind()) return false;
    if (a.object() == b.object()) return true;
    switch (a.kind()) {
        case Kind::undefined:
        case Kind::none:
            return true;
        case Kind::string:
            if (a.text().size() != b.text().size()) return false;
            TRY(rt.copy(a.text().size()));
            return a.text() == b.text();
        case Kind::list:
        case Kind::tuple:
            return equal_lists(rt, a.items(), b.items());
        case Kind::dict:
            return equal_dicts(rt, a.get<DictObject>(), b.get<DictObject>());
        case Kind::range:
            return equal_ranges(a.get<RangeObject>(), b.get<RangeObject>());
        case Kind::view:
            return equal_views(rt, a.get<ViewObject>(), b.get<ViewObject>());
        case Kind::method:
            return a.get<MethodObject>().native == b.get<MethodObject>().native &&
                   a.get<MethodObject>().self.object() == b.get<MethodObject>().self.object();
        default:
            return false;
    }
}

Result<bool> compare(Runtime& rt, CompareOp op, const Value& a, const Value& b) {
    switch (op) {
        case CompareOp::equal:
            return equal(rt, a, b);
        case CompareOp::not_equal:
            return !TRY(equal(rt, a, b));
        case CompareOp::in:
            return contains(rt, b, a);
        case CompareOp::not_in:
            return !TRY(contains(rt, b, a));
        default:
            break;
    }
    std::optional<int> c = TRY(order(rt, op, a, b));
    if (!c) return false;
    switch (op) {
        case CompareOp::less:
            return *c < 0;
        case CompareOp::less_equal:
            return *c <= 0;
        case CompareOp::greater:
            return *c > 0;
        default:
            return *c >= 0;
    }
}

Result<bool> contains(Runtime& rt, const Value& container, const Value& item) {
    switch (container.kind()) {
        case Kind::string:
            if (item.is(Kind::undefined)) return undefined_error(item);
            if (!item.is(Kind::string)) {
                return fail("'in <string>' requires string as left operand, not {}", type_name(item));
            }
            TRY(rt.copy(container.text().size()));
            return utf8::find(container.text(), item.text()) != std::string::npos;
        case Kind::dict:
            if (key_weight(item) == 0) return fail("unhashable type: '{}'", type_name(item));
            TRY(rt.step());
            return container.get<DictObject>().find(item) != nullptr;
        default: {
            if (!is_iterable(container)) return fail("argument of type '{}' is not iterable", type_name(container));
            for (const Value& v : TRY(iterate(rt, container))) {
                if (TRY(equal(rt, v, item))) return true;
            }
            return false;
        }
    }
}

Result<Value> binary(Runtime& rt, BinaryOp op, const Value& a, const Value& b) {
    if (a.is_integer() && b.is_integer()) return integer_arithmetic(op, a.as_integer(), b.as_integer());
    if (a.is_number() && b.is_number()) return real_arithmetic(op, a.as_real(), b.as_real());
    if (op == BinaryOp::add) return add(rt, a, b);
    if (op == BinaryOp::multiply && is_repeatable(a) && b.is_integer()) return repeat(rt, a, b.as_integer());
    if (op == BinaryOp::multiply && is_repeatable(b) && a.is_integer()) return repeat(rt, b, a.as_integer());
    if (op == BinaryOp::modulo && a.is(Kind::string)) return format_percent(rt, a, b);
    return unsupported(op, a, b);
}

Result<Value> negate(const Value& value) {
    if (value.is(Kind::real)) return Value::real(-value.as_real());
    if (value.is_integer()) return integer_arithmetic(BinaryOp::subtract, 0, value.as_integer());
    if (value.is(Kind::undefined)) return undefined_error(value);
    return fail("bad operand type for unary -: '{}'", type_name(value));
}

Result<Value> posit(const Value& value) {
    if (value.is(Kind::real)) return value;
    if (value.is_integer()) return Value::integer(value.as_integer());
    if (value.is(Kind::undefined)) return undefined_error(value);
    return fail("bad operand type for unary +: '{}'", type_name(value));
}

}  // namespace tandem::text::jinja
