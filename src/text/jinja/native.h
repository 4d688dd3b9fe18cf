// What the interpreter offers to templates by name: filters, tests, functions and methods, in tables.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/runtime.h"

namespace tandem::text::jinja {

struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;
};

inline constexpr size_t kMaxParameters = 5;

// One call of a native. param[i] is the argument for the i-th parameter, null if it was not given; a variadic native
// reads args itself.
struct Call {
    Runtime& rt;
    const Value& self;  // what is filtered or tested, or the object of the method
    const Arguments& args;
    std::array<const Value*, kMaxParameters> param{};
};

// Whether there is an argument, and not none.
inline bool given(const Value* argument) {
    return argument && !argument->is(Kind::none);
}

struct Native {
    std::string_view name;
    Result<Value> (*function)(const Call& call);
    std::array<std::string_view, kMaxParameters> params{};  // "" after the last; a leading '/' means by position only
    size_t required = 0;
    bool variadic = false;
};

// Null when there is none of that name.
const Native* find_filter(std::string_view name);
const Native* find_test(std::string_view name);
const Native* find_function(std::string_view name);
const Native* find_string_method(std::string_view name);
const Native* find_object_method(Kind kind, std::string_view name);

Result<Value> call_native(Runtime& rt, const Native& native, const Value& self, const Arguments& args);

// A method of a string marked safe escapes its arguments and gives safe strings.
Result<Value> call_method(Runtime& rt, const MethodObject& method, const Arguments& args);

// Filters and tests by name at run time, for map() and select().
Result<Value> call_filter(Runtime& rt, const Value& name, const Value& self, const Arguments& args);
Result<bool> call_test(Runtime& rt, const Value& name, const Value& self, const Arguments& args);

std::string_view macro_name(const Value& macro);

// str % values, str.format(), and the format specifications both use.
Result<Value> format_percent(Runtime& rt, const Value& format, const Value& values);
Result<Value> format_braces(const Call& call);

// Readings of arguments. A missing argument gives the default.
Result<int64_t> integer_argument(const Value* value, int64_t otherwise);
bool truth_argument(const Value* value, bool otherwise);
// A view of the argument's text, which lives as long as the argument.
Result<std::string_view> string_argument(const Value& value);

// The entry of that name in a table, or null.
template <size_t N>
const Native* find_native(const std::array<Native, N>& table, std::string_view name) {
    for (const Native& n : table) {
        if (n.name == name) return &n;
    }
    return nullptr;
}

}  // namespace tandem::text::jinja
