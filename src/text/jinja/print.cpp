#include "text/jinja/print.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "text/jinja/native.h"
#include "text/jinja/utf8.h"
#include "text/utf8.h"

namespace tandem::text::jinja {

namespace {

constexpr size_t kChunkBytes = 4096;  // of text converted before it is counted

Status append_repr_at(TextBuilder& out, const Value& value, int depth);

void append_escape(std::string& out, char32_t c) {
    if (c < 0x100) {
        out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
        out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
        out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
}

char quote_for(std::string_view text) {
    return text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
}

void append_repr_char(std::string& out, char32_t c, char quote) {
    if (c == static_cast<char32_t>(quote) || c == '\\') {
        out += '\\';
        out += static_cast<char>(c);
    } else if (c == '\n') {
        out += "\\n";
    } else if (c == '\r') {
        out += "\\r";
    } else if (c == '\t') {
        out += "\\t";
    } else if (utf8::is_printable(c)) {
        append_utf8(out, c);
    } else {
        append_escape(out, c);
    }
}

Status append_string_repr(TextBuilder& out, std::string_view text) {
    char quote = quote_for(text);
    std::string chunk(1, quote);
    for (size_t pos = 0; pos < text.size();) {
        append_repr_char(chunk, utf8::next(text, pos), quote);
        if (chunk.size() >= kChunkBytes) {
            TRY(out.add(chunk));
            chunk.clear();
        }
    }
    chunk += quote;
    return out.add(chunk);
}

Status append_items(TextBuilder& out, const std::vector<Value>& items, int depth) {
    for (size_t i = 0; i < items.size(); i++) {
        if (i > 0) TRY(out.add(", "));
        TRY(append_repr_at(out, items[i], depth));
    }
    return Ok{};
}

Status append_entries(TextBuilder& out, const std::vector<Entry>& entries, int depth) {
    TRY(out.add('{'));
    for (size_t i = 0; i < entries.size(); i++) {
        if (i > 0) TRY(out.add(", "));
        TRY(append_repr_at(out, entries[i].first, depth));
        TRY(out.add(": "));
        TRY(append_repr_at(out, entries[i].second, depth));
    }
    return out.add('}');
}

Status append_view(TextBuilder& out, const ViewObject& view, int depth) {
    const auto& entries = view.dict.get<DictObject>().entries;
    std::string_view open[] = {"dict_keys([", "dict_values([", "dict_items(["};
    TRY(out.add(open[static_cast<int>(view.of)]));
    for (size_t i = 0; i < entries.size(); i++) {
        if (i > 0) TRY(out.add(", "));
        if (view.of == ViewOf::items) TRY(out.add('('));
        if (view.of != ViewOf::values) TRY(append_repr_at(out, entries[i].first, depth));
        if (view.of == ViewOf::items) TRY(out.add(", "));
        if (view.of != ViewOf::keys) TRY(append_repr_at(out, entries[i].second, depth));
        if (view.of == ViewOf::items) TRY(out.add(')'));
    }
    return out.add("])");
}

Status append_namespace(TextBuilder& out, const NamespaceObject& ns, int depth) {
    TRY(out.add("<Namespace {"));
    for (size_t i = 0; i < ns.attributes.size(); i++) {
        if (i > 0) TRY(out.add(", "));
        TRY(append_string_repr(out, ns.attributes[i].first));
        TRY(out.add(": "));
        TRY(append_repr_at(out, ns.attributes[i].second, depth));
    }
    return out.add("}>");
}

Status append_range(TextBuilder& out, const RangeObject& range) {
    if (range.step == 1) return out.add(fmt::format("range({}, {})", range.start, range.stop));
    return out.add(fmt::format("range({}, {}, {})", range.start, range.stop, range.step));
}

Status append_container(TextBuilder& out, const Value& value, int depth) {
    // Only a namespace can contain itself.
    if (depth > 2 * kMaxValueDepth) return fail("cannot print a value that contains itself");
    switch (value.kind()) {
        case Kind::list:
            TRY(out.add('['));
            TRY(append_items(out, value.items(), depth));
            return out.add(']');
        case Kind::tuple:
            TRY(out.add('('));
            TRY(append_items(out, value.items(), depth));
            return out.add(value.items().size() == 1 ? ",)" : ")");
        case Kind::dict:
            return append_entries(out, value.get<DictObject>().entries, depth);
        case Kind::view:
            return append_view(out, value.get<ViewObject>(), depth);
        default:
            return append_namespace(out, value.get<NamespaceObject>(), depth);
    }
}

Status append_repr_at(TextBuilder& out, const Value& value, int depth) {
    switch (value.kind()) {
        case Kind::undefined:
            return out.add("Undefined");
        case Kind::none:
            return out.add("None");
        case Kind::boolean:
            return out.add(value.as_bool() ? "True" : "False");
        case Kind::integer:
            return out.add(fmt::format_int(value.as_integer()).c_str());
        case Kind::real:
            return out.add(real_repr(value.as_real()));
        case Kind::string:
            if (!value.is_safe()) return append_string_repr(out, value.text());
            TRY(out.add("Markup("));
            TRY(append_string_repr(out, value.text()));
            return out.add(')');
        case Kind::list:
        case Kind::tuple:
        case Kind::dict:
        case Kind::view:
        case Kind::name_space:
            return append_container(out, value, depth + 1);
        case Kind::range:
            return append_range(out, value.get<RangeObject>());
        case Kind::macro:
            return out.add(fmt::format("<Macro {}>", quote_name(macro_name(value))));
        case Kind::loop: {
            const auto& loop = value.get<LoopObject>();
            return out.add(fmt::format("<LoopContext {}/{}>", loop.index + 1, loop.items.size()));
        }
        case Kind::function:
            return out.add(fmt::format("<function {}>", value.get<FunctionObject>().native->name));
        case Kind::method:
            return out.add(fmt::format("<method {}>", value.get<MethodObject>().native->name));
        case Kind::iterator:
        case Kind::joiner:
        case Kind::cycler:
            return out.add(fmt::format("<{} object>", type_name(value)));
    }
    return Ok{};
}

}  // namespace

std::string real_repr(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    // The shortest digits that give the number back, as d.ddde±x; Python writes exponents from -4 to 15 out.
    char buffer[64];
    auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
    std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
    size_t e = shortest.find('e');
    int exponent = 0;
    std::string_view exponent_text = shortest.substr(shortest[e + 1] == '+' ? e + 2 : e + 1);
    std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
    if (exponent < -4 || exponent >= 16) return std::string(shortest);
    bool negative = shortest.front() == '-';
    std::string digits;
    for (char c : shortest.substr(0, e)) {
        if (c >= '0' && c <= '9') digits += c;
    }
    std::string out;
    if (exponent < 0) {
        out = "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    } else {
        size_t whole = static_cast<size_t>(exponent) + 1;
        if (digits.size() <= whole) {
            out = digits + std::string(whole - digits.size(), '0') + ".0";
        } else {
            out = digits.substr(0, whole) + "." + digits.substr(whole);
        }
    }
    return negative ? "-" + out : out;
}

std::string quote_name(std::string_view text) {
    constexpr size_t kMaxBytes = 80;
    char quote = quote_for(text);
    std::string out(1, quote);
    for (size_t pos = 0; pos < text.size();) {
        if (pos >= kMaxBytes) {
            out += "...";
            break;
        }
        append_repr_char(out, utf8::next(text, pos), quote);
    }
    out += quote;
    return out;
}

std::string escape_html(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (char c : text) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '\'':
                out += "&#39;";
                break;
            case '"':
                out += "&#34;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

Status append_repr(TextBuilder& out, const Value& value) {
    return append_repr_at(out, value, 0);
}

Status append_str(TextBuilder& out, const Value& value) {
    if (value.is(Kind::string)) return out.add(value.text());
    if (value.is(Kind::undefined)) return Ok{};
    return append_repr(out, value);
}

Result<Value> to_str(Runtime& rt, const Value& value) {
    if (value.is(Kind::string) && !value.is_safe()) return value;
    TextBuilder out(rt);
    TRY(append_str(out, value));
    return out.finish();
}

}  // namespace tandem::text::jinja
