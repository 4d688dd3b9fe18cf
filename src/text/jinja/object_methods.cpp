// Methods of lists, tuples, dicts, ranges, loops and cyclers.
#include <array>

#include "text/jinja/native.h"
#include "text/jinja/operators.h"

namespace tandem::text::jinja {

namespace {

// Lists, tuples and ranges.

Result<Value> sequence_index(const Call& call) {
    std::vector<Value> items = TRY(iterate(call.rt, call.self));
    auto count = static_cast<int64_t>(items.size());
    int64_t start = TRY(integer_argument(call.param[1], 0));
    int64_t stop = TRY(integer_argument(call.param[2], count));
    if (start < 0) start = std::max<int64_t>(start + count, 0);
    if (stop < 0) stop += count;
    for (int64_t i = start; i < std::min(stop, count); i++) {
        if (TRY(equal(call.rt, items[static_cast<size_t>(i)], *call.param[0]))) return Value::integer(i);
    }
    return fail("index(): the value is not in the {}", type_name(call.self));
}

Result<Value> sequence_count(const Call& call) {
    int64_t n = 0;
    for (const Value& v : TRY(iterate(call.rt, call.self))) {
        if (TRY(equal(call.rt, v, *call.param[0]))) n++;
    }
    return Value::integer(n);
}

// What would be a copy in Python: values do not change, so it is the value itself.
Result<Value> copy(const Call& call) {
    return call.self;
}

// Dicts.

Result<Value> get(const Call& call) {
    if (key_weight(*call.param[0]) == 0) return fail("unhashable type: '{}'", type_name(*call.param[0]));
    if (const Value* found = call.self.get<DictObject>().find(*call.param[0])) return *found;
    return call.param[1] ? *call.param[1] : Value::none();
}
Result<Value> keys(const Call& call) {
    return call.rt.view(call.self, ViewOf::keys);
}
Result<Value> values(const Call& call) {
    return call.rt.view(call.self, ViewOf::values);
}
Result<Value> items(const Call& call) {
    return call.rt.view(call.self, ViewOf::items);
}

// Loops.

Result<Value> cycle(const Call& call) {
    const auto& choices = call.args.positional;
    if (!call.args.named.empty()) return fail("cycle() takes no keyword arguments");
    if (choices.empty()) return fail("no items for cycling given");
    return choices[static_cast<size_t>(call.self.get<LoopObject>().index) % choices.size()];
}

Result<Value> changed(const Call& call) {
    auto& loop = call.self.state<LoopObject>();
    const auto& now = call.args.positional;
    if (!call.args.named.empty()) return fail("changed() takes no keyword arguments");
    bool same = loop.has_last_changed && loop.last_changed.size() == now.size();
    for (size_t i = 0; same && i < now.size(); i++) same = TRY(equal(call.rt, loop.last_changed[i], now[i]));
    if (same) return Value::boolean(false);
    if (!loop.has_last_changed) call.rt.remember(call.self);
    loop.has_last_changed = true;
    loop.last_changed = now;
    return Value::boolean(true);
}

// Cyclers.

Result<Value> cycler_next(const Call& call) {
    auto& cycler = call.self.state<CyclerObject>();
    Value current = cycler.items[cycler.position];
    cycler.position = (cycler.position + 1) % cycler.items.size();
    return current;
}
Result<Value> cycler_reset(const Call& call) {
    call.self.state<CyclerObject>().position = 0;
    return Value::none();
}

constexpr auto kListMethods = std::to_array<Native>({
    {"copy", copy},
    {"count", sequence_count, {"/value"}, 1},
    {"index", sequence_index, {"/value", "/start", "/stop"}, 1},
});
constexpr auto kTupleMethods = std::to_array<Native>({
    {"count", sequence_count, {"/value"}, 1},
    {"index", sequence_index, {"/value", "/start", "/stop"}, 1},
});
constexpr auto kDictMethods = std::to_array<Native>({
    {"copy", copy},
    {"get", get, {"/key", "/default"}, 1},
    {"items", items},
    {"keys", keys},
    {"values", values},
});
constexpr auto kLoopMethods = std::to_array<Native>({
    {"changed", changed, {}, 0, true},
    {"cycle", cycle, {}, 0, true},
});
constexpr auto kCyclerMethods = std::to_array<Native>({
    {"next", cycler_next},
    {"reset", cycler_reset},
});

}  // namespace

const Native* find_object_method(Kind kind, std::string_view name) {
    switch (kind) {
        case Kind::list:
            return find_native(kListMethods, name);
        case Kind::tuple:
        case Kind::range:
            return find_native(kTupleMethods, name);
        case Kind::dict:
            return find_native(kDictMethods, name);
        case Kind::loop:
            return find_native(kLoopMethods, name);
        case Kind::cycler:
            return find_native(kCyclerMethods, name);
        default:
            return nullptr;
    }
}

}  // namespace tandem::text::jinja
