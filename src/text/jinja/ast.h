// The syntax tree of a template. Chains (a + b + c, a.b|f is g) are flat, so its height is bounded by the nesting that
// the parser allows.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/native.h"
#include "text/jinja/operators.h"
#include "text/jinja/value.h"

namespace tandem::text::jinja::ast {

using NameId = uint32_t;  // index into Program::names()

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Literal {
    Value value;
};

struct Name {
    NameId id;
};

struct ListLiteral {
    std::vector<ExprPtr> items;
    bool is_tuple;
};

struct DictLiteral {
    std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};

struct Unary {
    enum class Op : uint8_t { negate, posit, invert } op;
    ExprPtr operand;
};

// first op1 x1 op2 x2 ..., from left to right.
struct Arithmetic {
    ExprPtr first;
    std::vector<std::pair<BinaryOp, ExprPtr>> rest;
};

struct Concat {
    std::vector<ExprPtr> parts;
};

// a < b < c: true if every neighbouring pair compares so.
struct Compare {
    ExprPtr first;
    std::vector<std::pair<CompareOp, ExprPtr>> rest;
};

struct Logical {
    bool is_or;
    std::vector<ExprPtr> operands;
};

// value if test1 else otherwise1 if test2 ...: the last alternative decides first.
struct Conditional {
    struct Alternative {
        ExprPtr test;
        ExprPtr otherwise;  // may be null
    };
    ExprPtr value;
    std::vector<Alternative> alternatives;
};

struct CallArguments {
    std::vector<ExprPtr> positional;
    std::vector<std::pair<std::string, ExprPtr>> named;
    ExprPtr more_positional;  // *args, or null
    ExprPtr more_named;       // **kwargs, or null
};

struct GetAttribute {
    std::string name;
};
struct GetItem {
    ExprPtr key;
};
struct GetSlice {
    ExprPtr start, stop, step;  // null where left out
};
struct CallStep {
    CallArguments args;
};
struct FilterStep {
    std::string name;
    const Native* native;  // null: unknown, an error if it is ever reached
    CallArguments args;
};
struct TestStep {
    std::string name;
    const Native* native;
    CallArguments args;
    bool negated;
};

struct Step {
    int line;
    std::variant<GetAttribute, GetItem, GetSlice, CallStep, FilterStep, TestStep> action;
};

// base.attribute[item](call)|filter is test, applied from left to right.
struct Postfix {
    ExprPtr base;
    std::vector<Step> steps;
};

struct Expr {
    int line;
    std::variant<Literal, Name, ListLiteral, DictLiteral, Unary, Arithmetic, Concat, Compare, Logical, Conditional,
                 Postfix>
        node;
};

// What can be assigned to.
struct Target;
struct NamespaceAttribute {
    NameId ns;
    std::string attribute;
};
struct Target {
    int line;
    std::variant<NameId, NamespaceAttribute, std::vector<Target>> to;
};

struct Stmt;
using Block = std::vector<Stmt>;

struct Text {
    std::string text;
};
struct Output {
    ExprPtr value;
};
struct For {
    Target target;
    ExprPtr iterable;
    ExprPtr filter;  // may be null
    Block body;
    Block otherwise;
};
struct If {
    struct Branch {
        ExprPtr test;
        Block body;
    };
    std::vector<Branch> branches;
    Block otherwise;
};
struct Set {
    Target target;
    ExprPtr value;
};
struct SetBlock {
    Target target;
    std::vector<Step> filters;
    Block body;
};
struct Parameter {
    NameId id;
    std::string name;
    ExprPtr otherwise;  // may be null
};
struct MacroBody {
    std::string name;
    std::vector<Parameter> params;
    Block body;
    bool uses_varargs = false;
    bool uses_kwargs = false;
    bool uses_caller = false;
};
struct Macro {
    NameId id;
    std::unique_ptr<MacroBody> body;
};
struct CallBlock {
    std::unique_ptr<MacroBody> caller;
    ExprPtr call;  // a Postfix whose last step is a call
};
struct FilterBlock {
    std::vector<Step> filters;
    Block body;
};
struct With {
    std::vector<std::pair<Target, ExprPtr>> assignments;
    Block body;
};
struct Break {};
struct Continue {};

struct Stmt {
    int line;
    std::variant<Text, Output, For, If, Set, SetBlock, Macro, CallBlock, FilterBlock, With, Break, Continue> node;
};

}  // namespace tandem::text::jinja::ast
