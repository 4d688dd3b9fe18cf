// The values a template works with: Python's, as far as Jinja shows them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tandem::text::jinja {

enum class Kind : uint8_t {
    undefined,
    none,
    boolean,
    integer,
    real,
    string,
    list,
    tuple,
    dict,
    range,
    view,        // dict.keys(), dict.values(), dict.items()
    iterator,    // what lazy filters give: can be walked once
    name_space,  // namespace(): the only thing a template can change
    macro,
    function,
    method,
    loop,
    joiner,
    cycler,
};

struct Native;
namespace ast {
struct MacroBody;
}

// Bytes of the values alive in one rendering.
struct Memory {
    size_t used = 0;
};

// Everything that does not fit in a Value itself. Shared, counted against the rendering's memory, and immutable except
// where it says otherwise.
struct Object {
    Object() = default;
    Object(const Object&) = delete;
    Object& operator=(const Object&) = delete;
    virtual ~Object() {
        if (memory) memory->used -= bytes;
    }

    Memory* memory = nullptr;  // null for the constants of a template
    size_t bytes = 0;
    int depth = 0;  // of the containers below; bounded, so that no recursion over a value can overflow the stack
};

class Value {
  public:
    Value() = default;  // undefined, with nothing to say about it
    static Value undefined(std::shared_ptr<const Object> message) { return Value(Kind::undefined, std::move(message)); }
    static Value none() { return Value(Kind::none, nullptr); }
    static Value boolean(bool value) {
        Value v(Kind::boolean, nullptr);
        v.integer_ = value ? 1 : 0;
        return v;
    }
    static Value integer(int64_t value) {
        Value v(Kind::integer, nullptr);
        v.integer_ = value;
        return v;
    }
    static Value real(double value) {
        Value v(Kind::real, nullptr);
        v.real_ = value;
        return v;
    }
    Value(Kind kind, std::shared_ptr<const Object> object) : object_(std::move(object)), kind_(kind) {}

    Kind kind() const { return kind_; }
    bool is(Kind kind) const { return kind_ == kind; }
    bool is_integer() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }  // as in Python: True is 1
    bool is_number() const { return is_integer() || kind_ == Kind::real; }

    bool as_bool() const { return as_integer() != 0; }
    int64_t as_integer() const {
        CHECK(is_integer(), "not an integer");
        return integer_;
    }
    double as_real() const {
        CHECK(is_number(), "not a number");
        return kind_ == Kind::real ? real_ : static_cast<double>(integer_);
    }
    const std::string& text() const;                        // of a string
    bool is_safe() const;                                   // a string marked by the filters safe and escape
    const std::vector<Value>& items() const;                // of a list or tuple
    const Object* object() const { return object_.get(); }  // identity

    template <typename T>
    const T& get() const {
        return static_cast<const T&>(*object_);
    }
    // For the few kinds with state: namespace, iterator, loop, joiner, cycler.
    template <typename T>
    T& state() const {
        return const_cast<T&>(static_cast<const T&>(*object_));  // NOLINT: the objects are created non-const
    }

    int depth() const { return object_ ? object_->depth : 0; }

  private:
    std::shared_ptr<const Object> object_;
    union {
        int64_t integer_ = 0;  // NOLINT(readability-identifier-naming): it is private, union or not
        double real_;          // NOLINT(readability-identifier-naming)
    };
    Kind kind_ = Kind::undefined;
};

struct StringObject : Object {
    StringObject(std::string text_, bool safe_) : text(std::move(text_)), safe(safe_) {}
    std::string text;
    bool safe;
};

struct ListObject : Object {
    explicit ListObject(std::vector<Value> items_) : items(std::move(items_)) {}
    std::vector<Value> items;
    size_t weight = 0;      // of a tuple: the work of comparing it as a key; 0: it cannot be one
    bool is_group = false;  // what groupby gives: a pair that also has .grouper and .list
};

using Entry = std::pair<Value, Value>;

// Keeps the order of insertion; large ones carry a sorted index.
struct DictObject : Object {
    explicit DictObject(std::vector<Entry> unique_entries);
    const Value* find(const Value& key) const;
    const Value* find(std::string_view key) const;

    std::vector<Entry> entries;
    std::vector<uint32_t> order;  // indices into entries, sorted by key; empty while entries are few
};

struct RangeObject : Object {
    RangeObject(int64_t start_, int64_t step_, int64_t count_) : start(start_), step(step_), count(count_) {}
    int64_t at(int64_t i) const { return start + i * step; }
    int64_t start, step, count;
    int64_t stop = 0;  // as it was written, for printing
};

enum class ViewOf : uint8_t { keys, values, items };

struct ViewObject : Object {
    ViewObject(Value dict_, ViewOf of_) : dict(std::move(dict_)), of(of_) {}
    Value dict;
    ViewOf of;
};

struct IteratorObject : Object {
    explicit IteratorObject(std::vector<Value> items_) : items(std::move(items_)) {}
    std::vector<Value> items;
    size_t next = 0;  // state
};

struct NamespaceObject : Object {
    const Value* find(std::string_view name) const;
    std::vector<std::pair<std::string, Value>> attributes;  // state
};

struct FunctionObject : Object {
    explicit FunctionObject(const Native* native_) : native(native_) {}
    const Native* native;
};

struct MethodObject : Object {
    MethodObject(Value self_, const Native* native_) : self(std::move(self_)), native(native_) {}
    Value self;
    const Native* native;
};

// `loop` inside a for.
struct LoopObject : Object {
    explicit LoopObject(std::vector<Value> items_) : items(std::move(items_)) {}
    std::vector<Value> items;
    int64_t index = 0;                // state
    bool has_last_changed = false;    // state
    std::vector<Value> last_changed;  // state
};

struct JoinerObject : Object {
    explicit JoinerObject(Value separator_) : separator(std::move(separator_)) {}
    Value separator;
    bool used = false;  // state
};

struct CyclerObject : Object {
    explicit CyclerObject(std::vector<Value> items_) : items(std::move(items_)) {}
    std::vector<Value> items;
    size_t position = 0;  // state
};

// A string constant of a template: not counted against any rendering.
Value constant_string(std::string text);

// The name of the type in Python: "str", "NoneType", ...
std::string_view type_name(const Value& value);

// A total order of what can be a key of a dict, in which equal means Python's ==.
int compare_keys(const Value& a, const Value& b);

// The work of comparing a key with another, which for tuples of tuples of ... may be absurd. 0: it cannot be a key.
size_t key_weight(const Value& value);

// Exact, also where one side is an integer that no double can hold. Neither may be NaN.
int compare_numbers(const Value& a, const Value& b);

}  // namespace tandem::text::jinja
