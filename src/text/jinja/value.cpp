#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::text::jinja {

namespace {

constexpr size_t kIndexedFrom = 12;  // below that a walk over the entries is faster

template <typename T>
int three_way(const T& a, const T& b) {
    if (a < b) return -1;
    return b < a ? 1 : 0;
}

int compare_integer_with_real(int64_t i, double d) {
    if (d >= 0x1p63) return -1;
    if (d < -0x1p63) return 1;
    double whole = std::floor(d);
    int64_t w = static_cast<int64_t>(whole);
    if (i != w) return i < w ? -1 : 1;
    return whole < d ? -1 : 0;
}

// Numbers of all types together, since 1 == 1.0 == True.
int key_rank(const Value& v) {
    return v.is_number() ? static_cast<int>(Kind::integer) : static_cast<int>(v.kind());
}

int compare_number_keys(const Value& a, const Value& b) {
    bool a_nan = a.is(Kind::real) && std::isnan(a.as_real());
    bool b_nan = b.is(Kind::real) && std::isnan(b.as_real());
    if (a_nan || b_nan) return three_way(a_nan, b_nan);
    return compare_numbers(a, b);
}

}  // namespace

const std::string& Value::text() const {
    CHECK(kind_ == Kind::string, "not a string");
    return get<StringObject>().text;
}

bool Value::is_safe() const {
    return kind_ == Kind::string && get<StringObject>().safe;
}

const std::vector<Value>& Value::items() const {
    CHECK(kind_ == Kind::list || kind_ == Kind::tuple, "not a list");
    return get<ListObject>().items;
}

DictObject::DictObject(std::vector<Entry> unique_entries) : entries(std::move(unique_entries)) {
    if (entries.size() < kIndexedFrom) return;
    order.resize(entries.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<uint32_t>(i);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return compare_keys(entries[a].first, entries[b].first) < 0; });
}

const Value* DictObject::find(const Value& key) const {
    if (order.empty()) {
        for (const Entry& e : entries) {
            if (compare_keys(e.first, key) == 0) return &e.second;
        }
        return nullptr;
    }
    auto before = [&](uint32_t i, const Value& k) { return compare_keys(entries[i].first, k) < 0; };
    auto it = std::lower_bound(order.begin(), order.end(), key, before);
    if (it == order.end() || compare_keys(entries[*it].first, key) != 0) return nullptr;
    return &entries[*it].second;
}

const Value* DictObject::find(std::string_view key) const {
    static constexpr int kStringRank = static_cast<int>(Kind::string);
    auto compare = [key](const Value& v) {
        return v.is(Kind::string) ? v.text().compare(key) : three_way(key_rank(v), kStringRank);
    };
    if (order.empty()) {
        for (const Entry& e : entries) {
            if (compare(e.first) == 0) return &e.second;
        }
        return nullptr;
    }
    auto it =
        std::partition_point(order.begin(), order.end(), [&](uint32_t i) { return compare(entries[i].first) < 0; });
    if (it == order.end() || compare(entries[*it].first) != 0) return nullptr;
    return &entries[*it].second;
}

const Value* NamespaceObject::find(std::string_view name) const {
    for (const auto& [key, value] : attributes) {
        if (key == name) return &value;
    }
    return nullptr;
}

Value constant_string(std::string text) {
    return Value(Kind::string, std::make_shared<StringObject>(std::move(text), false));
}

std::string_view type_name(const Value& value) {
    switch (value.kind()) {
        case Kind::undefined:
            return "Undefined";
        case Kind::none:
            return "NoneType";
        case Kind::boolean:
            return "bool";
        case Kind::integer:
            return "int";
        case Kind::real:
            return "float";
        case Kind::string:
            return value.is_safe() ? "Markup" : "str";
        case Kind::list:
            return "list";
        case Kind::tuple:
            return "tuple";
        case Kind::dict:
            return "dict";
        case Kind::range:
            return "range";
        case Kind::view:
            switch (value.get<ViewObject>().of) {
                case ViewOf::keys:
                    return "dict_keys";
                case ViewOf::values:
                    return "dict_values";
                case ViewOf::items:
                    return "dict_items";
            }
            return "dict_items";
        case Kind::iterator:
            return "generator";
        case Kind::name_space:
            return "Namespace";
        case Kind::macro:
            return "Macro";
        case Kind::function:
            return "function";
        case Kind::method:
            return "method";
        case Kind::loop:
            return "LoopContext";
        case Kind::joiner:
            return "Joiner";
        case Kind::cycler:
            return "Cycler";
    }
    return "object";
}

int compare_numbers(const Value& a, const Value& b) {
    if (a.is_integer() && b.is_integer()) return three_way(a.as_integer(), b.as_integer());
    if (a.is_integer()) return compare_integer_with_real(a.as_integer(), b.as_real());
    if (b.is_integer()) return -compare_integer_with_real(b.as_integer(), a.as_real());
    return three_way(a.as_real(), b.as_real());
}

int compare_keys(const Value& a, const Value& b) {
    if (int c = three_way(key_rank(a), key_rank(b))) return c;
    if (a.is_number()) return compare_number_keys(a, b);
    switch (a.kind()) {
        case Kind::undefined:
        case Kind::none:
            return 0;
        case Kind::string:
            return a.text().compare(b.text());
        case Kind::tuple: {
            const auto& x = a.items();
            const auto& y = b.items();
            for (size_t i = 0; i < x.size() && i < y.size(); i++) {
                if (int c = compare_keys(x[i], y[i])) return c;
            }
            return three_way(x.size(), y.size());
        }
        default:
            return three_way(a.object(), b.object());
    }
}

size_t key_weight(const Value& value) {
    constexpr size_t kMaxKeyWeight = 1000;
    switch (value.kind()) {
        case Kind::list:
        case Kind::dict:
            return 0;
        case Kind::view:
            return value.get<ViewObject>().of == ViewOf::values ? 1 : 0;
        case Kind::tuple: {
            size_t weight = value.get<ListObject>().weight;
            return weight <= kMaxKeyWeight ? weight : 0;
        }
        default:
            return 1;
    }
}

}  // namespace tandem::text::jinja
