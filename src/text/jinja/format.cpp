// str % values and str.format(): one idea of a field (fill, align, sign, width, precision), two syntaxes.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "text/jinja/native.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"
#include "text/utf8.h"

namespace tandem::text::jinja {

namespace {

constexpr int64_t kMaxWidth = 100'000;
constexpr int64_t kMaxPrecision = 1000;

struct Field {
    std::string fill = " ";
    char align = 0;  // < > = ^, or 0: as the type has it
    char sign = '-';
    bool alternate = false;
    char grouping = 0;
    int64_t width = 0;
    std::optional<int64_t> precision = {};
    char type = 0;
};

// Sign (or prefix) and digits, filled to the width.
Status put_number(TextBuilder& out, const Field& field, std::string_view prefix, std::string_view digits) {
    size_t size = utf8::length(prefix) + utf8::length(digits);
    size_t missing = static_cast<size_t>(field.width) > size ? static_cast<size_t>(field.width) - size : 0;
    char align = field.align ? field.align : '>';
    size_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    size_t inner = align == '=' ? missing : 0;
    auto pad = [&](size_t n) -> Status {
        for (size_t i = 0; i < n; i++) TRY(out.add(field.fill));
        return Ok{};
    };
    TRY(pad(left));
    TRY(out.add(prefix));
    TRY(pad(inner));
    TRY(out.add(digits));
    return pad(missing - left - inner);
}

Status put_text(TextBuilder& out, const Field& field, std::string_view text) {
    if (field.precision) text = text.substr(0, utf8::offset(text, static_cast<size_t>(*field.precision)));
    Field aligned = field;
    if (!field.align) aligned.align = '<';
    return put_number(out, aligned, "", text);
}

std::string sign_of(bool negative, char sign) {
    if (negative) return "-";
    return sign == '-' ? "" : std::string(1, sign);
}

std::string in_base(uint64_t magnitude, unsigned base, bool capital) {
    const char* digits = capital ? "0123456789ABCDEF" : "0123456789abcdef";
    std::string out;
    do {
        out += digits[magnitude % base];
        magnitude /= base;
    } while (magnitude > 0);
    std::reverse(out.begin(), out.end());
    return out;
}

// 1234567.5 -> 1,234,567.5
std::string grouped(const std::string& number, char separator, size_t every) {
    size_t whole = number.find_first_not_of("0123456789abcdefABCDEF");
    if (every == 3) whole = number.find_first_not_of("0123456789");
    if (whole == std::string::npos) whole = number.size();
    std::string out;
    for (size_t i = 0; i < whole; i++) {
        if (i > 0 && (whole - i) % every == 0) out += separator;
        out += number[i];
    }
    return out + number.substr(whole);
}

Status put_integer(TextBuilder& out, const Field& field, int64_t value) {
    uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    std::string prefix = sign_of(value < 0, field.sign);
    unsigned base = 10;
    switch (field.type) {
        case 'b':
            base = 2;
            break;
        case 'o':
            base = 8;
            break;
        case 'x':
        case 'X':
            base = 16;
            break;
        default:
            break;
    }
    if (field.alternate && base != 10) prefix += std::string("0") + field.type;
    std::string digits = in_base(magnitude, base, field.type == 'X');
    if (field.grouping) digits = grouped(digits, field.grouping, base == 10 ? 3 : 4);
    return put_number(out, field, prefix, digits);
}

std::string real_digits(double magnitude, const Field& field) {
    bool capital = field.type >= 'A' && field.type <= 'Z';
    if (!std::isfinite(magnitude)) {
        std::string text = std::isnan(magnitude) ? (capital ? "NAN" : "nan") : (capital ? "INF" : "inf");
        return field.type == '%' ? text + "%" : text;
    }
    auto precision = static_cast<int>(field.precision.value_or(6));
    if (field.type == '%') return format_real(magnitude * 100, precision, 'f') + "%";
    if (field.type == 0) {
        if (!field.precision) return real_repr(magnitude);
        std::string text = format_real(magnitude, std::max(precision, 1), 'g');
        return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
    }
    return format_real(magnitude, precision, field.type == 'n' ? 'g' : field.type);
}

Status put_real(TextBuilder& out, const Field& field, double value) {
    bool negative = std::signbit(value) && !std::isnan(value);
    std::string digits = real_digits(std::fabs(value), field);
    if (field.grouping) digits = grouped(digits, field.grouping, 3);
    return put_number(out, field, sign_of(negative, field.sign), digits);
}

Result<std::string> character(int64_t code) {
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
        return fail("{} is not the code of a character", code);
    }
    std::string out;
    append_utf8(out, static_cast<char32_t>(code));
    return out;
}

// repr() with everything outside ASCII escaped is not offered: !a and %a give repr().
Result<std::string> repr_text(Runtime& rt, const Value& value) {
    TextBuilder out(rt);
    TRY(append_repr(out, value));
    return out.take();
}

Result<std::string> str_text(Runtime& rt, const Value& value) {
    TextBuilder out(rt);
    TRY(append_str(out, value));
    return out.take();
}

// format(value, spec) of Python.

class SpecParser {
  public:
    explicit SpecParser(std::string_view spec) : spec_(spec) {}

    Result<Field> parse() {
        Field field;
        parse_alignment(field);
        if (!spec_.empty() && (spec_[0] == '+' || spec_[0] == '-' || spec_[0] == ' ')) field.sign = take();
        if (spec_.starts_with('#')) {
            field.alternate = true;
            take();
        }
        if (spec_.starts_with('0')) {
            take();
            if (!field.align) {
                field.align = '=';
                field.fill = "0";
                zero_ = true;
            }
        }
        field.width = TRY(number(kMaxWidth)).value_or(0);
        if (spec_.starts_with(',') || spec_.starts_with('_')) field.grouping = take();
        if (spec_.starts_with('.')) {
            take();
            field.precision = TRY(number(kMaxPrecision));
            if (!field.precision) return fail("format specifier missing precision");
        }
        if (!spec_.empty()) field.type = take();
        if (!spec_.empty()) return fail("invalid format specifier");
        return field;
    }
    bool zero() const { return zero_; }

  private:
    char take() {
        char c = spec_[0];
        spec_.remove_prefix(1);
        return c;
    }

    void parse_alignment(Field& field) {
        constexpr std::string_view kAligns = "<>=^";
        if (spec_.empty()) return;
        size_t after = 0;
        utf8::next(spec_, after);
        if (after < spec_.size() && kAligns.find(spec_[after]) != std::string_view::npos) {
            field.fill = spec_.substr(0, after);
            field.align = spec_[after];
            spec_.remove_prefix(after + 1);
        } else if (kAligns.find(spec_[0]) != std::string_view::npos) {
            field.align = take();
        }
    }

    Result<std::optional<int64_t>> number(int64_t max) {
        std::optional<int64_t> value;
        while (!spec_.empty() && spec_[0] >= '0' && spec_[0] <= '9') {
            value = value.value_or(0) * 10 + (take() - '0');
            if (*value > max) return fail("a width or precision of more than {} in a format", max);
        }
        return value;
    }

    std::string_view spec_;
    bool zero_ = false;
};

Error unknown_type(char type, const Value& value) {
    return fail("unknown format code {} for object of type '{}'", quote_name(std::string_view(&type, 1)),
                type_name(value));
}

Status put_formatted(TextBuilder& out, const Value& value, std::string_view spec) {
    if (spec.empty()) return append_str(out, value);
    SpecParser parser(spec);
    Field field = TRY(parser.parse());
    constexpr std::string_view kIntegerTypes = "bdoxXn";
    constexpr std::string_view kRealTypes = "eEfFgG%";
    auto is_one_of = [&](std::string_view types) {
        return field.type == 0 || types.find(field.type) != std::string_view::npos;
    };
    if (value.is(Kind::string)) {
        if (!is_one_of("s")) return unknown_type(field.type, value);
        if (field.align == '=' && !parser.zero()) return fail("'=' alignment not allowed in string format specifier");
        if (field.sign != '-' || field.alternate || field.grouping) return fail("sign not allowed in a string format");
        if (parser.zero()) field.align = '<';
        return put_text(out, field, value.text());
    }
    if (value.is_integer() && field.type == 'c') return put_text(out, field, TRY(character(value.as_integer())));
    if (value.is_integer() && is_one_of(kIntegerTypes)) {
        if (field.precision) return fail("precision not allowed in integer format specifier");
        return put_integer(out, field, value.as_integer());
    }
    if (value.is_number()) {
        if (!is_one_of(kRealTypes) && field.type != 'n') return unknown_type(field.type, value);
        return put_real(out, field, value.as_real());
    }
    return fail("unsupported format string passed to {}.__format__", type_name(value));
}

// str.format(): {0.name[key]!r:>{width}}

class BraceFormatter {
  public:
    BraceFormatter(const Call& call, TextBuilder& out) : rt_(call.rt), args_(call.args), out_(out) {}

    Status run(std::string_view format, TextBuilder& out, int depth) {
        if (depth > 2) return fail("max string recursion exceeded in a format");
        while (!format.empty()) {
            size_t brace = format.find_first_of("{}");
            TRY(out.add(format.substr(0, brace)));
            if (brace == std::string_view::npos) break;
            char c = format[brace];
            format.remove_prefix(brace + 1);
            if (format.starts_with(c)) {
                TRY(out.add(c));
                format.remove_prefix(1);
            } else if (c == '}') {
                return fail("single '}}' encountered in format string");
            } else {
                size_t end = TRY(field_end(format));
                TRY(put_field(format.substr(0, end), out, depth));
                format.remove_prefix(end + 1);
            }
        }
        return Ok{};
    }

    Status run(std::string_view format) { return run(format, out_, 1); }

  private:
    static Result<size_t> field_end(std::string_view format) {
        int open = 1;
        bool in_brackets = false;
        for (size_t i = 0; i < format.size(); i++) {
            if (format[i] == '[') in_brackets = true;
            if (format[i] == ']') in_brackets = false;
            if (in_brackets) continue;
            if (format[i] == '{') open++;
            if (format[i] == '}' && --open == 0) return i;
        }
        return fail("expected '}}' before end of string");
    }

    Status put_field(std::string_view field, TextBuilder& out, int depth) {
        size_t name_end = 0;
        bool in_brackets = false;
        while (name_end < field.size() && (in_brackets || (field[name_end] != '!' && field[name_end] != ':'))) {
            if (field[name_end] == '[') in_brackets = true;
            if (field[name_end] == ']') in_brackets = false;
            name_end++;
        }
        Value value = TRY(lookup(field.substr(0, name_end)));
        std::string_view rest = field.substr(name_end);
        if (rest.starts_with('!')) {
            if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) return fail("expected ':' after conversion");
            value = TRY(converted(value, rest[1]));
            rest.remove_prefix(2);
        }
        if (rest.starts_with(':')) rest.remove_prefix(1);
        TextBuilder spec(rt_);
        TRY(run(rest, spec, depth + 1));
        return put_formatted(out, value, spec.take());
    }

    Result<Value> converted(const Value& value, char conversion) {
        if (conversion == 's') return to_str(rt_, value);
        if (conversion == 'r' || conversion == 'a') return rt_.string(TRY(repr_text(rt_, value)));
        return fail("unknown conversion in a format: !{}", conversion);
    }

    Result<Value> lookup(std::string_view path) {
        size_t end = std::min(path.find_first_of(".["), path.size());
        Value value = TRY(argument(path.substr(0, end)));
        path.remove_prefix(end);
        while (!path.empty()) {
            bool attribute = path[0] == '.';
            path.remove_prefix(1);
            size_t stop = attribute ? std::min(path.find_first_of(".["), path.size()) : path.find(']');
            if (stop == std::string_view::npos) return fail("missing ']' in format string");
            std::string_view name = path.substr(0, stop);
            if (name.empty()) return fail("empty attribute in format string");
            path.remove_prefix(attribute ? stop : stop + 1);
            if (!attribute && !path.empty() && path[0] != '.' && path[0] != '[') {
                return fail("only '.' or '[' may follow ']' in format field specifier");
            }
            if (attribute) {
                value = TRY(get_attribute(rt_, value, name));
            } else {
                Value k = TRY(key(name));
                value = TRY(get_item(rt_, value, k));
            }
        }
        return value;
    }

    Result<Value> key(std::string_view name) {
        bool digits = name.find_first_not_of("0123456789") == std::string_view::npos;
        if (!digits) return rt_.string(std::string(name));
        auto n = parse_integer(name, 10);
        if (!n) return fail("too many decimal digits in format string");
        return Value::integer(*n);
    }

    Result<Value> argument(std::string_view name) {
        bool number = name.find_first_not_of("0123456789") == std::string_view::npos;
        if (!number) {
            for (const auto& [key, value] : args_.named) {
                if (key == name) return value;
            }
            return fail("format() has no argument {}", quote_name(name));
        }
        if (name.empty() ? manual_ : automatic_ > 0) {
            return fail("format() cannot mix automatic and manual field numbering");
        }
        manual_ = manual_ || !name.empty();
        auto index = name.empty() ? static_cast<int64_t>(automatic_++) : parse_integer(name, 10).value_or(-1);
        if (index < 0 || index >= static_cast<int64_t>(args_.positional.size())) {
            return fail("replacement index {} out of range for positional args", index);
        }
        return args_.positional[static_cast<size_t>(index)];
    }

    Runtime& rt_;
    const Arguments& args_;
    TextBuilder& out_;
    size_t automatic_ = 0;
    bool manual_ = false;
};

// str % values: %(name)-5.2f

class PercentFormatter {
  public:
    PercentFormatter(Runtime& rt, const Value& values, TextBuilder& out) : rt_(rt), values_(values), out_(out) {}

    Status run(std::string_view format) {
        rest_ = format;
        while (!rest_.empty()) {
            size_t percent = rest_.find('%');
            TRY(out_.add(rest_.substr(0, percent)));
            if (percent == std::string_view::npos) break;
            rest_.remove_prefix(percent + 1);
            TRY(put_field());
        }
        bool tuple = values_.is(Kind::tuple);
        if (tuple ? next_ < values_.items().size() : !used_single_ && !is_mapping()) {
            return fail("not all arguments converted during string formatting");
        }
        return Ok{};
    }

  private:
    // As Python sees it: everything with a subscript that is no tuple or string.
    bool is_mapping() const {
        switch (values_.kind()) {
            case Kind::dict:
            case Kind::list:
            case Kind::range:
            case Kind::undefined:
                return true;
            default:
                return false;
        }
    }

    Result<Value> next_value() {
        if (named_) return *named_;
        if (values_.is(Kind::tuple)) {
            if (next_ >= values_.items().size()) return fail("not enough arguments for format string");
            return values_.items()[next_++];
        }
        if (used_single_) return fail("not enough arguments for format string");
        used_single_ = true;
        return values_;
    }

    Status parse_name() {
        named_.reset();
        if (!rest_.starts_with('(')) return Ok{};
        int open = 0;
        size_t end = 0;
        for (; end < rest_.size(); end++) {
            if (rest_[end] == '(') open++;
            if (rest_[end] == ')' && --open == 0) break;
        }
        if (end == rest_.size()) return fail("incomplete format key");
        if (!values_.is(Kind::dict)) return fail("format requires a mapping");
        std::string_view name = rest_.substr(1, end - 1);
        const Value* found = values_.get<DictObject>().find(name);
        if (!found) return fail("the format has no value for {}", quote_name(name));
        named_ = *found;
        used_single_ = true;
        rest_.remove_prefix(end + 1);
        return Ok{};
    }

    Result<int64_t> parse_number(int64_t max) {
        if (rest_.starts_with('*')) {
            rest_.remove_prefix(1);
            Value v = TRY(next_value());
            if (!v.is_integer()) return fail("* wants int");
            if (v.as_integer() > max || v.as_integer() < -max) return fail("a width or precision of more than {}", max);
            return v.as_integer();
        }
        int64_t value = 0;
        while (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9') {
            value = value * 10 + (rest_[0] - '0');
            if (value > max) return fail("a width or precision of more than {} in a format", max);
            rest_.remove_prefix(1);
        }
        return value;
    }

    Status put_field() {
        TRY(parse_name());
        Field field;
        bool zero = false;
        for (; !rest_.empty(); rest_.remove_prefix(1)) {
            char c = rest_[0];
            if (c == '-') {
                field.align = '<';
            } else if (c == '+' || (c == ' ' && field.sign != '+')) {
                field.sign = c;
            } else if (c == '#') {
                field.alternate = true;
            } else if (c == '0') {
                zero = true;
            } else if (c != ' ') {
                break;
            }
        }
        field.width = TRY(parse_number(kMaxWidth));
        if (field.width < 0) {
            field.align = '<';
            field.width = -field.width;
        }
        if (rest_.starts_with('.')) {
            rest_.remove_prefix(1);
            field.precision = std::max<int64_t>(TRY(parse_number(kMaxPrecision)), 0);
        }
        if (!rest_.empty() && (rest_[0] == 'h' || rest_[0] == 'l' || rest_[0] == 'L')) rest_.remove_prefix(1);
        if (rest_.empty()) return fail("incomplete format");
        constexpr std::string_view kTypes = "%srcadiuoxXeEfFgG";
        const std::string_view character = rest_.substr(0, utf8::offset(rest_, 1));
        if (kTypes.find(character) == std::string_view::npos) {
            return fail("unsupported format character {}", quote_name(character));
        }
        field.type = character[0];
        rest_.remove_prefix(1);
        if (field.type == '%') return out_.add('%');
        return put_value(field, zero);
    }

    Status put_value(Field& field, bool zero) {
        Value value = TRY(next_value());
        if (!field.align) field.align = '>';
        switch (field.type) {
            case 's':
                return put_text(out_, field, TRY(str_text(rt_, value)));
            case 'r':
            case 'a':
                return put_text(out_, field, TRY(repr_text(rt_, value)));
            case 'c':
                return put_char(field, value);
            default:
                break;
        }
        if (zero && field.align == '>') {
            field.align = '=';
            field.fill = "0";
        }
        constexpr std::string_view kRealTypes = "eEfFgG";
        if (kRealTypes.find(field.type) != std::string_view::npos) {
            if (value.is(Kind::undefined)) return undefined_error(value);
            if (!value.is_number()) return fail("must be real number, not {}", type_name(value));
            return put_real(out_, field, value.as_real());
        }
        return put_whole(field, value);
    }

    Status put_char(Field& field, const Value& value) {
        field.precision.reset();
        if (value.is_integer()) return put_text(out_, field, TRY(character(value.as_integer())));
        if (value.is(Kind::string) && utf8::length(value.text()) == 1) return put_text(out_, field, value.text());
        return fail("%c requires int or char");
    }

    Status put_whole(Field& field, const Value& value) {
        bool decimal = field.type == 'd' || field.type == 'i' || field.type == 'u';
        int64_t whole = 0;
        if (value.is_integer()) {
            whole = value.as_integer();
        } else if (value.is(Kind::real) && decimal) {
            double d = value.as_real();
            if (!(std::fabs(d) < 0x1p63)) return fail("cannot convert {} to an integer", real_repr(d));
            whole = static_cast<int64_t>(d);
        } else if (value.is(Kind::undefined)) {
            return undefined_error(value);
        } else {
            return fail("%{} format: a number is required, not {}", field.type, type_name(value));
        }
        if (decimal) field.type = 'd';
        if (field.precision) return put_with_digits(field, whole);
        return put_integer(out_, field, whole);
    }

    // %.5d: at least five digits.
    Status put_with_digits(const Field& field, int64_t whole) {
        Field digits{.align = '=', .sign = field.sign, .alternate = field.alternate, .type = field.type};
        digits.fill = "0";
        TextBuilder bare(rt_);
        TRY(put_integer(bare, Field{.type = field.type}, whole));
        auto have = static_cast<int64_t>(bare.size()) - (whole < 0 ? 1 : 0);
        TextBuilder plain(rt_);
        TRY(put_integer(plain, digits, whole));
        digits.width = static_cast<int64_t>(plain.size()) + std::max<int64_t>(*field.precision - have, 0);
        TextBuilder text(rt_);
        TRY(put_integer(text, digits, whole));
        std::string padded = text.take();
        if (field.align != '=') return put_number(out_, field, "", padded);
        size_t sign = padded.starts_with('-') || padded.starts_with('+') || padded.starts_with(' ') ? 1 : 0;
        return put_number(out_, field, padded.substr(0, sign), padded.substr(sign));
    }

    Runtime& rt_;
    const Value& values_;
    TextBuilder& out_;
    std::string_view rest_;
    std::optional<Value> named_;
    size_t next_ = 0;
    bool used_single_ = false;
};

}  // namespace

Result<Value> format_percent(Runtime& rt, const Value& format, const Value& values) {
    TextBuilder out(rt);
    TRY(PercentFormatter(rt, values, out).run(format.text()));
    return out.finish(format.is_safe());
}

Result<Value> format_braces(const Call& call) {
    TextBuilder out(call.rt);
    TRY(BraceFormatter(call, out).run(call.self.text()));
    return out.finish();
}

}  // namespace tandem::text::jinja
