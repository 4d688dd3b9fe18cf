#include "text/jinja/runtime.h"

#include <algorithm>

namespace tandem::text::jinja {

namespace {

constexpr size_t kObjectBytes = 96;  // an object, its control block and what the allocator adds

int depth_of(const std::vector<Value>& items) {
    int depth = 0;
    for (const Value& v : items) depth = std::max(depth, v.depth());
    return depth + 1;
}

size_t bytes_of(const std::vector<Value>& items) {
    return kObjectBytes + items.capacity() * sizeof(Value);
}

// Drops entries whose key comes again later; as in Python the first one keeps its place and gets the last value.
void remove_duplicates(std::vector<Entry>& entries) {
    std::vector<uint32_t> order(entries.size());
    for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<uint32_t>(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return compare_keys(entries[a].first, entries[b].first) < 0; });
    std::vector<bool> dropped(entries.size());
    bool any = false;
    for (size_t i = 0; i + 1 < order.size();) {
        size_t end = i + 1;
        while (end < order.size() && compare_keys(entries[order[i]].first, entries[order[end]].first) == 0) {
            dropped[order[end++]] = true;
        }
        if (end > i + 1) {
            entries[order[i]].second = entries[order[end - 1]].second;
            any = true;
        }
        i = end;
    }
    if (!any) return;
    size_t kept = 0;
    for (size_t i = 0; i < entries.size(); i++) {
        if (!dropped[i]) {
            if (kept != i) entries[kept] = std::move(entries[i]);
            kept++;
        }
    }
    entries.resize(kept);
}

}  // namespace

Runtime::~Runtime() {
    for (const Value& v : stateful_) {
        if (v.is(Kind::name_space)) {
            v.state<NamespaceObject>().attributes.clear();
        } else if (v.is(Kind::loop)) {
            v.state<LoopObject>().last_changed.clear();
        }
    }
}

Error Runtime::too_many_steps() const {
    return fail("the template does more than {} steps of work: it loops too much for a chat template", limits_.steps);
}

Status Runtime::room(size_t bytes) {
    if (bytes > limits_.value_bytes || memory_.used > limits_.value_bytes - bytes) {
        return fail("the template needs more than {} bytes for its values", limits_.value_bytes);
    }
    return copy(bytes);
}

Status Runtime::adopt(Object& object, size_t bytes, int depth_below) {
    TRY(room(bytes));
    if (depth_below > kMaxValueDepth) return fail("a value is nested more than {} levels deep", kMaxValueDepth);
    object.memory = &memory_;
    object.bytes = bytes;
    object.depth = depth_below;
    memory_.used += bytes;
    return Ok{};
}

template <typename T, typename... Args>
Result<Value> Runtime::make(Kind kind, size_t bytes, int depth_below, Args&&... args) {
    auto object = std::make_shared<T>(std::forward<Args>(args)...);
    TRY(adopt(*object, bytes, depth_below));
    return Value(kind, std::move(object));
}

Result<Value> Runtime::string(std::string text, bool safe) {
    size_t bytes = kObjectBytes + text.capacity();
    return make<StringObject>(Kind::string, bytes, 0, std::move(text), safe);
}

Result<Value> Runtime::list(std::vector<Value> items) {
    size_t bytes = bytes_of(items);
    int below = depth_of(items);
    return make<ListObject>(Kind::list, bytes, below, std::move(items));
}

Result<Value> Runtime::tuple(std::vector<Value> items) {
    size_t bytes = bytes_of(items);
    int below = depth_of(items);
    size_t weight = 1;
    for (const Value& v : items) {
        size_t w = key_weight(v);
        weight = w == 0 ? 0 : weight + w;
        if (weight == 0) break;
    }
    auto object = std::make_shared<ListObject>(std::move(items));
    object->weight = weight;
    TRY(adopt(*object, bytes, below));
    return Value(Kind::tuple, std::move(object));
}

Result<Value> Runtime::group(Value grouper, Value members) {
    int below = 1 + std::max(grouper.depth(), members.depth());
    std::vector<Value> items;
    items.push_back(std::move(grouper));
    items.push_back(std::move(members));
    auto object = std::make_shared<ListObject>(std::move(items));
    object->is_group = true;
    TRY(adopt(*object, kObjectBytes + 2 * sizeof(Value), below));
    return Value(Kind::tuple, std::move(object));
}

Result<Value> Runtime::dict(std::vector<Entry> entries) {
    size_t bytes = kObjectBytes + entries.capacity() * (sizeof(Entry) + sizeof(uint32_t));
    TRY(step(entries.size()));
    int below = 0;
    for (const auto& [key, value] : entries) {
        if (key_weight(key) == 0) return fail("unhashable type: '{}'", type_name(key));
        below = std::max({below, key.depth(), value.depth()});
    }
    remove_duplicates(entries);
    return make<DictObject>(Kind::dict, bytes, below + 1, std::move(entries));
}

Result<Value> Runtime::range(int64_t start, int64_t stop, int64_t stride) {
    if (stride == 0) return fail("range() arg 3 must not be zero");
    __extension__ using Wide = __int128;
    Wide span = stride > 0 ? Wide{stop} - start : Wide{start} - stop;
    Wide width = stride > 0 ? Wide{stride} : -Wide{stride};
    Wide count = span <= 0 ? 0 : (span + width - 1) / width;
    if (count > kMaxRange) return fail("range too big: a template may use at most {} items", kMaxRange);
    auto object = std::make_shared<RangeObject>(start, stride, static_cast<int64_t>(count));
    object->stop = stop;
    TRY(adopt(*object, kObjectBytes, 0));
    return Value(Kind::range, std::move(object));
}

Result<Value> Runtime::view(Value dict, ViewOf of) {
    int below = dict.depth() + 1;
    return make<ViewObject>(Kind::view, kObjectBytes, below, std::move(dict), of);
}

Result<Value> Runtime::iterator(std::vector<Value> items) {
    size_t bytes = bytes_of(items);
    int below = depth_of(items);
    return make<IteratorObject>(Kind::iterator, bytes, below, std::move(items));
}

Result<Value> Runtime::name_space() {
    Value v = TRY(make<NamespaceObject>(Kind::name_space, 4 * kObjectBytes, 0));
    remember(v);
    return v;
}

Result<Value> Runtime::method(Value self, const Native* native) {
    int below = self.depth() + 1;
    return make<MethodObject>(Kind::method, kObjectBytes, below, std::move(self), native);
}

Result<Value> Runtime::loop(std::vector<Value> items) {
    size_t bytes = bytes_of(items);
    int below = depth_of(items);
    return make<LoopObject>(Kind::loop, bytes, below, std::move(items));
}

Result<Value> Runtime::joiner(Value separator) {
    int below = separator.depth() + 1;
    return make<JoinerObject>(Kind::joiner, kObjectBytes, below, std::move(separator));
}

Result<Value> Runtime::cycler(std::vector<Value> items) {
    size_t bytes = bytes_of(items);
    int below = depth_of(items);
    return make<CyclerObject>(Kind::cycler, bytes, below, std::move(items));
}

Result<Value> Runtime::undefined(std::string message) {
    size_t bytes = kObjectBytes + message.capacity();
    return make<StringObject>(Kind::undefined, bytes, 0, std::move(message), false);
}

Status TextBuilder::add(std::string_view text) {
    TRY(rt_.room(text.size()));
    text_.append(text);
    rt_.memory_.used += text.size();
    return Ok{};
}

std::string TextBuilder::take() {
    rt_.memory_.used -= text_.size();
    return std::exchange(text_, {});
}

}  // namespace tandem::text::jinja
