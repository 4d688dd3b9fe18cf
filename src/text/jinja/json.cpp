// json.dumps() of values, and values from JSON.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"
#include "text/utf8.h"

namespace tandem::text::jinja {

namespace {

using nlohmann::ordered_json;

void append_unicode_escape(std::string& out, char32_t c) {
    auto unit = [&](uint32_t u) { out += fmt::format("\\u{:04x}", u); };
    if (c >= 0x10000) {
        uint32_t v = static_cast<uint32_t>(c) - 0x10000;
        unit(0xD800 + (v >> 10));
        unit(0xDC00 + (v & 0x3FF));
    } else {
        unit(static_cast<uint32_t>(c));
    }
}

void append_json_char(std::string& out, char32_t c, bool ensure_ascii) {
    switch (c) {
        case '"':
            out += "\\\"";
            break;
        case '\\':
            out += "\\\\";
            break;
        case '\n':
            out += "\\n";
            break;
        case '\r':
            out += "\\r";
            break;
        case '\t':
            out += "\\t";
            break;
        case '\f':
            out += "\\f";
            break;
        case '\b':
            out += "\\b";
            break;
        default:
            if (c < 0x20 || (ensure_ascii && c > 0x7F)) {
                append_unicode_escape(out, c);
            } else {
                append_utf8(out, c);
            }
    }
}

Status append_quoted(TextBuilder& out, std::string_view text, bool ensure_ascii) {
    constexpr size_t kChunkBytes = 4096;  // of text converted before it is counted
    std::string chunk = "\"";
    for (size_t pos = 0; pos < text.size();) {
        append_json_char(chunk, utf8::next(text, pos), ensure_ascii);
        if (chunk.size() >= kChunkBytes) {
            TRY(out.add(chunk));
            chunk.clear();
        }
    }
    chunk += '"';
    return out.add(chunk);
}

std::string json_real(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return real_repr(d);
}

class JsonWriter {
  public:
    JsonWriter(TextBuilder& out, const JsonStyle& style) : out_(out), style_(style) {}

    Status write(const Value& value, size_t level) {
        switch (value.kind()) {
            case Kind::none:
                return out_.add("null");
            case Kind::boolean:
                return out_.add(value.as_bool() ? "true" : "false");
            case Kind::integer:
                return out_.add(std::to_string(value.as_integer()));
            case Kind::real:
                return out_.add(json_real(value.as_real()));
            case Kind::string:
                return append_quoted(out_, value.text(), style_.ensure_ascii);
            case Kind::list:
            case Kind::tuple:
                return write_list(value.items(), level);
            case Kind::dict:
                return write_dict(value.get<DictObject>().entries, level);
            default:
                return fail("object of type {} is not JSON serializable", type_name(value));
        }
    }

  private:
    Status new_line(size_t level) {
        if (!style_.has_indent) return Ok{};
        TRY(out_.add('\n'));
        for (size_t i = 0; i < level; i++) TRY(out_.add(style_.indent));
        return Ok{};
    }

    Status write_list(const std::vector<Value>& items, size_t level) {
        if (items.empty()) return out_.add("[]");
        TRY(out_.add('['));
        for (size_t i = 0; i < items.size(); i++) {
            if (i > 0) TRY(out_.add(style_.item_separator));
            TRY(new_line(level + 1));
            TRY(write(items[i], level + 1));
        }
        TRY(new_line(level));
        return out_.add(']');
    }

    Status write_dict(const std::vector<Entry>& entries, size_t level) {
        if (entries.empty()) return out_.add("{}");
        std::vector<const Entry*> order = TRY(ordered(entries));
        TRY(out_.add('{'));
        for (size_t i = 0; i < order.size(); i++) {
            if (i > 0) TRY(out_.add(style_.item_separator));
            TRY(new_line(level + 1));
            std::string key = TRY(key_text(order[i]->first));
            TRY(append_quoted(out_, key, style_.ensure_ascii));
            TRY(out_.add(style_.key_separator));
            TRY(write(order[i]->second, level + 1));
        }
        TRY(new_line(level));
        return out_.add('}');
    }

    Result<std::vector<const Entry*>> ordered(const std::vector<Entry>& entries) const {
        std::vector<const Entry*> order;
        order.reserve(entries.size());
        for (const Entry& e : entries) order.push_back(&e);
        if (!style_.sort_keys) return order;
        bool all_numbers = std::all_of(order.begin(), order.end(), [](auto* e) { return e->first.is_number(); });
        bool all_strings = std::all_of(order.begin(), order.end(), [](auto* e) { return e->first.is(Kind::string); });
        if (!all_numbers && !all_strings && order.size() > 1) return fail("tojson cannot sort keys of different types");
        std::stable_sort(order.begin(), order.end(),
                         [](auto* a, auto* b) { return compare_keys(a->first, b->first) < 0; });
        return order;
    }

    static Result<std::string> key_text(const Value& key) {
        switch (key.kind()) {
            case Kind::string:
                return key.text();
            case Kind::none:
                return std::string("null");
            case Kind::boolean:
                return std::string(key.as_bool() ? "true" : "false");
            case Kind::integer:
                return std::to_string(key.as_integer());
            case Kind::real:
                return json_real(key.as_real());
            default:
                return fail("tojson: keys must be str, int, float, bool or None, not {}", type_name(key));
        }
    }

    TextBuilder& out_;
    const JsonStyle& style_;
};

Result<Value> checked_string(Runtime& rt, const std::string& text) {
    if (!is_valid_utf8(text)) return fail("a string given to the template is not valid UTF-8");
    return rt.string(text);
}

Result<Value> convert(Runtime& rt, const ordered_json& json, int depth) {
    if (depth > kMaxValueDepth) return fail("the input is nested more than {} levels deep", kMaxValueDepth);
    TRY(rt.step());
    switch (json.type()) {
        case ordered_json::value_t::null:
            return Value::none();
        case ordered_json::value_t::boolean:
            return Value::boolean(json.get<bool>());
        case ordered_json::value_t::number_integer:
            return Value::integer(json.get<int64_t>());
        case ordered_json::value_t::number_unsigned: {
            uint64_t u = json.get<uint64_t>();
            if (u > static_cast<uint64_t>(INT64_MAX)) return Value::real(static_cast<double>(u));
            return Value::integer(static_cast<int64_t>(u));
        }
        case ordered_json::value_t::number_float:
            return Value::real(json.get<double>());
        case ordered_json::value_t::string:
            return checked_string(rt, json.get_ref<const std::string&>());
        case ordered_json::value_t::array: {
            std::vector<Value> items;
            TRY(rt.room(json.size() * sizeof(Value)));
            items.reserve(json.size());
            for (const auto& item : json) items.push_back(TRY(convert(rt, item, depth + 1)));
            return rt.list(std::move(items));
        }
        case ordered_json::value_t::object: {
            std::vector<Entry> entries;
            TRY(rt.room(json.size() * sizeof(Entry)));
            entries.reserve(json.size());
            for (const auto& [key, item] : json.items()) {
                Value k = TRY(checked_string(rt, key));
                entries.emplace_back(std::move(k), TRY(convert(rt, item, depth + 1)));
            }
            return rt.dict(std::move(entries));
        }
        default:
            return fail("the input has a JSON value that templates cannot use");
    }
}

}  // namespace

Status append_json(TextBuilder& out, const Value& value, const JsonStyle& style) {
    return JsonWriter(out, style).write(value, 0);
}

Result<Value> from_json(Runtime& rt, const ordered_json& json) {
    return convert(rt, json, 0);
}

}  // namespace tandem::text::jinja
