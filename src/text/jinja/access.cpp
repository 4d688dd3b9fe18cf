// Iteration, subscripts and attributes of values.
#include <algorithm>
#include <array>

#include "text/jinja/native.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"

namespace tandem::text::jinja {

namespace {

Result<std::vector<Value>> characters(Runtime& rt, const std::string& text) {
    std::vector<Value> out;
    TRY(rt.room(text.size() * sizeof(Value)));
    out.reserve(utf8::length(text));
    for (size_t pos = 0; pos < text.size();) {
        size_t start = pos;
        utf8::next(text, pos);
        out.push_back(TRY(rt.string(text.substr(start, pos - start))));
    }
    return out;
}

Result<std::vector<Value>> view_items(Runtime& rt, const ViewObject& view) {
    const auto& entries = view.dict.get<DictObject>().entries;
    std::vector<Value> out;
    out.reserve(entries.size());
    for (const auto& [key, value] : entries) {
        if (view.of == ViewOf::items) {
            out.push_back(TRY(rt.tuple({key, value})));
        } else {
            out.push_back(view.of == ViewOf::keys ? key : value);
        }
    }
    return out;
}

std::vector<Value> range_items(const RangeObject& range) {
    std::vector<Value> out;
    out.reserve(static_cast<size_t>(range.count));
    for (int64_t i = 0; i < range.count; i++) out.push_back(Value::integer(range.at(i)));
    return out;
}

Result<Value> missing_item(Runtime& rt, const Value& object, const Value& key) {
    if (key.is(Kind::string)) {
        return rt.undefined(fmt::format("'{} object' has no attribute {}", type_name(object), quote_name(key.text())));
    }
    if (key.is_integer()) {
        return rt.undefined(fmt::format("{} object has no element {}", type_name(object), key.as_integer()));
    }
    return rt.undefined(fmt::format("{} object has no such element", type_name(object)));
}

// The position of an index that may count from the end.
std::optional<size_t> position(int64_t index, int64_t count) {
    if (index < 0) index += count;
    if (index < 0 || index >= count) return std::nullopt;
    return static_cast<size_t>(index);
}

Result<std::optional<Value>> subscript(Runtime& rt, const Value& object, const Value& key) {
    std::optional<Value> none;
    if (object.is(Kind::dict)) {
        if (key_weight(key) == 0) return none;
        const Value* found = object.get<DictObject>().find(key);
        return found ? std::optional<Value>(*found) : none;
    }
    if (!key.is_integer()) return none;
    switch (object.kind()) {
        case Kind::list:
        case Kind::tuple: {
            auto at = position(key.as_integer(), static_cast<int64_t>(object.items().size()));
            return at ? std::optional<Value>(object.items()[*at]) : none;
        }
        case Kind::range: {
            const auto& range = object.get<RangeObject>();
            auto at = position(key.as_integer(), range.count);
            return at ? std::optional<Value>(Value::integer(range.at(static_cast<int64_t>(*at)))) : none;
        }
        case Kind::string: {
            const std::string& text = object.text();
            TRY(rt.copy(text.size()));
            auto at = position(key.as_integer(), static_cast<int64_t>(utf8::length(text)));
            if (!at) return none;
            size_t start = utf8::offset(text, *at);
            size_t end = start;
            utf8::next(text, end);
            return std::optional<Value>(TRY(rt.string(text.substr(start, end - start), object.is_safe())));
        }
        default:
            return none;
    }
}

// What would change a list or dict. Jinja's immutable sandbox hides these.
bool is_mutator(Kind kind, std::string_view name) {
    constexpr std::array<std::string_view, 8> kList = {"append", "reverse", "insert", "sort",
                                                       "extend", "remove",  "pop",    "clear"};
    constexpr std::array<std::string_view, 5> kDict = {"clear", "pop", "popitem", "setdefault", "update"};
    if (kind == Kind::list) return std::find(kList.begin(), kList.end(), name) != kList.end();
    return kind == Kind::dict && std::find(kDict.begin(), kDict.end(), name) != kDict.end();
}

Result<std::optional<Value>> loop_attribute(Runtime& rt, const LoopObject& loop, std::string_view name) {
    using Found = std::optional<Value>;
    auto count = static_cast<int64_t>(loop.items.size());
    if (name == "index") return Found(Value::integer(loop.index + 1));
    if (name == "index0") return Found(Value::integer(loop.index));
    if (name == "revindex") return Found(Value::integer(count - loop.index));
    if (name == "revindex0") return Found(Value::integer(count - loop.index - 1));
    if (name == "first") return Found(Value::boolean(loop.index == 0));
    if (name == "last") return Found(Value::boolean(loop.index + 1 >= count));
    if (name == "length") return Found(Value::integer(count));
    if (name == "depth") return Found(Value::integer(1));
    if (name == "depth0") return Found(Value::integer(0));
    if (name == "previtem") {
        if (loop.index == 0) return Found(TRY(rt.undefined("there is no previous item")));
        return Found(loop.items[static_cast<size_t>(loop.index - 1)]);
    }
    if (name == "nextitem") {
        if (loop.index + 1 >= count) return Found(TRY(rt.undefined("there is no next item")));
        return Found(loop.items[static_cast<size_t>(loop.index + 1)]);
    }
    return Found();
}

std::optional<Value> range_attribute(const RangeObject& range, std::string_view name) {
    if (name == "start") return Value::integer(range.start);
    if (name == "stop") return Value::integer(range.stop);
    if (name == "step") return Value::integer(range.step);
    return std::nullopt;
}

Result<std::optional<Value>> data_attribute(Runtime& rt, const Value& object, std::string_view name) {
    using Found = std::optional<Value>;
    switch (object.kind()) {
        case Kind::name_space: {
            const Value* found = object.get<NamespaceObject>().find(name);
            return found ? Found(*found) : Found();
        }
        case Kind::loop:
            return loop_attribute(rt, object.get<LoopObject>(), name);
        case Kind::range:
            return range_attribute(object.get<RangeObject>(), name);
        case Kind::tuple:
            if (!object.get<ListObject>().is_group) return Found();
            if (name == "grouper") return Found(object.items()[0]);
            if (name == "list") return Found(object.items()[1]);
            return Found();
        case Kind::cycler: {
            const auto& cycler = object.get<CyclerObject>();
            return name == "current" ? Found(cycler.items[cycler.position]) : Found();
        }
        case Kind::macro:
            if (name == "name") return Found(TRY(rt.string(std::string(macro_name(object)))));
            return Found();
        default:
            return Found();
    }
}

// Start, step and count of the slice of a sequence.
struct Span {
    int64_t start, step, count;
};

Result<std::optional<int64_t>> slice_index(const Value& v) {
    if (v.is(Kind::none)) return std::optional<int64_t>();
    if (v.is_integer()) return std::optional<int64_t>(v.as_integer());
    if (v.is(Kind::undefined)) return undefined_error(v);
    return fail("slice indices must be integers or None, not {}", type_name(v));
}

Result<Span> resolve_slice(const SliceBounds& bounds, int64_t length) {
    auto start = TRY(slice_index(bounds.start));
    auto stop = TRY(slice_index(bounds.stop));
    int64_t step = TRY(slice_index(bounds.step)).value_or(1);
    if (step == 0) return fail("slice step cannot be zero");
    step = std::max(step, -INT64_MAX);
    int64_t low = step > 0 ? 0 : -1;
    int64_t high = step > 0 ? length : length - 1;
    auto clamp = [&](std::optional<int64_t> v, int64_t otherwise) {
        if (!v) return otherwise;
        return std::clamp(*v < 0 ? *v + length : *v, low, high);
    };
    int64_t first = clamp(start, step > 0 ? low : high);
    int64_t end = clamp(stop, step > 0 ? high : low);
    int64_t count = 0;
    if (step > 0 && end > first) count = (end - first - 1) / step + 1;
    if (step < 0 && end < first) count = (first - end - 1) / -step + 1;
    return Span{first, step, count};
}

Result<Value> slice_string(Runtime& rt, const Value& object, const SliceBounds& bounds) {
    const std::string& text = object.text();
    TRY(rt.copy(text.size()));
    Span span = TRY(resolve_slice(bounds, static_cast<int64_t>(utf8::length(text))));
    auto first = static_cast<size_t>(span.start);
    if (span.count == 0) return rt.string("", object.is_safe());
    if (span.step == 1) {
        size_t begin = utf8::offset(text, first);
        size_t size = utf8::offset(std::string_view(text).substr(begin), static_cast<size_t>(span.count));
        return rt.string(text.substr(begin, size), object.is_safe());
    }
    TRY(rt.room(text.size() * sizeof(size_t)));
    std::vector<size_t> starts;
    for (size_t pos = 0; pos < text.size(); utf8::next(text, pos)) starts.push_back(pos);
    std::string out;
    for (int64_t i = 0; i < span.count; i++) {
        size_t pos = starts[static_cast<size_t>(span.start + i * span.step)];
        size_t end = pos;
        utf8::next(text, end);
        out.append(text, pos, end - pos);
    }
    return rt.string(std::move(out), object.is_safe());
}

Result<Value> slice_items(Runtime& rt, const Value& object, const SliceBounds& bounds) {
    const auto& items = object.items();
    Span span = TRY(resolve_slice(bounds, static_cast<int64_t>(items.size())));
    TRY(rt.room(static_cast<size_t>(span.count) * sizeof(Value)));
    std::vector<Value> out;
    out.reserve(static_cast<size_t>(span.count));
    for (int64_t i = 0; i < span.count; i++) out.push_back(items[static_cast<size_t>(span.start + i * span.step)]);
    return object.is(Kind::list) ? rt.list(std::move(out)) : rt.tuple(std::move(out));
}

Result<Value> slice_range(Runtime& rt, const RangeObject& range, const SliceBounds& bounds) {
    __extension__ using Wide = __int128;
    Span span = TRY(resolve_slice(bounds, range.count));
    Wide step = Wide{range.step} * span.step;
    Wide start = range.start + Wide{range.step} * span.start;
    Wide stop = start + step * span.count;
    auto fits = [](Wide v) { return v >= INT64_MIN && v <= INT64_MAX; };
    if (!fits(step) || !fits(start) || !fits(stop)) return fail("the slice of a range does not fit in 64-bit integers");
    return rt.range(static_cast<int64_t>(start), static_cast<int64_t>(stop), static_cast<int64_t>(step));
}

}  // namespace

bool is_iterable(const Value& value) {
    switch (value.kind()) {
        case Kind::undefined:
        case Kind::string:
        case Kind::list:
        case Kind::tuple:
        case Kind::dict:
        case Kind::range:
        case Kind::view:
        case Kind::iterator:
            return true;
        default:
            return false;
    }
}

Result<std::vector<Value>> iterate(Runtime& rt, const Value& value) {
    if (!is_iterable(value)) return fail("'{}' object is not iterable", type_name(value));
    if (value.is(Kind::undefined)) return std::vector<Value>();
    if (value.is(Kind::string)) return characters(rt, value.text());
    if (value.is(Kind::iterator)) {
        auto& it = value.state<IteratorObject>();
        TRY(rt.step(it.items.size()));
        std::vector<Value> rest(it.items.begin() + static_cast<std::ptrdiff_t>(it.next), it.items.end());
        it.next = it.items.size();
        return rest;
    }
    auto count = static_cast<size_t>(TRY(length(value)));
    TRY(rt.room(count * sizeof(Value)));
    TRY(rt.step(count));
    switch (value.kind()) {
        case Kind::list:
        case Kind::tuple:
            return value.items();
        case Kind::range:
            return range_items(value.get<RangeObject>());
        case Kind::view:
            return view_items(rt, value.get<ViewObject>());
        default: {
            std::vector<Value> keys;
            keys.reserve(count);
            for (const Entry& e : value.get<DictObject>().entries) keys.push_back(e.first);
            return keys;
        }
    }
}

Result<int64_t> length(const Value& value) {
    switch (value.kind()) {
        case Kind::undefined:
            return 0;
        case Kind::string:
            return static_cast<int64_t>(utf8::length(value.text()));
        case Kind::list:
        case Kind::tuple:
            return static_cast<int64_t>(value.items().size());
        case Kind::dict:
            return static_cast<int64_t>(value.get<DictObject>().entries.size());
        case Kind::range:
            return value.get<RangeObject>().count;
        case Kind::view:
            return length(value.get<ViewObject>().dict);
        case Kind::loop:
            return static_cast<int64_t>(value.get<LoopObject>().items.size());
        default:
            return fail("object of type '{}' has no len()", type_name(value));
    }
}

Result<std::optional<Value>> find_attribute(Runtime& rt, const Value& object, std::string_view name) {
    using Found = std::optional<Value>;
    if (object.is(Kind::undefined)) return undefined_error(object);
    if (name.starts_with("__") || is_mutator(object.kind(), name)) {
        return Found(TRY(rt.undefined(
            fmt::format("access to attribute {} of '{}' object is unsafe", quote_name(name), type_name(object)))));
    }
    if (Found data = TRY(data_attribute(rt, object, name))) return data;
    const Native* native = object.is(Kind::string) ? find_string_method(name) : find_object_method(object.kind(), name);
    return native ? Found(TRY(rt.method(object, native))) : Found();
}

Result<Value> get_attribute(Runtime& rt, const Value& object, std::string_view name) {
    if (std::optional<Value> found = TRY(find_attribute(rt, object, name))) return *found;
    if (object.is(Kind::dict)) {
        if (const Value* item = object.get<DictObject>().find(name)) return *item;
    }
    return rt.undefined(fmt::format("'{} object' has no attribute {}", type_name(object), quote_name(name)));
}

Result<Value> get_item(Runtime& rt, const Value& object, const Value& key) {
    TRY(rt.step());
    if (object.is(Kind::undefined)) return undefined_error(object);
    if (std::optional<Value> found = TRY(subscript(rt, object, key))) return *found;
    if (key.is(Kind::string)) {
        if (std::optional<Value> found = TRY(find_attribute(rt, object, key.text()))) return *found;
    }
    return missing_item(rt, object, key);
}

Result<Value> get_slice(Runtime& rt, const Value& object, const SliceBounds& bounds) {
    switch (object.kind()) {
        case Kind::undefined:
            return undefined_error(object);
        case Kind::string:
            return slice_string(rt, object, bounds);
        case Kind::list:
        case Kind::tuple:
            return slice_items(rt, object, bounds);
        case Kind::range:
            return slice_range(rt, object.get<RangeObject>(), bounds);
        default:
            return fail("'{}' object cannot be sliced", type_name(object));
    }
}

Status set_attribute(Runtime& rt, NamespaceObject& ns, std::string_view name, Value value) {
    TRY(rt.step(1 + ns.attributes.size() / 16));
    for (auto& [key, old] : ns.attributes) {
        if (key == name) {
            old = std::move(value);
            return Ok{};
        }
    }
    size_t bytes = 2 * (sizeof(Value) + sizeof(std::string)) + name.size();
    TRY(rt.room(bytes));
    ns.memory->used += bytes;
    ns.bytes += bytes;
    ns.attributes.emplace_back(std::string(name), std::move(value));
    return Ok{};
}

}  // namespace tandem::text::jinja
