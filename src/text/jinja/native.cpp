#include "text/jinja/native.h"

#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace tandem::text::jinja {

namespace {

size_t parameter_count(const Native& native) {
    size_t n = 0;
    while (n < kMaxParameters && !native.params[n].empty()) n++;
    return n;
}

std::string_view display_name(std::string_view parameter) {
    return parameter.starts_with('/') ? parameter.substr(1) : parameter;
}

Status bind(const Native& native, Call& call) {
    size_t count = parameter_count(native);
    if (call.args.positional.size() > count) {
        return fail("{}() takes at most {} argument(s), {} given", native.name, count, call.args.positional.size());
    }
    for (size_t i = 0; i < call.args.positional.size(); i++) call.param[i] = &call.args.positional[i];
    for (const auto& [name, value] : call.args.named) {
        size_t i = 0;
        while (i < count && native.params[i] != name) i++;
        if (i == count) return fail("{}() got an unexpected keyword argument {}", native.name, quote_name(name));
        if (call.param[i]) return fail("{}() got multiple values for argument '{}'", native.name, name);
        call.param[i] = &value;
    }
    for (size_t i = 0; i < native.required; i++) {
        if (!call.param[i]) {
            return fail("{}() is missing its argument '{}'", native.name, display_name(native.params[i]));
        }
    }
    return Ok{};
}

Result<Value> escaped(Runtime& rt, const Value& value) {
    if (!value.is(Kind::string) || value.is_safe()) return value;
    TRY(rt.room(6 * value.text().size()));
    return rt.string(escape_html(value.text()), true);
}

Result<Value> marked_safe(Runtime& rt, const Value& value) {
    if (value.is(Kind::string)) return rt.string(value.text(), true);
    if (!value.is(Kind::list) && !value.is(Kind::tuple)) return value;
    std::vector<Value> items;
    for (const Value& v : value.items()) {
        items.push_back(v.is(Kind::string) ? TRY(rt.string(v.text(), true)) : v);
    }
    return value.is(Kind::list) ? rt.list(std::move(items)) : rt.tuple(std::move(items));
}

Error no_such(std::string_view what, const Value& name) {
    if (name.is(Kind::string)) return fail("no {} named {}", what, quote_name(name.text()));
    return fail("no {} named by a value of type {}: did you forget to quote its name?", what, type_name(name));
}

}  // namespace

Result<Value> call_native(Runtime& rt, const Native& native, const Value& self, const Arguments& args) {
    TRY(rt.step());
    Call call{.rt = rt, .self = self, .args = args};
    if (!native.variadic) TRY(bind(native, call));
    return native.function(call);
}

Result<Value> call_method(Runtime& rt, const MethodObject& method, const Arguments& args) {
    if (!method.self.is_safe()) return call_native(rt, *method.native, method.self, args);
    Arguments escaped_args;
    for (const Value& v : args.positional) escaped_args.positional.push_back(TRY(escaped(rt, v)));
    for (const auto& [name, v] : args.named) escaped_args.named.emplace_back(name, TRY(escaped(rt, v)));
    return marked_safe(rt, TRY(call_native(rt, *method.native, method.self, escaped_args)));
}

Result<Value> call_filter(Runtime& rt, const Value& name, const Value& self, const Arguments& args) {
    const Native* native = name.is(Kind::string) ? find_filter(name.text()) : nullptr;
    if (!native) return no_such("filter", name);
    return call_native(rt, *native, self, args);
}

Result<bool> call_test(Runtime& rt, const Value& name, const Value& self, const Arguments& args) {
    const Native* native = name.is(Kind::string) ? find_test(name.text()) : nullptr;
    if (!native) return no_such("test", name);
    return truth(TRY(call_native(rt, *native, self, args)));
}

Result<int64_t> integer_argument(const Value* value, int64_t otherwise) {
    if (!value) return otherwise;
    if (value->is_integer()) return value->as_integer();
    if (value->is(Kind::undefined)) return undefined_error(*value);
    return fail("'{}' object cannot be interpreted as an integer", type_name(*value));
}

bool truth_argument(const Value* value, bool otherwise) {
    return value ? truth(*value) : otherwise;
}

Result<std::string_view> string_argument(const Value& value) {
    if (value.is(Kind::string)) return std::string_view(value.text());
    if (value.is(Kind::undefined)) return undefined_error(value);
    return fail("a string is needed here, not {}", type_name(value));
}

}  // namespace tandem::text::jinja
