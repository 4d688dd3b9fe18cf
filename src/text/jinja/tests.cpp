// Jinja's tests: what may follow `is`.
#include <array>

#include "text/jinja/native.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"

namespace tandem::text::jinja {

namespace {

template <Kind kind>
Result<Value> is_kind(const Call& call) {
    return Value::boolean(call.self.is(kind));
}

Result<Value> defined(const Call& call) {
    return Value::boolean(!call.self.is(Kind::undefined));
}

template <bool value>
Result<Value> is_exactly(const Call& call) {
    return Value::boolean(call.self.is(Kind::boolean) && call.self.as_bool() == value);
}

Result<Value> number(const Call& call) {
    return Value::boolean(call.self.is_number());
}

Result<Value> iterable(const Call& call) {
    return Value::boolean(is_iterable(call.self));
}

Result<Value> sequence(const Call& call) {
    switch (call.self.kind()) {
        case Kind::undefined:
        case Kind::string:
        case Kind::list:
        case Kind::tuple:
        case Kind::dict:
        case Kind::range:
            return Value::boolean(true);
        default:
            return Value::boolean(false);
    }
}

Result<Value> callable(const Call& call) {
    switch (call.self.kind()) {
        case Kind::undefined:
        case Kind::macro:
        case Kind::function:
        case Kind::method:
        case Kind::joiner:
        case Kind::loop:
            return Value::boolean(true);
        default:
            return Value::boolean(false);
    }
}

Result<Value> escaped(const Call& call) {
    return Value::boolean(call.self.is_safe());
}

Result<Value> has_remainder(const Call& call, const Value& divisor, int64_t wanted) {
    Value rest = TRY(binary(call.rt, BinaryOp::modulo, call.self, divisor));
    return Value::boolean(TRY(equal(call.rt, rest, Value::integer(wanted))));
}
Result<Value> odd(const Call& call) {
    return has_remainder(call, Value::integer(2), 1);
}
Result<Value> even(const Call& call) {
    return has_remainder(call, Value::integer(2), 0);
}
Result<Value> divisibleby(const Call& call) {
    return has_remainder(call, *call.param[0], 0);
}

Result<Value> is_cased(const Call& call, std::string_view method) {
    return call_native(call.rt, *find_string_method(method), TRY(to_str(call.rt, call.self)), {});
}
Result<Value> is_lower(const Call& call) {
    return is_cased(call, "islower");
}
Result<Value> is_upper(const Call& call) {
    return is_cased(call, "isupper");
}

Result<Value> sameas(const Call& call) {
    const Value& a = call.self;
    const Value& b = *call.param[0];
    if (a.kind() != b.kind()) return Value::boolean(false);
    if (a.object() || b.object()) {
        bool same_text = a.is(Kind::string) && a.text() == b.text();
        return Value::boolean(a.object() == b.object() || same_text);
    }
    return Value::boolean(TRY(equal(call.rt, a, b)));
}

template <CompareOp op>
Result<Value> compared(const Call& call) {
    return Value::boolean(TRY(compare(call.rt, op, call.self, *call.param[0])));
}

Result<Value> is_filter(const Call& call) {
    return Value::boolean(call.self.is(Kind::string) && find_filter(call.self.text()));
}
Result<Value> is_test(const Call& call) {
    return Value::boolean(call.self.is(Kind::string) && find_test(call.self.text()));
}

constexpr auto kTests = std::to_array<Native>({
    {"!=", compared<CompareOp::not_equal>, {"/b"}, 1},
    {"<", compared<CompareOp::less>, {"/b"}, 1},
    {"<=", compared<CompareOp::less_equal>, {"/b"}, 1},
    {"==", compared<CompareOp::equal>, {"/b"}, 1},
    {">", compared<CompareOp::greater>, {"/b"}, 1},
    {">=", compared<CompareOp::greater_equal>, {"/b"}, 1},
    {"boolean", is_kind<Kind::boolean>},
    {"callable", callable},
    {"defined", defined},
    {"divisibleby", divisibleby, {"num"}, 1},
    {"eq", compared<CompareOp::equal>, {"/b"}, 1},
    {"equalto", compared<CompareOp::equal>, {"/b"}, 1},
    {"escaped", escaped},
    {"even", even},
    {"false", is_exactly<false>},
    {"filter", is_filter},
    {"float", is_kind<Kind::real>},
    {"ge", compared<CompareOp::greater_equal>, {"/b"}, 1},
    {"greaterthan", compared<CompareOp::greater>, {"/b"}, 1},
    {"gt", compared<CompareOp::greater>, {"/b"}, 1},
    {"in", compared<CompareOp::in>, {"seq"}, 1},
    {"integer", is_kind<Kind::integer>},
    {"iterable", iterable},
    {"le", compared<CompareOp::less_equal>, {"/b"}, 1},
    {"lessthan", compared<CompareOp::less>, {"/b"}, 1},
    {"lower", is_lower},
    {"lt", compared<CompareOp::less>, {"/b"}, 1},
    {"mapping", is_kind<Kind::dict>},
    {"ne", compared<CompareOp::not_equal>, {"/b"}, 1},
    {"none", is_kind<Kind::none>},
    {"number", number},
    {"odd", odd},
    {"sameas", sameas, {"other"}, 1},
    {"sequence", sequence},
    {"string", is_kind<Kind::string>},
    {"test", is_test},
    {"true", is_exactly<true>},
    {"undefined", is_kind<Kind::undefined>},
    {"upper", is_upper},
});

}  // namespace

const Native* find_test(std::string_view name) {
    return find_native(kTests, name);
}

}  // namespace tandem::text::jinja
