// Python's operators and protocols on values: truth, order, arithmetic, iteration, subscripts and attributes.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace tandem::text::jinja {

enum class BinaryOp : uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class CompareOp : uint8_t { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

bool truth(const Value& value);
Result<bool> equal(Runtime& rt, const Value& a, const Value& b);
Result<bool> compare(Runtime& rt, CompareOp op, const Value& a, const Value& b);
Result<bool> contains(Runtime& rt, const Value& container, const Value& item);

Result<Value> binary(Runtime& rt, BinaryOp op, const Value& a, const Value& b);
Result<Value> negate(const Value& value);
Result<Value> posit(const Value& value);

// The items of anything a for loop can walk. An iterator is used up by that.
bool is_iterable(const Value& value);
Result<std::vector<Value>> iterate(Runtime& rt, const Value& value);
Result<int64_t> length(const Value& value);

// a[key] and a.name. Both give an undefined value where Python would raise; each looks where the other looks, later.
Result<Value> get_item(Runtime& rt, const Value& object, const Value& key);
Result<Value> get_attribute(Runtime& rt, const Value& object, std::string_view name);
// The attribute alone, without looking for an item of that name.
Result<std::optional<Value>> find_attribute(Runtime& rt, const Value& object, std::string_view name);

struct SliceBounds {
    Value start, stop, step;  // none where left out
};
Result<Value> get_slice(Runtime& rt, const Value& object, const SliceBounds& bounds);

// What every use of an undefined value fails with, apart from printing, testing and looping.
Error undefined_error(const Value& value);

Status set_attribute(Runtime& rt, NamespaceObject& ns, std::string_view name, Value value);

}  // namespace tandem::text::jinja
