// Filters that choose, order and group items.
#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "text/jinja/filters.h"
#include "text/jinja/numbers.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/utf8.h"

namespace tandem::text::jinja {

namespace {

// "a.b.0" as the steps from an item to a value inside of it.
class AttributePath {
  public:
    static Result<AttributePath> parse(Runtime& rt, const Value* attribute) {
        AttributePath path;
        if (!given(attribute)) return path;
        if (!attribute->is(Kind::string)) {
            path.steps_.push_back(*attribute);
            return path;
        }
        TRY(path.add(rt, attribute->text()));
        return path;
    }

    // Several paths separated by commas, for sort.
    static Result<std::vector<AttributePath>> parse_all(Runtime& rt, const Value* attribute) {
        std::vector<AttributePath> paths;
        if (!given(attribute) || !attribute->is(Kind::string)) {
            paths.push_back(TRY(parse(rt, attribute)));
            return paths;
        }
        std::string_view rest = attribute->text();
        while (true) {
            size_t comma = rest.find(',');
            AttributePath path;
            TRY(path.add(rt, rest.substr(0, comma)));
            paths.push_back(std::move(path));
            if (comma == std::string_view::npos) return paths;
            rest.remove_prefix(comma + 1);
        }
    }

    Result<Value> follow(Runtime& rt, const Value& item, const Value* otherwise = nullptr) const {
        Value value = item;
        for (const Value& step : steps_) {
            value = TRY(get_item(rt, value, step));
            if (given(otherwise) && value.is(Kind::undefined)) value = *otherwise;
        }
        return value;
    }

  private:
    Status add(Runtime& rt, std::string_view text) {
        while (true) {
            size_t dot = text.find('.');
            std::string_view part = text.substr(0, dot);
            bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
            auto number = digits ? parse_integer(part, 10) : std::nullopt;
            steps_.push_back(number ? Value::integer(*number) : TRY(rt.string(std::string(part))));
            if (dot == std::string_view::npos) return Ok{};
            text.remove_prefix(dot + 1);
        }
    }

    std::vector<Value> steps_;
};

Result<Value> fold_case(Runtime& rt, const Value& value, bool case_sensitive) {
    if (case_sensitive || !value.is(Kind::string)) return value;
    return call_native(rt, *find_string_method("lower"), value, {});
}

struct Keyed {
    std::vector<Value> keys;
    Value item;
};

// What sorting n items needs beside the items.
Status room_for_keys(Runtime& rt, size_t n) {
    return rt.room(n * (2 * sizeof(Keyed) + sizeof(Value)));
}

// Whether a comes before b: by its one key, or by the first of several that differs.
Result<bool> before(Runtime& rt, const std::vector<Value>& a, const std::vector<Value>& b, bool one_key) {
    if (one_key) return compare(rt, CompareOp::less, a[0], b[0]);
    for (size_t i = 0; i < a.size(); i++) {
        if (TRY(equal(rt, a[i], b[i]))) continue;
        return compare(rt, CompareOp::less, a[i], b[i]);
    }
    return false;
}

// Stable, also in reverse; the first failing comparison is the result.
Result<std::vector<Value>> sorted(Runtime& rt, std::vector<Keyed> items, bool reverse, bool one_key) {
    std::optional<Error> error;
    std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
        if (error) return false;
        Result<bool> r = reverse ? before(rt, b.keys, a.keys, one_key) : before(rt, a.keys, b.keys, one_key);
        if (r) return *r;
        error = std::move(r).error();
        return false;
    });
    if (error) return std::move(*error);
    std::vector<Value> out;
    out.reserve(items.size());
    for (Keyed& k : items) out.push_back(std::move(k.item));
    return out;
}

Result<Value> sort(const Call& call) {
    bool reverse = truth_argument(call.param[0], false);
    bool case_sensitive = truth_argument(call.param[1], false);
    auto paths = TRY(AttributePath::parse_all(call.rt, call.param[2]));
    std::vector<Value> all = TRY(iterate(call.rt, call.self));
    TRY(room_for_keys(call.rt, all.size() * paths.size()));
    std::vector<Keyed> items;
    for (const Value& v : all) {
        Keyed keyed{.keys = {}, .item = v};
        for (const AttributePath& path : paths) {
            Value key = TRY(path.follow(call.rt, v));
            keyed.keys.push_back(TRY(fold_case(call.rt, key, case_sensitive)));
        }
        items.push_back(std::move(keyed));
    }
    return call.rt.list(TRY(sorted(call.rt, std::move(items), reverse, false)));
}

Result<Value> dictsort(const Call& call) {
    bool case_sensitive = truth_argument(call.param[0], false);
    std::string_view by = call.param[1] ? TRY(string_argument(*call.param[1])) : std::string_view("key");
    bool reverse = truth_argument(call.param[2], false);
    if (by != "key" && by != "value") return fail("dictsort: you can only sort by either \"key\" or \"value\"");
    if (call.self.is(Kind::undefined)) return undefined_error(call.self);
    if (!call.self.is(Kind::dict)) return fail("dictsort needs a dict, not {}", type_name(call.self));
    TRY(room_for_keys(call.rt, call.self.get<DictObject>().entries.size()));
    std::vector<Keyed> items;
    for (const auto& [key, value] : call.self.get<DictObject>().entries) {
        Value sort_key = TRY(fold_case(call.rt, by == "key" ? key : value, case_sensitive));
        Value item = TRY(call.rt.tuple({key, value}));
        items.push_back({.keys = {std::move(sort_key)}, .item = std::move(item)});
    }
    return call.rt.list(TRY(sorted(call.rt, std::move(items), reverse, true)));
}

Result<Value> groupby(const Call& call) {
    AttributePath path = TRY(AttributePath::parse(call.rt, call.param[0]));
    bool case_sensitive = truth_argument(call.param[2], false);
    std::vector<Value> all = TRY(iterate(call.rt, call.self));
    TRY(room_for_keys(call.rt, all.size()));
    std::vector<Keyed> items;
    for (const Value& v : all) {
        Value key = TRY(path.follow(call.rt, v, call.param[1]));
        items.push_back({.keys = {TRY(fold_case(call.rt, key, case_sensitive))}, .item = v});
    }
    std::vector<Value> in_order = TRY(sorted(call.rt, std::move(items), false, true));
    std::vector<Value> groups;
    for (size_t i = 0; i < in_order.size();) {
        Value grouper = TRY(path.follow(call.rt, in_order[i], call.param[1]));
        Value folded = TRY(fold_case(call.rt, grouper, case_sensitive));
        std::vector<Value> members;
        for (; i < in_order.size(); i++) {
            Value key = TRY(path.follow(call.rt, in_order[i], call.param[1]));
            key = TRY(fold_case(call.rt, key, case_sensitive));
            if (!members.empty() && !TRY(equal(call.rt, folded, key))) break;
            members.push_back(in_order[i]);
        }
        Value list_of_members = TRY(call.rt.list(std::move(members)));
        groups.push_back(TRY(call.rt.group(std::move(grouper), std::move(list_of_members))));
    }
    return call.rt.list(std::move(groups));
}

struct KeyLess {
    bool operator()(const Value& a, const Value& b) const { return compare_keys(a, b) < 0; }
};

Result<Value> unique(const Call& call) {
    bool case_sensitive = truth_argument(call.param[0], false);
    AttributePath path = TRY(AttributePath::parse(call.rt, call.param[1]));
    std::vector<Value> all = TRY(iterate(call.rt, call.self));
    TRY(room_for_keys(call.rt, all.size()));
    std::set<Value, KeyLess> seen;
    std::vector<Value> out;
    for (const Value& v : all) {
        Value key = TRY(path.follow(call.rt, v));
        key = TRY(fold_case(call.rt, key, case_sensitive));
        if (key_weight(key) == 0) return fail("unhashable type: '{}'", type_name(key));
        if (seen.insert(key).second) out.push_back(v);
    }
    return call.rt.iterator(std::move(out));
}

Result<Value> extreme(const Call& call, CompareOp better) {
    bool case_sensitive = truth_argument(call.param[0], false);
    AttributePath path = TRY(AttributePath::parse(call.rt, call.param[1]));
    std::optional<Keyed> best;
    for (const Value& v : TRY(iterate(call.rt, call.self))) {
        Value key = TRY(path.follow(call.rt, v));
        key = TRY(fold_case(call.rt, key, case_sensitive));
        if (!best || TRY(compare(call.rt, better, key, best->keys[0]))) best = Keyed{.keys = {key}, .item = v};
    }
    if (!best) return call.rt.undefined("No aggregated item, sequence was empty.");
    return best->item;
}
Result<Value> min(const Call& call) {
    return extreme(call, CompareOp::less);
}
Result<Value> max(const Call& call) {
    return extreme(call, CompareOp::greater);
}

Result<Value> sum(const Call& call) {
    AttributePath path = TRY(AttributePath::parse(call.rt, call.param[0]));
    Value total = call.param[1] ? *call.param[1] : Value::integer(0);
    if (total.is(Kind::string)) return fail("sum() can't sum strings: use the filter join instead");
    for (const Value& v : TRY(iterate(call.rt, call.self))) {
        Value term = TRY(path.follow(call.rt, v));
        total = TRY(binary(call.rt, BinaryOp::add, total, term));
    }
    return total;
}

// One item, or another form of all of them.

Result<Value> first(const Call& call) {
    if (call.self.is(Kind::iterator)) {
        auto& it = call.self.state<IteratorObject>();
        if (it.next < it.items.size()) return it.items[it.next++];
        return call.rt.undefined("No first item, sequence was empty.");
    }
    std::vector<Value> items = TRY(iterate(call.rt, call.self));
    if (items.empty()) return call.rt.undefined("No first item, sequence was empty.");
    return items.front();
}

Result<Value> last(const Call& call) {
    if (call.self.is(Kind::iterator)) return fail("the filter last needs a list: apply the filter list first");
    std::vector<Value> items = TRY(iterate(call.rt, call.self));
    if (items.empty()) return call.rt.undefined("No last item, sequence was empty.");
    return items.back();
}

Result<Value> random(const Call&) {
    return fail("the filter random is not offered: the same conversation must give the same prompt");
}

Result<Value> reverse(const Call& call) {
    if (call.self.is(Kind::string)) {
        return get_slice(call.rt, call.self, {Value::none(), Value::none(), Value::integer(-1)});
    }
    std::vector<Value> items = TRY(iterate(call.rt, call.self));
    std::reverse(items.begin(), items.end());
    return call.self.is(Kind::iterator) ? call.rt.list(std::move(items)) : call.rt.iterator(std::move(items));
}

Result<Value> list(const Call& call) {
    return call.rt.list(TRY(iterate(call.rt, call.self)));
}

Result<Value> item_count(const Call& call) {
    if (call.self.is(Kind::string)) TRY(call.rt.copy(call.self.text().size()));
    return Value::integer(TRY(length(call.self)));
}

Result<Value> item_pairs(const Call& call) {
    if (call.self.is(Kind::undefined)) return call.rt.iterator({});
    if (!call.self.is(Kind::dict))
        return fail("can only get item pairs from a mapping, not from {}", type_name(call.self));
    Value view = TRY(call.rt.view(call.self, ViewOf::items));
    return call.rt.iterator(TRY(iterate(call.rt, view)));
}

Result<Value> joined(const Call& call) {
    Value separator = TRY(call.param[0] ? to_str(call.rt, *call.param[0]) : call.rt.string(""));
    AttributePath path = TRY(AttributePath::parse(call.rt, call.param[1]));
    TextBuilder out(call.rt);
    bool at_start = true;
    for (const Value& v : TRY(iterate(call.rt, call.self))) {
        if (!at_start) TRY(out.add(separator.text()));
        Value part = TRY(path.follow(call.rt, v));
        TRY(append_str(out, part));
        at_start = false;
    }
    return out.finish();
}

Result<Value> default_value(const Call& call) {
    bool replaced = call.self.is(Kind::undefined) || (truth_argument(call.param[1], false) && !truth(call.self));
    if (!replaced) return call.self;
    return call.param[0] ? Result<Value>(*call.param[0]) : call.rt.string("");
}

Result<Value> attr(const Call& call) {
    std::string_view name = TRY(string_argument(*call.param[0]));
    if (auto found = TRY(find_attribute(call.rt, call.self, name))) return *found;
    return call.rt.undefined(fmt::format("'{} object' has no attribute {}", type_name(call.self), quote_name(name)));
}

Result<Value> batch(const Call& call) {
    int64_t size = TRY(integer_argument(call.param[0], 0));
    std::vector<Value> batches;
    std::vector<Value> current;
    for (const Value& v : TRY(iterate(call.rt, call.self))) {
        if (static_cast<int64_t>(current.size()) == size) {
            batches.push_back(TRY(call.rt.list(std::move(current))));
            current.clear();
        }
        current.push_back(v);
    }
    if (!current.empty()) {
        auto missing = std::max<int64_t>(size - static_cast<int64_t>(current.size()), 0);
        if (given(call.param[1]) && missing > 0) {
            if (missing > kMaxRange) return fail("batch: {} items to fill are too many", missing);
            TRY(call.rt.room(static_cast<size_t>(missing) * sizeof(Value)));
            current.insert(current.end(), static_cast<size_t>(missing), *call.param[1]);
        }
        batches.push_back(TRY(call.rt.list(std::move(current))));
    }
    return call.rt.iterator(std::move(batches));
}

Result<Value> slice(const Call& call) {
    int64_t slices = TRY(integer_argument(call.param[0], 0));
    std::vector<Value> all = TRY(iterate(call.rt, call.self));
    if (slices == 0) return fail("slice: division by zero");
    if (slices > kMaxRange) return fail("slice: {} slices are too many", slices);
    auto total = static_cast<int64_t>(all.size());
    std::vector<Value> out;
    int64_t start = 0;
    for (int64_t i = 0; i < slices; i++) {
        bool longer = i < total % slices;
        int64_t end = start + total / slices + (longer ? 1 : 0);
        std::vector<Value> part(all.begin() + start, all.begin() + end);
        if (given(call.param[1]) && !longer) part.push_back(*call.param[1]);
        out.push_back(TRY(call.rt.list(std::move(part))));
        start = end;
    }
    return call.rt.iterator(std::move(out));
}

// map, select, reject, selectattr and rejectattr.

Result<Value> map_attribute(const Call& call) {
    const Value* attribute = nullptr;
    const Value* otherwise = nullptr;
    for (const auto& [name, value] : call.args.named) {
        if (name == "attribute") {
            attribute = &value;
        } else if (name == "default") {
            otherwise = &value;
        } else {
            return fail("map: unexpected keyword argument {}", quote_name(name));
        }
    }
    AttributePath path = TRY(AttributePath::parse(call.rt, attribute));
    std::vector<Value> out;
    for (const Value& v : TRY(iterate(call.rt, call.self))) out.push_back(TRY(path.follow(call.rt, v, otherwise)));
    return call.rt.iterator(std::move(out));
}

Result<Value> map(const Call& call) {
    if (!truth(call.self)) return call.rt.iterator({});
    const auto& args = call.args.positional;
    if (args.empty()) {
        for (const auto& [name, value] : call.args.named) {
            if (name == "attribute") return map_attribute(call);
        }
        return fail("map requires a filter argument");
    }
    Arguments rest{.positional = {args.begin() + 1, args.end()}, .named = call.args.named};
    std::vector<Value> out;
    for (const Value& v : TRY(iterate(call.rt, call.self))) {
        out.push_back(TRY(call_filter(call.rt, args[0], v, rest)));
    }
    return call.rt.iterator(std::move(out));
}

Result<Value> choose(const Call& call, bool wanted, bool by_attribute) {
    if (!truth(call.self)) return call.rt.iterator({});
    const auto& args = call.args.positional;
    size_t used = by_attribute ? 1 : 0;
    if (args.size() < used) return fail("missing parameter for attribute name");
    AttributePath path = TRY(AttributePath::parse(call.rt, by_attribute ? &args[0] : nullptr));
    const Value* test = args.size() > used ? &args[used] : nullptr;
    Arguments rest{.positional = {}, .named = call.args.named};
    if (test) rest.positional.assign(args.begin() + static_cast<std::ptrdiff_t>(used) + 1, args.end());
    std::vector<Value> out;
    for (const Value& v : TRY(iterate(call.rt, call.self))) {
        Value subject = TRY(path.follow(call.rt, v));
        bool passed = test ? TRY(call_test(call.rt, *test, subject, rest)) : truth(subject);
        if (passed == wanted) out.push_back(v);
    }
    return call.rt.iterator(std::move(out));
}
Result<Value> select(const Call& call) {
    return choose(call, true, false);
}
Result<Value> reject(const Call& call) {
    return choose(call, false, false);
}
Result<Value> selectattr(const Call& call) {
    return choose(call, true, true);
}
Result<Value> rejectattr(const Call& call) {
    return choose(call, false, true);
}

constexpr auto kSequenceFilters = std::to_array<Native>({
    {"attr", attr, {"name"}, 1},
    {"batch", batch, {"linecount", "fill_with"}, 1},
    {"count", item_count},
    {"d", default_value, {"default_value", "boolean"}},
    {"default", default_value, {"default_value", "boolean"}},
    {"dictsort", dictsort, {"case_sensitive", "by", "reverse"}},
    {"first", first},
    {"groupby", groupby, {"attribute", "default", "case_sensitive"}, 1},
    {"items", item_pairs},
    {"join", joined, {"d", "attribute"}},
    {"last", last},
    {"length", item_count},
    {"list", list},
    {"map", map, {}, 0, true},
    {"max", max, {"case_sensitive", "attribute"}},
    {"min", min, {"case_sensitive", "attribute"}},
    {"random", random},
    {"reject", reject, {}, 0, true},
    {"rejectattr", rejectattr, {}, 0, true},
    {"reverse", reverse},
    {"select", select, {}, 0, true},
    {"selectattr", selectattr, {}, 0, true},
    {"slice", slice, {"slices", "fill_with"}, 1},
    {"sort", sort, {"reverse", "case_sensitive", "attribute"}},
    {"sum", sum, {"attribute", "start"}},
    {"unique", unique, {"case_sensitive", "attribute"}},
});

}  // namespace

const Native* find_sequence_filter(std::string_view name) {
    return find_native(kSequenceFilters, name);
}

const Native* find_filter(std::string_view name) {
    const Native* native = find_text_filter(name);
    return native ? native : find_sequence_filter(name);
}

}  // namespace tandem::text::jinja
