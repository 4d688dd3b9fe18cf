// Methods of strings: Python's, over code points.
#include <algorithm>
#include <array>

#include "text/jinja/native.h"
#include "text/jinja/operators.h"
#include "text/jinja/utf8.h"

namespace tandem::text::jinja {

namespace {

constexpr size_t kNotFound = std::string_view::npos;

// Searching backwards is not linear in the worst case, and counted as such.
Status count_backward_search(const Call& call, std::string_view needle) {
    size_t size = call.self.text().size();
    return call.rt.step(size * std::min(needle.size(), size) / 64);
}

// strip, lstrip and rstrip.

bool contains_char(std::string_view chars, char32_t c) {
    for (size_t pos = 0; pos < chars.size();) {
        if (utf8::next(chars, pos) == c) return true;
    }
    return false;
}

struct Sides {
    bool left, right;
};

Result<Value> strip(const Call& call, Sides sides) {
    std::string_view text = call.self.text();
    if (!given(call.param[0])) {
        if (sides.left) text = utf8::trim_left(text);
        if (sides.right) text = utf8::trim_right(text);
        return call.rt.string(std::string(text));
    }
    std::string_view chars = TRY(string_argument(*call.param[0]));
    while (sides.left && !text.empty()) {
        TRY(call.rt.copy(chars.size()));
        size_t pos = 0;
        if (!contains_char(chars, utf8::next(text, pos))) break;
        text.remove_prefix(pos);
    }
    while (sides.right && !text.empty()) {
        TRY(call.rt.copy(chars.size()));
        size_t start = text.size() - 1;
        while ((static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) start--;
        size_t pos = start;
        if (!contains_char(chars, utf8::next(text, pos))) break;
        text = text.substr(0, start);
    }
    return call.rt.string(std::string(text));
}

Result<Value> strip_both(const Call& call) {
    return strip(call, {true, true});
}
Result<Value> strip_left(const Call& call) {
    return strip(call, {true, false});
}
Result<Value> strip_right(const Call& call) {
    return strip(call, {false, true});
}

// split, rsplit, splitlines, partition and rpartition.

using Pieces = std::vector<std::string_view>;

Result<Value> list_of(Runtime& rt, const Pieces& pieces) {
    std::vector<Value> items;
    TRY(rt.room(pieces.size() * sizeof(Value)));
    items.reserve(pieces.size());
    for (std::string_view p : pieces) items.push_back(TRY(rt.string(std::string(p))));
    return rt.list(std::move(items));
}

Pieces split_on_space(std::string_view text, int64_t max) {
    Pieces pieces;
    text = utf8::trim_left(text);
    while (!text.empty()) {
        if (max >= 0 && static_cast<int64_t>(pieces.size()) >= max) {
            pieces.push_back(text);
            break;
        }
        size_t end = 0;
        while (end < text.size()) {
            size_t after = end;
            if (utf8::is_space(utf8::next(text, after))) break;
            end = after;
        }
        pieces.push_back(text.substr(0, end));
        text = utf8::trim_left(text.substr(end));
    }
    return pieces;
}

Pieces rsplit_on_space(std::string_view text, int64_t max) {
    Pieces pieces;
    text = utf8::trim_right(text);
    while (!text.empty()) {
        if (max >= 0 && static_cast<int64_t>(pieces.size()) >= max) {
            pieces.push_back(text);
            break;
        }
        size_t word = 0;  // where the last word starts
        size_t before = text.size();
        while (before > 0) {
            size_t start = before - 1;
            while ((static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) start--;
            size_t pos = start;
            if (utf8::is_space(utf8::next(text, pos))) {
                word = before;
                break;
            }
            before = start;
        }
        pieces.push_back(text.substr(word));
        text = utf8::trim_right(text.substr(0, word));
    }
    std::reverse(pieces.begin(), pieces.end());
    return pieces;
}

Pieces split_on(std::string_view text, std::string_view separator, int64_t max) {
    Pieces pieces;
    while (max < 0 || static_cast<int64_t>(pieces.size()) < max) {
        size_t at = utf8::find(text, separator);
        if (at == kNotFound) break;
        pieces.push_back(text.substr(0, at));
        text.remove_prefix(at + separator.size());
    }
    pieces.push_back(text);
    return pieces;
}

Pieces rsplit_on(std::string_view text, std::string_view separator, int64_t max) {
    Pieces pieces;
    while (max < 0 || static_cast<int64_t>(pieces.size()) < max) {
        size_t at = text.rfind(separator);
        if (at == kNotFound) break;
        pieces.push_back(text.substr(at + separator.size()));
        text = text.substr(0, at);
    }
    pieces.push_back(text);
    std::reverse(pieces.begin(), pieces.end());
    return pieces;
}

Result<Value> split_with(const Call& call, bool from_right) {
    int64_t max = TRY(integer_argument(call.param[1], -1));
    std::string_view text = call.self.text();
    TRY(call.rt.copy(text.size()));
    if (!given(call.param[0])) {
        return list_of(call.rt, from_right ? rsplit_on_space(text, max) : split_on_space(text, max));
    }
    std::string_view separator = TRY(string_argument(*call.param[0]));
    if (separator.empty()) return fail("empty separator");
    if (from_right) TRY(count_backward_search(call, separator));
    return list_of(call.rt, from_right ? rsplit_on(text, separator, max) : split_on(text, separator, max));
}

Result<Value> split(const Call& call) {
    return split_with(call, false);
}
Result<Value> rsplit(const Call& call) {
    return split_with(call, true);
}

Result<Value> splitlines(const Call& call) {
    bool keep = truth_argument(call.param[0], false);
    std::string_view text = call.self.text();
    Pieces pieces;
    size_t start = 0;
    for (size_t pos = 0; pos < text.size();) {
        size_t end = pos;
        char32_t c = utf8::next(text, pos);
        if (!utf8::is_line_break(c)) continue;
        if (c == '\r' && pos < text.size() && text[pos] == '\n') pos++;
        pieces.push_back(text.substr(start, (keep ? pos : end) - start));
        start = pos;
    }
    if (start < text.size()) pieces.push_back(text.substr(start));
    return list_of(call.rt, pieces);
}

Result<Value> partition_at(const Call& call, bool last) {
    std::string_view text = call.self.text();
    std::string_view separator = TRY(string_argument(*call.param[0]));
    if (separator.empty()) return fail("empty separator");
    if (last) TRY(count_backward_search(call, separator));
    size_t at = last ? text.rfind(separator) : utf8::find(text, separator);
    std::string_view parts[3] = {text, "", ""};
    if (at == kNotFound && last) std::swap(parts[0], parts[2]);
    if (at != kNotFound) {
        parts[0] = text.substr(0, at);
        parts[1] = separator;
        parts[2] = text.substr(at + separator.size());
    }
    std::vector<Value> items;
    for (std::string_view p : parts) items.push_back(TRY(call.rt.string(std::string(p))));
    return call.rt.tuple(std::move(items));
}

Result<Value> partition(const Call& call) {
    return partition_at(call, false);
}
Result<Value> rpartition(const Call& call) {
    return partition_at(call, true);
}

// Searching.

// The bytes between two optional code point positions, which may count from the end.
struct Window {
    std::string_view text = {};
    int64_t start = 0;  // in code points
    bool valid = true;  // false: it starts after it ends
};

Result<Window> window(const Call& call, const Value* start_argument, const Value* end_argument) {
    std::string_view text = call.self.text();
    TRY(call.rt.copy(text.size()));
    if (!given(start_argument) && !given(end_argument)) return Window{.text = text};
    auto count = static_cast<int64_t>(utf8::length(text));
    int64_t start = TRY(integer_argument(given(start_argument) ? start_argument : nullptr, 0));
    int64_t end = TRY(integer_argument(given(end_argument) ? end_argument : nullptr, count));
    if (end < 0) end = std::max<int64_t>(end + count, 0);
    if (start < 0) start = std::max<int64_t>(start + count, 0);
    end = std::min(end, count);
    if (start > end) return Window{.valid = false};
    size_t first = utf8::offset(text, static_cast<size_t>(start));
    size_t last = utf8::offset(text, static_cast<size_t>(end));
    return Window{.text = text.substr(first, last - first), .start = start};
}

// The position in code points, or -1.
Result<int64_t> search(const Call& call, bool from_right) {
    std::string_view needle = TRY(string_argument(*call.param[0]));
    Window w = TRY(window(call, call.param[1], call.param[2]));
    if (!w.valid) return -1;
    if (from_right) TRY(count_backward_search(call, needle));
    size_t at = from_right ? w.text.rfind(needle) : utf8::find(w.text, needle);
    if (at == kNotFound) return -1;
    return w.start + static_cast<int64_t>(utf8::length(w.text.substr(0, at)));
}

Result<Value> find(const Call& call) {
    return Value::integer(TRY(search(call, false)));
}
Result<Value> rfind(const Call& call) {
    return Value::integer(TRY(search(call, true)));
}
Result<Value> index(const Call& call) {
    int64_t at = TRY(search(call, false));
    if (at < 0) return fail("substring not found");
    return Value::integer(at);
}
Result<Value> rindex(const Call& call) {
    int64_t at = TRY(search(call, true));
    if (at < 0) return fail("substring not found");
    return Value::integer(at);
}

size_t occurrences(std::string_view text, std::string_view needle) {
    if (needle.empty()) return utf8::length(text) + 1;
    size_t n = 0;
    for (size_t at = utf8::find(text, needle); at != kNotFound; at = utf8::find(text, needle, at + needle.size())) n++;
    return n;
}

Result<Value> count(const Call& call) {
    std::string_view needle = TRY(string_argument(*call.param[0]));
    Window w = TRY(window(call, call.param[1], call.param[2]));
    return Value::integer(w.valid ? static_cast<int64_t>(occurrences(w.text, needle)) : 0);
}

Result<Value> has_affix(const Call& call, bool at_end) {
    Window w = TRY(window(call, call.param[1], call.param[2]));
    auto matches = [&](std::string_view affix) {
        return w.valid && (at_end ? w.text.ends_with(affix) : w.text.starts_with(affix));
    };
    const Value& wanted = *call.param[0];
    if (!wanted.is(Kind::tuple)) return Value::boolean(matches(TRY(string_argument(wanted))));
    TRY(call.rt.step(wanted.items().size()));
    for (const Value& v : wanted.items()) {
        if (matches(TRY(string_argument(v)))) return Value::boolean(true);
    }
    return Value::boolean(false);
}

Result<Value> startswith(const Call& call) {
    return has_affix(call, false);
}
Result<Value> endswith(const Call& call) {
    return has_affix(call, true);
}

// Changing case.

template <typename Append>
Result<Value> map_chars(const Call& call, Append append) {
    std::string_view text = call.self.text();
    TRY(call.rt.room(text.size()));
    std::string out;
    out.reserve(text.size());
    for (size_t pos = 0; pos < text.size();) append(out, utf8::next(text, pos));
    return call.rt.string(std::move(out));
}

Result<Value> upper(const Call& call) {
    return map_chars(call, utf8::append_upper);
}
Result<Value> lower(const Call& call) {
    return map_chars(call, utf8::append_lower);
}
Result<Value> casefold(const Call& call) {
    return map_chars(call, utf8::append_folded);
}
Result<Value> swapcase(const Call& call) {
    return map_chars(call, [](std::string& out, char32_t c) {
        utf8::is_upper(c) ? utf8::append_lower(out, c) : utf8::append_upper(out, c);
    });
}
Result<Value> capitalize(const Call& call) {
    return map_chars(call, [first = true](std::string& out, char32_t c) mutable {
        first ? utf8::append_title(out, c) : utf8::append_lower(out, c);
        first = false;
    });
}
bool is_cased(char32_t c) {
    return utf8::is_upper(c) || utf8::is_lower(c) || utf8::is_title(c);
}
Result<Value> title(const Call& call) {
    return map_chars(call, [in_word = false](std::string& out, char32_t c) mutable {
        in_word ? utf8::append_lower(out, c) : utf8::append_title(out, c);
        in_word = is_cased(c);
    });
}

// Questions about all characters.

template <typename Predicate>
Result<Value> all_chars(const Call& call, Predicate predicate) {
    std::string_view text = call.self.text();
    TRY(call.rt.copy(text.size()));
    for (size_t pos = 0; pos < text.size();) {
        if (!predicate(utf8::next(text, pos))) return Value::boolean(false);
    }
    return Value::boolean(!text.empty());
}

Result<Value> isalpha(const Call& call) {
    return all_chars(call, utf8::is_alpha);
}
Result<Value> isdigit(const Call& call) {
    return all_chars(call, utf8::is_digit);
}
Result<Value> isdecimal(const Call& call) {
    return all_chars(call, utf8::is_decimal);
}
Result<Value> isnumeric(const Call& call) {
    return all_chars(call, utf8::is_numeric);
}
Result<Value> isspace(const Call& call) {
    return all_chars(call, utf8::is_space);
}
Result<Value> isalnum(const Call& call) {
    return all_chars(call, [](char32_t c) { return c != '_' && utf8::is_word(c); });
}
Result<Value> isprintable(const Call& call) {
    if (call.self.text().empty()) return Value::boolean(true);
    return all_chars(call, utf8::is_printable);
}
Result<Value> isascii(const Call& call) {
    if (call.self.text().empty()) return Value::boolean(true);
    return all_chars(call, [](char32_t c) { return c < 0x80; });
}
Result<Value> isidentifier(const Call& call) {
    return all_chars(call, [first = true](char32_t c) mutable {
        bool ok = utf8::is_word(c) && !(first && utf8::is_numeric(c));
        first = false;
        return ok;
    });
}

// At least one cased character, and none of the other case.
Result<Value> has_case(const Call& call, bool (*wanted)(char32_t), bool (*unwanted)(char32_t)) {
    std::string_view text = call.self.text();
    TRY(call.rt.copy(text.size()));
    bool any = false;
    for (size_t pos = 0; pos < text.size();) {
        char32_t c = utf8::next(text, pos);
        if (unwanted(c) || utf8::is_title(c)) return Value::boolean(false);
        any = any || wanted(c);
    }
    return Value::boolean(any);
}
Result<Value> islower(const Call& call) {
    return has_case(call, utf8::is_lower, utf8::is_upper);
}
Result<Value> isupper(const Call& call) {
    return has_case(call, utf8::is_upper, utf8::is_lower);
}
Result<Value> istitle(const Call& call) {
    std::string_view text = call.self.text();
    TRY(call.rt.copy(text.size()));
    bool any = false;
    bool in_word = false;
    for (size_t pos = 0; pos < text.size();) {
        char32_t c = utf8::next(text, pos);
        bool starts_word = utf8::is_upper(c) || utf8::is_title(c);
        if ((starts_word && in_word) || (utf8::is_lower(c) && !in_word)) return Value::boolean(false);
        in_word = is_cased(c);
        any = any || in_word;
    }
    return Value::boolean(any);
}

// Building other strings.

Result<Value> replace(const Call& call) {
    std::string_view text = call.self.text();
    std::string_view from = TRY(string_argument(*call.param[0]));
    std::string_view to = TRY(string_argument(*call.param[1]));
    int64_t max = TRY(integer_argument(call.param[2], -1));
    TRY(call.rt.copy(text.size()));
    size_t times = occurrences(text, from);
    if (max >= 0) times = std::min(times, static_cast<size_t>(max));
    if (!to.empty() && times > call.rt.limits().value_bytes / to.size()) {
        return fail("the text that replace() makes is too large");
    }
    TRY(call.rt.room(text.size() + times * to.size()));
    std::string out;
    size_t pos = 0;
    for (size_t i = 0; i < times; i++) {
        size_t at = from.empty() ? pos : utf8::find(text, from, pos);
        out += text.substr(pos, at - pos);
        out += to;
        pos = at + from.size();
        if (from.empty() && pos < text.size()) {
            size_t start = pos;
            utf8::next(text, pos);
            out += text.substr(start, pos - start);
        }
    }
    out += text.substr(pos);
    return call.rt.string(std::move(out));
}

Result<Value> join(const Call& call) {
    std::string_view separator = call.self.text();
    if (!is_iterable(*call.param[0])) return fail("can only join an iterable");
    TextBuilder out(call.rt);
    bool first = true;
    for (const Value& v : TRY(iterate(call.rt, *call.param[0]))) {
        if (!v.is(Kind::string)) return fail("join() needs strings, not {}", type_name(v));
        if (!first) TRY(out.add(separator));
        TRY(out.add(v.text()));
        first = false;
    }
    return out.finish();
}

Result<Value> removeprefix(const Call& call) {
    std::string_view text = call.self.text();
    std::string_view prefix = TRY(string_argument(*call.param[0]));
    if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
    return call.rt.string(std::string(text));
}
Result<Value> removesuffix(const Call& call) {
    std::string_view text = call.self.text();
    std::string_view suffix = TRY(string_argument(*call.param[0]));
    if (text.ends_with(suffix)) text.remove_suffix(suffix.size());
    return call.rt.string(std::string(text));
}

// How many characters are missing to the width; what is added is bounded by the memory of the rendering.
Result<size_t> padding(const Call& call, int64_t width) {
    auto count = static_cast<int64_t>(utf8::length(call.self.text()));
    if (width <= count) return size_t{0};
    auto missing = static_cast<size_t>(width - count);
    if (missing > call.rt.limits().value_bytes / 4) return fail("a text of {} characters is too large", width);
    TRY(call.rt.room(4 * missing + call.self.text().size()));
    return missing;
}

Result<Value> zfill(const Call& call) {
    int64_t width = TRY(integer_argument(call.param[0], 0));
    size_t missing = TRY(padding(call, width));
    std::string_view text = call.self.text();
    size_t sign = text.starts_with('+') || text.starts_with('-') ? 1 : 0;
    std::string out(text.substr(0, sign));
    out.append(missing, '0');
    out += text.substr(sign);
    return call.rt.string(std::move(out));
}

enum class Align { left, right, center };

Result<Value> aligned(const Call& call, Align align) {
    int64_t width = TRY(integer_argument(call.param[0], 0));
    std::string_view fill = call.param[1] ? TRY(string_argument(*call.param[1])) : std::string_view(" ");
    if (utf8::length(fill) != 1) return fail("the fill character must be exactly one character long");
    size_t missing = TRY(padding(call, width));
    size_t left = 0;
    if (align == Align::right) left = missing;
    if (align == Align::center) left = missing / 2 + (missing & static_cast<size_t>(width) & 1);
    std::string out;
    for (size_t i = 0; i < left; i++) out += fill;
    out += call.self.text();
    for (size_t i = left; i < missing; i++) out += fill;
    return call.rt.string(std::move(out));
}
Result<Value> ljust(const Call& call) {
    return aligned(call, Align::left);
}
Result<Value> rjust(const Call& call) {
    return aligned(call, Align::right);
}
Result<Value> center(const Call& call) {
    return aligned(call, Align::center);
}

Result<Value> expandtabs(const Call& call) {
    int64_t width = TRY(integer_argument(call.param[0], 8));
    if (width > 1000) return fail("expandtabs() with {} columns is too wide", width);
    std::string_view text = call.self.text();
    TextBuilder out(call.rt);
    int64_t column = 0;
    for (size_t pos = 0; pos < text.size();) {
        size_t start = pos;
        char32_t c = utf8::next(text, pos);
        if (c == '\t') {
            int64_t n = width > 0 ? width - column % width : 0;
            TRY(out.add(std::string(static_cast<size_t>(n), ' ')));
            column += n;
        } else {
            TRY(out.add(text.substr(start, pos - start)));
            column = c == '\n' || c == '\r' ? 0 : column + 1;
        }
    }
    return out.finish();
}

constexpr auto kMethods = std::to_array<Native>({
    {"capitalize", capitalize},
    {"casefold", casefold},
    {"center", center, {"/width", "/fillchar"}, 1},
    {"count", count, {"/sub", "/start", "/end"}, 1},
    {"endswith", endswith, {"/suffix", "/start", "/end"}, 1},
    {"expandtabs", expandtabs, {"tabsize"}},
    {"find", find, {"/sub", "/start", "/end"}, 1},
    {"format", format_braces, {}, 0, true},
    {"index", index, {"/sub", "/start", "/end"}, 1},
    {"isalnum", isalnum},
    {"isalpha", isalpha},
    {"isascii", isascii},
    {"isdecimal", isdecimal},
    {"isdigit", isdigit},
    {"isidentifier", isidentifier},
    {"islower", islower},
    {"isnumeric", isnumeric},
    {"isprintable", isprintable},
    {"isspace", isspace},
    {"istitle", istitle},
    {"isupper", isupper},
    {"join", join, {"/iterable"}, 1},
    {"ljust", ljust, {"/width", "/fillchar"}, 1},
    {"lower", lower},
    {"lstrip", strip_left, {"/chars"}},
    {"partition", partition, {"/sep"}, 1},
    {"removeprefix", removeprefix, {"/prefix"}, 1},
    {"removesuffix", removesuffix, {"/suffix"}, 1},
    {"replace", replace, {"/old", "/new", "/count"}, 2},
    {"rfind", rfind, {"/sub", "/start", "/end"}, 1},
    {"rindex", rindex, {"/sub", "/start", "/end"}, 1},
    {"rjust", rjust, {"/width", "/fillchar"}, 1},
    {"rpartition", rpartition, {"/sep"}, 1},
    {"rsplit", rsplit, {"sep", "maxsplit"}},
    {"rstrip", strip_right, {"/chars"}},
    {"split", split, {"sep", "maxsplit"}},
    {"splitlines", splitlines, {"keepends"}},
    {"startswith", startswith, {"/prefix", "/start", "/end"}, 1},
    {"strip", strip_both, {"/chars"}},
    {"swapcase", swapcase},
    {"title", title},
    {"upper", upper},
    {"zfill", zfill, {"/width"}, 1},
});

}  // namespace

const Native* find_string_method(std::string_view name) {
    return find_native(kMethods, name);
}

}  // namespace tandem::text::jinja
