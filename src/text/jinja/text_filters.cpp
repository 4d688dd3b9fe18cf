// Filters that make text or numbers.
#include "text/jinja/filters.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"

namespace tandem::text::jinja {

namespace {

// The string itself, marked or not, or str() of anything else.
Result<Value> soft_str(Runtime& rt, const Value& value) {
    return value.is(Kind::string) ? Result<Value>(value) : to_str(rt, value);
}

Result<Value> string_method(const Call& call, std::string_view name, const Value& text) {
    MethodObject method(text, find_string_method(name));
    return call_method(call.rt, method, Arguments{});
}

Result<Value> to_upper(const Call& call) {
    return string_method(call, "upper", TRY(soft_str(call.rt, call.self)));
}
Result<Value> to_lower(const Call& call) {
    return string_method(call, "lower", TRY(soft_str(call.rt, call.self)));
}
Result<Value> capitalized(const Call& call) {
    return string_method(call, "capitalize", TRY(soft_str(call.rt, call.self)));
}

Result<Value> titled(const Call& call) {
    Value text = TRY(soft_str(call.rt, call.self));
    constexpr std::u32string_view kWordStarts = U"-({[<";
    TRY(call.rt.room(text.text().size()));
    std::string out;
    bool at_start = true;
    for (size_t pos = 0; pos < text.text().size();) {
        char32_t c = utf8::next(text.text(), pos);
        bool separates = utf8::is_space(c) || kWordStarts.find(c) != std::u32string_view::npos;
        at_start && !separates ? utf8::append_upper(out, c) : utf8::append_lower(out, c);
        at_start = separates;
    }
    return call.rt.string(std::move(out));
}

Result<Value> trim(const Call& call) {
    Value text = TRY(soft_str(call.rt, call.self));
    MethodObject method(text, find_string_method("strip"));
    Arguments args;
    if (call.param[0]) args.positional.push_back(*call.param[0]);
    return call_method(call.rt, method, args);
}

Result<Value> centered(const Call& call) {
    MethodObject method(TRY(soft_str(call.rt, call.self)), find_string_method("center"));
    Arguments args;
    args.positional.push_back(call.param[0] ? *call.param[0] : Value::integer(80));
    return call_method(call.rt, method, args);
}

Result<Value> replaced(const Call& call) {
    MethodObject method(TRY(to_str(call.rt, call.self)), find_string_method("replace"));
    Arguments args;
    args.positional.push_back(TRY(to_str(call.rt, *call.param[0])));
    args.positional.push_back(TRY(to_str(call.rt, *call.param[1])));
    bool limited = call.param[2] && !call.param[2]->is(Kind::none);
    args.positional.push_back(limited ? *call.param[2] : Value::integer(-1));
    return call_method(call.rt, method, args);
}

Result<Value> string(const Call& call) {
    return soft_str(call.rt, call.self);
}

Result<Value> safe(const Call& call) {
    if (call.self.is_safe()) return call.self;
    Value text = TRY(to_str(call.rt, call.self));
    return call.rt.string(text.text(), true);
}

Result<Value> force_escape(const Call& call) {
    Value text = TRY(to_str(call.rt, call.self));
    TRY(call.rt.room(6 * text.text().size()));
    return call.rt.string(escape_html(text.text()), true);
}

Result<Value> escape(const Call& call) {
    return call.self.is_safe() ? Result<Value>(call.self) : force_escape(call);
}

Result<Value> format(const Call& call) {
    if (!call.args.positional.empty() && !call.args.named.empty()) {
        return fail("format: can't handle positional and keyword arguments at the same time");
    }
    Value text = TRY(soft_str(call.rt, call.self));
    if (call.args.named.empty()) {
        Value values = TRY(call.rt.tuple(call.args.positional));
        return format_percent(call.rt, text, values);
    }
    std::vector<Entry> entries;
    for (const auto& [name, value] : call.args.named) entries.emplace_back(TRY(call.rt.string(name)), value);
    return format_percent(call.rt, text, TRY(call.rt.dict(std::move(entries))));
}

Result<Value> indent(const Call& call) {
    std::string_view text = TRY(string_argument(call.self));
    std::string by(4, ' ');
    if (call.param[0] && call.param[0]->is(Kind::string)) {
        by = call.param[0]->text();
    } else {
        int64_t width = TRY(integer_argument(call.param[0], 4));
        if (width > 10'000) return fail("indent by {} is too much", width);
        by.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
    }
    bool first = truth_argument(call.param[1], false);
    bool blank = truth_argument(call.param[2], false);
    TextBuilder out(call.rt);
    if (first) TRY(out.add(by));
    size_t start = 0;
    bool first_line = true;
    auto put_line = [&](std::string_view line) -> Status {
        if (!first_line) {
            TRY(out.add('\n'));
            if (blank || !line.empty()) TRY(out.add(by));
        }
        first_line = false;
        return out.add(line);
    };
    for (size_t pos = 0; pos < text.size();) {
        size_t end = pos;
        char32_t c = utf8::next(text, pos);
        if (!utf8::is_line_break(c)) continue;
        if (c == '\r' && (pos == text.size() || text[pos] == '\n')) pos = std::min(pos + 1, text.size());
        TRY(put_line(text.substr(start, end - start)));
        start = pos;
    }
    // Jinja ends the text with one more newline first: what a final '\r' would have joined.
    bool joined = !text.empty() && text.back() == '\r';
    if (!joined) TRY(put_line(text.substr(start)));
    return out.finish(call.self.is_safe());
}

Result<Value> truncate(const Call& call) {
    int64_t width = TRY(integer_argument(call.param[0], 255));
    bool kill_words = truth_argument(call.param[1], false);
    std::string_view end = call.param[2] ? TRY(string_argument(*call.param[2])) : std::string_view("...");
    bool has_leeway = call.param[3] && !call.param[3]->is(Kind::none);
    int64_t leeway = has_leeway ? TRY(integer_argument(call.param[3], 5)) : 5;
    auto end_length = static_cast<int64_t>(utf8::length(end));
    if (width < end_length) return fail("truncate: expected length >= {}, got {}", end_length, width);
    if (leeway < 0) return fail("truncate: expected leeway >= 0, got {}", leeway);
    int64_t count = TRY(length(call.self));
    if (count <= width || count - width <= leeway) return call.self;
    std::string_view text = TRY(string_argument(call.self));
    std::string_view cut = text.substr(0, utf8::offset(text, static_cast<size_t>(width - end_length)));
    if (!kill_words) cut = cut.substr(0, std::min(cut.rfind(' '), cut.size()));
    return call.rt.string(std::string(cut) + std::string(end), call.self.is_safe());
}

Result<Value> wordcount(const Call& call) {
    Value text = TRY(soft_str(call.rt, call.self));
    int64_t words = 0;
    bool in_word = false;
    for (size_t pos = 0; pos < text.text().size();) {
        bool word = utf8::is_word(utf8::next(text.text(), pos));
        words += word && !in_word;
        in_word = word;
    }
    return Value::integer(words);
}

Status append_url_quoted(TextBuilder& out, std::string_view text, bool in_query) {
    std::string chunk;
    for (char c : text) {
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                     c == '.' || c == '-' || c == '~' || (c == '/' && !in_query);
        if (plain) {
            chunk += c;
        } else if (c == ' ' && in_query) {
            chunk += '+';
        } else {
            chunk += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
        if (chunk.size() >= 4096) {
            TRY(out.add(chunk));
            chunk.clear();
        }
    }
    return out.add(chunk);
}

Result<Value> urlencode(const Call& call) {
    TextBuilder out(call.rt);
    if (call.self.is(Kind::string) || !is_iterable(call.self)) {
        Value text = TRY(to_str(call.rt, call.self));
        TRY(append_url_quoted(out, text.text(), false));
        return out.finish();
    }
    Value pairs = call.self.is(Kind::dict) ? TRY(call.rt.view(call.self, ViewOf::items)) : call.self;
    bool first = true;
    for (const Value& pair : TRY(iterate(call.rt, pairs))) {
        std::vector<Value> two = TRY(iterate(call.rt, pair));
        if (two.size() != 2) return fail("urlencode: expected pairs of a name and a value");
        if (!first) TRY(out.add('&'));
        Value name = TRY(to_str(call.rt, two[0]));
        Value value = TRY(to_str(call.rt, two[1]));
        TRY(append_url_quoted(out, name.text(), true));
        TRY(out.add('='));
        TRY(append_url_quoted(out, value.text(), true));
        first = false;
    }
    return out.finish();
}

Result<Value> tojson(const Call& call) {
    JsonStyle style;
    style.ensure_ascii = truth_argument(call.param[0], false);
    if (const Value* indent_by = call.param[1]; indent_by && !indent_by->is(Kind::none)) {
        style.has_indent = true;
        style.item_separator = ",";
        if (indent_by->is(Kind::string)) {
            style.indent = indent_by->text();
        } else {
            int64_t n = TRY(integer_argument(indent_by, 0));
            if (n > 1000) return fail("tojson with an indent of {} is too much", n);
            style.indent.assign(static_cast<size_t>(std::max<int64_t>(n, 0)), ' ');
        }
    }
    if (const Value* separators = call.param[2]; separators && !separators->is(Kind::none)) {
        std::vector<Value> two = TRY(iterate(call.rt, *separators));
        if (two.size() != 2) return fail("tojson: separators must be a pair");
        style.item_separator = TRY(string_argument(two[0]));
        style.key_separator = TRY(string_argument(two[1]));
    }
    style.sort_keys = truth_argument(call.param[3], false);
    TextBuilder out(call.rt);
    TRY(append_json(out, call.self, style));
    return out.finish();
}

// Numbers.

Result<Value> absolute(const Call& call) {
    if (call.self.is(Kind::real)) return Value::real(std::fabs(call.self.as_real()));
    if (call.self.is(Kind::undefined)) return undefined_error(call.self);
    if (!call.self.is_integer()) return fail("bad operand type for abs(): '{}'", type_name(call.self));
    if (call.self.as_integer() < 0) return negate(call.self);
    return Value::integer(call.self.as_integer());
}

Result<Value> whole(double value, const Value& otherwise) {
    if (std::isnan(value)) return otherwise;
    if (!(std::fabs(value) < 0x1p63)) return fail("{} does not fit in a 64-bit integer", real_repr(value));
    return Value::integer(static_cast<int64_t>(value));
}

Result<Value> integer(const Call& call) {
    Value otherwise = call.param[0] ? *call.param[0] : Value::integer(0);
    const Value& v = call.self;
    if (v.is(Kind::undefined)) return undefined_error(v);
    if (v.is_integer()) return Value::integer(v.as_integer());
    if (v.is(Kind::real)) return whole(v.as_real(), otherwise);
    if (!v.is(Kind::string)) return otherwise;
    int64_t base = TRY(integer_argument(call.param[1], 10));
    if (base == 0 || (base >= 2 && base <= 36)) {
        if (auto parsed = parse_integer(v.text(), static_cast<int>(base))) return Value::integer(*parsed);
    }
    if (auto parsed = parse_real(v.text())) return whole(*parsed, otherwise);
    return otherwise;
}

Result<Value> real(const Call& call) {
    const Value& v = call.self;
    if (v.is(Kind::undefined)) return undefined_error(v);
    if (v.is_number()) return Value::real(v.as_real());
    if (v.is(Kind::string)) {
        if (auto parsed = parse_real(v.text())) return Value::real(*parsed);
    }
    return call.param[0] ? *call.param[0] : Value::real(0.0);
}

// To a multiple of 10^places, half to even.
Result<Value> round_integer(int64_t value, int64_t places) {
    if (places > 18) return Value::integer(0);
    int64_t unit = 1;
    for (int64_t i = 0; i < places; i++) unit *= 10;
    int64_t quotient = value / unit;
    int64_t rest = value % unit;
    int64_t magnitude = rest < 0 ? -rest : rest;
    bool up = magnitude > unit - magnitude || (magnitude == unit - magnitude && quotient % 2 != 0);
    if (up) quotient += value < 0 ? -1 : 1;
    int64_t result = 0;
    if (__builtin_mul_overflow(quotient, unit, &result)) return fail("round: the result does not fit in 64 bits");
    return Value::integer(result);
}

Result<Value> round_up_or_down(Runtime& rt, const Value& value, int64_t places, bool up) {
    Value unit = TRY(binary(rt, BinaryOp::power, Value::integer(10), Value::integer(places)));
    Value scaled = TRY(binary(rt, BinaryOp::multiply, value, unit));
    if (scaled.is(Kind::real)) {
        double d = scaled.as_real();
        scaled = TRY(whole(up ? std::ceil(d) : std::floor(d), Value::none()));
        if (scaled.is(Kind::none)) return fail("round: cannot convert NaN to an integer");
    }
    return binary(rt, BinaryOp::divide, scaled, unit);
}

Result<Value> round(const Call& call) {
    int64_t places = TRY(integer_argument(call.param[0], 0));
    std::string_view method = call.param[1] ? TRY(string_argument(*call.param[1])) : std::string_view("common");
    if (call.self.is(Kind::undefined)) return undefined_error(call.self);
    if (!call.self.is_number()) return fail("round: a number is needed, not {}", type_name(call.self));
    if (method == "ceil" || method == "floor") {
        return round_up_or_down(call.rt, call.self, places, method == "ceil");
    }
    if (method != "common") return fail("round: method must be common, ceil or floor");
    if (call.self.is(Kind::real)) return Value::real(round_real(call.self.as_real(), places));
    if (places >= 0) return Value::integer(call.self.as_integer());
    return round_integer(call.self.as_integer(), places < -100 ? 100 : -places);
}

constexpr auto kTextFilters = std::to_array<Native>({
    {"abs", absolute},
    {"capitalize", capitalized},
    {"center", centered, {"width"}},
    {"e", escape},
    {"escape", escape},
    {"float", real, {"default"}},
    {"forceescape", force_escape},
    {"format", format, {}, 0, true},
    {"indent", indent, {"width", "first", "blank"}},
    {"int", integer, {"default", "base"}},
    {"lower", to_lower},
    {"replace", replaced, {"old", "new", "count"}, 2},
    {"round", round, {"precision", "method"}},
    {"safe", safe},
    {"string", string},
    {"title", titled},
    {"tojson", tojson, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"trim", trim, {"chars"}},
    {"truncate", truncate, {"length", "killwords", "end", "leeway"}},
    {"upper", to_upper},
    {"urlencode", urlencode},
    {"wordcount", wordcount},
});

}  // namespace

const Native* find_text_filter(std::string_view name) {
    return find_native(kTextFilters, name);
}

}  // namespace tandem::text::jinja
