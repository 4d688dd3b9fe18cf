#include "text/jinja/interpreter.h"

#include <nlohmann/json.hpp>

#include "text/jinja/lexer.h"
#include "text/jinja/native.h"
#include "text/jinja/operators.h"
#include "text/jinja/parser.h"
#include "text/jinja/print.h"

namespace tandem::text::jinja {

using namespace ast;  // NOLINT(google-build-using-namespace): its own namespace, all of whose nodes are used here

namespace {

// The scope in use before, put back when a block ends.
class ScopeRestorer {
  public:
    explicit ScopeRestorer(std::shared_ptr<Scope>& scope) : scope_(scope), saved_(scope) {}
    ~ScopeRestorer() { scope_ = std::move(saved_); }
    ScopeRestorer(const ScopeRestorer&) = delete;
    ScopeRestorer& operator=(const ScopeRestorer&) = delete;

  private:
    std::shared_ptr<Scope>& scope_;
    std::shared_ptr<Scope> saved_;
};

}  // namespace

std::string_view macro_name(const Value& macro) {
    return macro.get<MacroObject>().body->name;
}

Interpreter::Interpreter(const Program& program, const RenderOptions& options)
    : program_(program), rt_(options.limits), scope_(std::make_shared<Scope>(nullptr)) {
    rt_.now = options.now;
}

Interpreter::~Interpreter() {
    // A macro and the scope that holds it keep each other alive.
    for (const auto& scope : captured_) scope->variables.clear();
}

Result<std::string> Interpreter::run(const Variables& variables) {
    std::string out;
    Status status = root(out, variables);
    if (!status) return error_at(line_, status.error().message);
    return out;
}

Status Interpreter::root(std::string& out, const Variables& variables) {
    TRY(define_globals(variables));
    open_scope(scope_);
    outputs_.push_back(std::make_unique<TextBuilder>(rt_));
    TRY(execute(program_.body()));
    out = outputs_.back()->take();
    return Ok{};
}

Status Interpreter::define_globals(const Variables& variables) {
    for (NameId id = 0; id < program_.names().size(); id++) {
        const std::string& name = program_.names()[id];
        const nlohmann::ordered_json* json = nullptr;
        for (const auto& [key, value] : variables) {
            if (key == name) json = value;
        }
        const Native* function = find_function(name);
        if (json) {
            Value value = TRY(from_json(rt_, *json));
            TRY(assign(id, std::move(value)));
        } else if (function) {
            TRY(assign(id, Value(Kind::function, std::make_shared<FunctionObject>(function))));
        }
    }
    return Ok{};
}

// Statements.

Result<Interpreter::Flow> Interpreter::execute(const Block& block) {
    NestingGuard nesting(rt_.depth);
    if (rt_.depth > rt_.limits().depth) return fail("evaluation nested more than {} levels deep", rt_.limits().depth);
    for (const Stmt& statement : block) {
        TRY(rt_.step());
        Flow flow = TRY(execute(statement));
        if (flow != Flow::normal) return flow;
    }
    return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::execute(const Stmt& statement) {
    line_ = statement.line;
    return std::visit([this](const auto& node) { return execute(node); }, statement.node);
}

Status Interpreter::write(std::string_view text) {
    TRY(outputs_.back()->add(text));
    if (outputs_.back()->size() > rt_.limits().output_bytes) {
        return fail("the text is longer than {} bytes", rt_.limits().output_bytes);
    }
    return Ok{};
}

Result<Interpreter::Flow> Interpreter::execute(const Text& node) {
    TRY(write(node.text));
    return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::execute(const Output& node) {
    Value value = TRY(evaluate(*node.value));
    if (value.is(Kind::string)) {
        TRY(write(value.text()));
        return Flow::normal;
    }
    TextBuilder text(rt_);
    TRY(append_str(text, value));
    TRY(write(text.take()));
    return Flow::normal;
}

// What the loop walks over, after its filter.
Result<std::vector<Value>> Interpreter::loop_items(const For& node) {
    Value iterable = TRY(evaluate(*node.iterable));
    std::vector<Value> items = TRY(iterate(rt_, iterable));
    if (!node.filter) return items;
    std::vector<Value> chosen;
    for (Value& item : items) {
        ScopeRestorer restorer(scope_);
        open_scope(scope_);
        TRY(assign(node.target, item));
        Value passed = TRY(evaluate(*node.filter));
        if (truth(passed)) chosen.push_back(std::move(item));
    }
    return chosen;
}

Result<Interpreter::Flow> Interpreter::execute(const For& node) {
    std::vector<Value> items = TRY(loop_items(node));
    Value loop = TRY(rt_.loop(std::move(items)));
    if (!loop.get<LoopObject>().items.empty()) return run_loop(node, loop);
    ScopeRestorer restorer(scope_);
    open_scope(scope_);
    return execute(node.otherwise);
}

Result<Interpreter::Flow> Interpreter::run_loop(const For& node, const Value& loop) {
    std::optional<NameId> loop_name = program_.find_name("loop");
    auto& state = loop.state<LoopObject>();
    for (size_t i = 0; i < state.items.size(); i++) {
        TRY(rt_.step());
        ScopeRestorer restorer(scope_);
        open_scope(scope_);
        state.index = static_cast<int64_t>(i);
        if (loop_name) TRY(assign(*loop_name, loop));
        TRY(assign(node.target, state.items[i]));
        Flow flow = TRY(execute(node.body));
        if (flow == Flow::break_loop) break;
    }
    return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::execute(const If& node) {
    for (const If::Branch& branch : node.branches) {
        Value test = TRY(evaluate(*branch.test));
        if (truth(test)) return execute(branch.body);
    }
    return execute(node.otherwise);
}

Result<Interpreter::Flow> Interpreter::execute(const Set& node) {
    Value value = TRY(evaluate(*node.value));
    TRY(assign(node.target, value));
    return Flow::normal;
}

Result<std::pair<Value, Interpreter::Flow>> Interpreter::capture(const Block& block) {
    ScopeRestorer restorer(scope_);
    open_scope(scope_);
    outputs_.push_back(std::make_unique<TextBuilder>(rt_));
    Flow flow = TRY(execute(block));
    Value text = TRY(outputs_.back()->finish());
    outputs_.pop_back();
    return std::pair(std::move(text), flow);
}

Result<Value> Interpreter::apply_filters(const std::vector<Step>& filters, Value value) {
    for (const Step& step : filters) value = TRY(apply(step, value));
    return value;
}

Result<Interpreter::Flow> Interpreter::execute(const SetBlock& node) {
    auto [text, flow] = TRY(capture(node.body));
    if (flow != Flow::normal) return flow;
    Value value = TRY(apply_filters(node.filters, text));
    TRY(assign(node.target, value));
    return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::execute(const FilterBlock& node) {
    auto [text, flow] = TRY(capture(node.body));
    if (flow != Flow::normal) return flow;
    Value value = TRY(apply_filters(node.filters, text));
    if (!value.is(Kind::string)) return fail("a filter block must give a string, not {}", type_name(value));
    TRY(write(value.text()));
    return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::execute(const With& node) {
    std::vector<Value> values;
    for (const auto& [target, expr] : node.assignments) values.push_back(TRY(evaluate(*expr)));
    ScopeRestorer restorer(scope_);
    open_scope(scope_);
    for (size_t i = 0; i < values.size(); i++) TRY(assign(node.assignments[i].first, values[i]));
    return execute(node.body);
}

Result<Interpreter::Flow> Interpreter::execute(const Macro& node) {
    Value macro = TRY(make_macro(*node.body));
    TRY(assign(node.id, std::move(macro)));
    return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::execute(const CallBlock& node) {
    const auto& postfix = std::get<Postfix>(node.call->node);
    Value callee = TRY(evaluate(*postfix.base));
    for (size_t i = 0; i + 1 < postfix.steps.size(); i++) callee = TRY(apply(postfix.steps[i], callee));
    Arguments args = TRY(evaluate_arguments(std::get<CallStep>(postfix.steps.back().action).args));
    Value caller = TRY(make_macro(*node.caller));
    TRY(add_named(args, "caller", std::move(caller)));
    Value value = TRY(call(callee, args));
    TextBuilder out(rt_);
    TRY(append_str(out, value));
    TRY(write(out.take()));
    return Flow::normal;
}

Result<Interpreter::Flow> Interpreter::execute(const Break&) {
    return Flow::break_loop;
}

Result<Interpreter::Flow> Interpreter::execute(const Continue&) {
    return Flow::next_iteration;
}

// Expressions.

Result<Value> Interpreter::evaluate(const Expr& expr) {
    NestingGuard nesting(rt_.depth);
    if (rt_.depth > rt_.limits().depth) return fail("evaluation nested more than {} levels deep", rt_.limits().depth);
    TRY(rt_.step());
    line_ = expr.line;
    return std::visit([this](const auto& node) { return evaluate(node); }, expr.node);
}

Result<Value> Interpreter::evaluate(const Literal& node) {
    return node.value;
}

Result<Value> Interpreter::evaluate(const Name& node) {
    return look_up(node.id);
}

Result<Value> Interpreter::evaluate(const ListLiteral& node) {
    std::vector<Value> items;
    items.reserve(node.items.size());
    for (const ExprPtr& item : node.items) items.push_back(TRY(evaluate(*item)));
    return node.is_tuple ? rt_.tuple(std::move(items)) : rt_.list(std::move(items));
}

Result<Value> Interpreter::evaluate(const DictLiteral& node) {
    std::vector<Entry> entries;
    entries.reserve(node.entries.size());
    for (const auto& [key, value] : node.entries) {
        Value k = TRY(evaluate(*key));
        entries.emplace_back(std::move(k), TRY(evaluate(*value)));
    }
    return rt_.dict(std::move(entries));
}

Result<Value> Interpreter::evaluate(const Unary& node) {
    Value operand = TRY(evaluate(*node.operand));
    switch (node.op) {
        case Unary::Op::negate:
            return negate(operand);
        case Unary::Op::posit:
            return posit(operand);
        case Unary::Op::invert:
            return Value::boolean(!truth(operand));
    }
    return Value();
}

Result<Value> Interpreter::evaluate(const Arithmetic& node) {
    Value value = TRY(evaluate(*node.first));
    for (const auto& [op, operand] : node.rest) {
        Value right = TRY(evaluate(*operand));
        value = TRY(binary(rt_, op, value, right));
    }
    return value;
}

Result<Value> Interpreter::evaluate(const Concat& node) {
    TextBuilder out(rt_);
    for (const ExprPtr& part : node.parts) {
        Value value = TRY(evaluate(*part));
        TRY(append_str(out, value));
    }
    return out.finish();
}

Result<Value> Interpreter::evaluate(const Compare& node) {
    Value left = TRY(evaluate(*node.first));
    for (const auto& [op, operand] : node.rest) {
        Value right = TRY(evaluate(*operand));
        if (!TRY(compare(rt_, op, left, right))) return Value::boolean(false);
        left = std::move(right);
    }
    return Value::boolean(true);
}

Result<Value> Interpreter::evaluate(const Logical& node) {
    Value value;
    for (const ExprPtr& operand : node.operands) {
        value = TRY(evaluate(*operand));
        if (truth(value) == node.is_or) break;
    }
    return value;
}

Result<Value> Interpreter::evaluate(const Conditional& node) {
    for (size_t i = node.alternatives.size(); i-- > 0;) {
        const Conditional::Alternative& alternative = node.alternatives[i];
        Value test = TRY(evaluate(*alternative.test));
        if (truth(test)) continue;
        if (alternative.otherwise) return evaluate(*alternative.otherwise);
        return rt_.undefined("the inline if-expression evaluated to false and no else section was defined");
    }
    return evaluate(*node.value);
}

Result<Value> Interpreter::evaluate(const Postfix& node) {
    Value value = TRY(evaluate(*node.base));
    for (const Step& step : node.steps) value = TRY(apply(step, value));
    return value;
}

Result<Value> Interpreter::evaluate_or_none(const ExprPtr& expr) {
    return expr ? evaluate(*expr) : Result<Value>(Value::none());
}

Result<Value> Interpreter::apply(const Step& step, const Value& value) {
    TRY(rt_.step());
    line_ = step.line;
    return std::visit([&](const auto& action) { return apply(action, value); }, step.action);
}

Result<Value> Interpreter::apply(const GetAttribute& step, const Value& value) {
    return get_attribute(rt_, value, step.name);
}

Result<Value> Interpreter::apply(const GetItem& step, const Value& value) {
    return get_item(rt_, value, TRY(evaluate(*step.key)));
}

Result<Value> Interpreter::apply(const GetSlice& step, const Value& value) {
    SliceBounds bounds;
    bounds.start = TRY(evaluate_or_none(step.start));
    bounds.stop = TRY(evaluate_or_none(step.stop));
    bounds.step = TRY(evaluate_or_none(step.step));
    return get_slice(rt_, value, bounds);
}

Result<Value> Interpreter::apply(const CallStep& step, const Value& value) {
    return call(value, TRY(evaluate_arguments(step.args)));
}

Result<Value> Interpreter::apply(const FilterStep& step, const Value& value) {
    if (!step.native) return fail("no filter named {}", quote_name(step.name));
    return call_native(rt_, *step.native, value, TRY(evaluate_arguments(step.args)));
}

Result<Value> Interpreter::apply(const TestStep& step, const Value& value) {
    if (!step.native) return fail("no test named {}", quote_name(step.name));
    Arguments args = TRY(evaluate_arguments(step.args));
    Value passed = TRY(call_native(rt_, *step.native, value, args));
    return step.negated ? Value::boolean(!truth(passed)) : passed;
}

// Calls.

Status Interpreter::add_named(Arguments& out, std::string name, Value value) {
    TRY(rt_.step(1 + out.named.size() / 16));
    for (const auto& [other, ignored] : out.named) {
        if (other == name) return fail("a call has multiple values for keyword argument {}", quote_name(name));
    }
    out.named.emplace_back(std::move(name), std::move(value));
    return Ok{};
}

Result<Arguments> Interpreter::evaluate_arguments(const CallArguments& args) {
    Arguments out;
    for (const ExprPtr& expr : args.positional) out.positional.push_back(TRY(evaluate(*expr)));
    for (const auto& [name, expr] : args.named) {
        Value value = TRY(evaluate(*expr));
        TRY(add_named(out, name, std::move(value)));
    }
    if (args.more_positional) {
        Value more = TRY(evaluate(*args.more_positional));
        std::vector<Value> items = TRY(iterate(rt_, more));
        out.positional.insert(out.positional.end(), items.begin(), items.end());
    }
    if (args.more_named) {
        Value more = TRY(evaluate(*args.more_named));
        if (more.is(Kind::undefined)) return undefined_error(more);
        if (!more.is(Kind::dict)) return fail("argument after ** must be a mapping, not {}", type_name(more));
        for (const auto& [key, value] : more.get<DictObject>().entries) {
            if (!key.is(Kind::string)) return fail("keywords must be strings");
            TRY(add_named(out, key.text(), value));
        }
    }
    return out;
}

Result<Value> Interpreter::call(const Value& callee, const Arguments& args) {
    switch (callee.kind()) {
        case Kind::macro:
            return call_macro(callee.get<MacroObject>(), args);
        case Kind::function:
            return call_native(rt_, *callee.get<FunctionObject>().native, Value(), args);
        case Kind::method:
            return call_method(rt_, callee.get<MethodObject>(), args);
        case Kind::joiner: {
            if (!args.positional.empty() || !args.named.empty()) return fail("a joiner takes no arguments");
            auto& joiner = callee.state<JoinerObject>();
            return std::exchange(joiner.used, true) ? Result<Value>(joiner.separator) : rt_.string("");
        }
        case Kind::undefined:
            return undefined_error(callee);
        default:
            return fail("'{}' object is not callable", type_name(callee));
    }
}

Result<Value> Interpreter::make_macro(const MacroBody& body) {
    auto macro = std::make_shared<MacroObject>(&body, scope_);
    TRY(rt_.adopt(*macro, sizeof(MacroObject) + sizeof(Scope), 0));
    if (!scope_->captured) {
        TRY(rt_.keep(2 * sizeof(Scope) + 8 * sizeof(Value)));
        scope_->captured = true;
        captured_.push_back(scope_);
    }
    return Value(Kind::macro, std::move(macro));
}

Result<Value> Interpreter::call_macro(const MacroObject& macro, const Arguments& args) {
    std::shared_ptr<Scope> definition = macro.scope;
    const MacroBody& body = *macro.body;
    ScopeRestorer restorer(scope_);
    open_scope(std::move(definition));
    TRY(bind_parameters(body, args));
    outputs_.push_back(std::make_unique<TextBuilder>(rt_));
    TRY(execute(body.body));
    Value text = TRY(outputs_.back()->finish());
    outputs_.pop_back();
    return text;
}

Status Interpreter::bind_parameters(const MacroBody& macro, const Arguments& args) {
    std::vector<bool> used(args.named.size());
    for (size_t i = 0; i < macro.params.size(); i++) {
        const Parameter& param = macro.params[i];
        if (i < args.positional.size()) {
            TRY(assign(param.id, args.positional[i]));
            continue;
        }
        TRY(rt_.step(1 + args.named.size() / 16));
        size_t named = 0;
        while (named < args.named.size() && args.named[named].first != param.name) named++;
        if (named < args.named.size()) {
            used[named] = true;
            TRY(assign(param.id, args.named[named].second));
        } else if (param.otherwise) {
            Value value = TRY(evaluate(*param.otherwise));
            TRY(assign(param.id, std::move(value)));
        } else {
            Value value = TRY(rt_.undefined(fmt::format("parameter '{}' was not provided", param.name)));
            TRY(assign(param.id, std::move(value)));
        }
    }
    return bind_extras(macro, args, std::move(used));
}

// What the parameters left over goes to caller, kwargs and varargs, if the macro mentions them.
Status Interpreter::bind_extras(const MacroBody& macro, const Arguments& args, std::vector<bool> used) {
    if (macro.uses_caller) {
        Value caller = TRY(rt_.undefined("no caller defined"));
        for (size_t i = 0; i < args.named.size(); i++) {
            if (args.named[i].first != "caller" || used[i]) continue;
            used[i] = true;
            caller = args.named[i].second;
        }
        TRY(assign(program_.find_name("caller").value(), caller));
    }
    std::vector<Entry> rest;
    for (size_t i = 0; i < args.named.size(); i++) {
        if (used[i]) continue;
        if (!macro.uses_kwargs) {
            return fail("macro '{}' takes no keyword argument {}", macro.name, quote_name(args.named[i].first));
        }
        rest.emplace_back(TRY(rt_.string(args.named[i].first)), args.named[i].second);
    }
    if (macro.uses_kwargs) {
        Value kwargs = TRY(rt_.dict(std::move(rest)));
        TRY(assign(program_.find_name("kwargs").value(), std::move(kwargs)));
    }
    size_t count = macro.params.size();
    if (args.positional.size() > count && !macro.uses_varargs) {
        return fail("macro '{}' takes not more than {} argument(s)", macro.name, count);
    }
    if (!macro.uses_varargs) return Ok{};
    size_t first = std::min(count, args.positional.size());
    std::vector<Value> more(args.positional.begin() + static_cast<std::ptrdiff_t>(first), args.positional.end());
    return assign(program_.find_name("varargs").value(), TRY(rt_.tuple(std::move(more))));
}

// Variables.

void Interpreter::open_scope(std::shared_ptr<Scope> parent) {
    scope_ = std::make_shared<Scope>(std::move(parent));
}

Result<Value> Interpreter::look_up(NameId id) {
    for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
        TRY(rt_.step(scope->variables.size() / 8));
        for (const auto& [name, value] : scope->variables) {
            if (name == id) return value;
        }
    }
    return rt_.undefined(fmt::format("{} is undefined", quote_name(program_.names()[id])));
}

Status Interpreter::assign(NameId id, Value value) {
    TRY(rt_.step(1 + scope_->variables.size() / 8));
    for (auto& [name, old] : scope_->variables) {
        if (name == id) {
            old = std::move(value);
            return Ok{};
        }
    }
    scope_->variables.emplace_back(id, std::move(value));
    return Ok{};
}

Status Interpreter::assign(const Target& target, const Value& value) {
    if (const auto* id = std::get_if<NameId>(&target.to)) return assign(*id, value);
    if (const auto* attribute = std::get_if<NamespaceAttribute>(&target.to)) {
        Value ns = TRY(look_up(attribute->ns));
        if (!ns.is(Kind::name_space)) {
            return fail("cannot assign attribute '{}' on a {}: only a namespace has attributes that can be set",
                        attribute->attribute, type_name(ns));
        }
        return set_attribute(rt_, ns.state<NamespaceObject>(), attribute->attribute, value);
    }
    const auto& targets = std::get<std::vector<Target>>(target.to);
    if (value.is(Kind::undefined)) return undefined_error(value);
    std::vector<Value> items = TRY(iterate(rt_, value));
    if (items.size() != targets.size()) {
        return fail("expected {} values to unpack, got {}", targets.size(), items.size());
    }
    for (size_t i = 0; i < targets.size(); i++) TRY(assign(targets[i], items[i]));
    return Ok{};
}

Result<std::string> render(const Program& program, const Variables& variables, const RenderOptions& options) {
    return Interpreter(program, options).run(variables);
}

}  // namespace tandem::text::jinja
