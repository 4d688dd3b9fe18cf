// Walks the syntax tree of a template and writes its text.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/program.h"
#include "text/jinja/runtime.h"

namespace tandem::text::jinja {

// Variables, and the scope around them. A macro keeps the scope it was defined in.
struct Scope {
    explicit Scope(std::shared_ptr<Scope> parent_) : parent(std::move(parent_)) {}
    std::shared_ptr<Scope> parent;
    std::vector<std::pair<ast::NameId, Value>> variables;
    bool captured = false;  // by a macro: it lives until the end of the rendering
};

struct MacroObject : Object {
    MacroObject(const ast::MacroBody* body_, std::shared_ptr<Scope> scope_) : body(body_), scope(std::move(scope_)) {}
    const ast::MacroBody* body;
    std::shared_ptr<Scope> scope;
};

class Interpreter {
  public:
    Interpreter(const Program& program, const RenderOptions& options);
    ~Interpreter();
    Interpreter(const Interpreter&) = delete;
    Interpreter& operator=(const Interpreter&) = delete;

    Result<std::string> run(const Variables& variables);

  private:
    enum class Flow : uint8_t { normal, break_loop, next_iteration };

    Status define_globals(const Variables& variables);
    Status root(std::string& out, const Variables& variables);

    // Statements. Each node has its function, so that the frames of a deep recursion stay small.
    Result<Flow> execute(const ast::Block& block);
    Result<Flow> execute(const ast::Stmt& statement);
    Result<Flow> execute(const ast::Text& node);
    Result<Flow> execute(const ast::Output& node);
    Result<Flow> execute(const ast::For& node);
    Result<Flow> execute(const ast::If& node);
    Result<Flow> execute(const ast::Set& node);
    Result<Flow> execute(const ast::SetBlock& node);
    Result<Flow> execute(const ast::Macro& node);
    Result<Flow> execute(const ast::CallBlock& node);
    Result<Flow> execute(const ast::FilterBlock& node);
    Result<Flow> execute(const ast::With& node);
    Result<Flow> execute(const ast::Break& node);
    Result<Flow> execute(const ast::Continue& node);
    Result<std::vector<Value>> loop_items(const ast::For& node);
    Result<Flow> run_loop(const ast::For& node, const Value& loop);
    // The text a block writes, and whether it ended by itself.
    Result<std::pair<Value, Flow>> capture(const ast::Block& block);
    Result<Value> apply_filters(const std::vector<ast::Step>& filters, Value value);
    Status write(std::string_view text);

    // Expressions.
    Result<Value> evaluate(const ast::Expr& expr);
    Result<Value> evaluate(const ast::Literal& node);
    Result<Value> evaluate(const ast::Name& node);
    Result<Value> evaluate(const ast::ListLiteral& node);
    Result<Value> evaluate(const ast::DictLiteral& node);
    Result<Value> evaluate(const ast::Unary& node);
    Result<Value> evaluate(const ast::Arithmetic& node);
    Result<Value> evaluate(const ast::Concat& node);
    Result<Value> evaluate(const ast::Compare& node);
    Result<Value> evaluate(const ast::Logical& node);
    Result<Value> evaluate(const ast::Conditional& node);
    Result<Value> evaluate(const ast::Postfix& node);
    Result<Value> evaluate_or_none(const ast::ExprPtr& expr);
    Result<Value> apply(const ast::Step& step, const Value& value);
    Result<Value> apply(const ast::GetAttribute& step, const Value& value);
    Result<Value> apply(const ast::GetItem& step, const Value& value);
    Result<Value> apply(const ast::GetSlice& step, const Value& value);
    Result<Value> apply(const ast::CallStep& step, const Value& value);
    Result<Value> apply(const ast::FilterStep& step, const Value& value);
    Result<Value> apply(const ast::TestStep& step, const Value& value);

    // Calls.
    Result<Arguments> evaluate_arguments(const ast::CallArguments& args);
    Status add_named(Arguments& out, std::string name, Value value);
    Result<Value> call(const Value& callee, const Arguments& args);
    Result<Value> call_macro(const MacroObject& macro, const Arguments& args);
    Status bind_parameters(const ast::MacroBody& macro, const Arguments& args);
    Status bind_extras(const ast::MacroBody& macro, const Arguments& args, std::vector<bool> used);
    Result<Value> make_macro(const ast::MacroBody& body);

    // Variables.
    Result<Value> look_up(ast::NameId id);
    Status assign(ast::NameId id, Value value);
    Status assign(const ast::Target& target, const Value& value);
    void open_scope(std::shared_ptr<Scope> parent);

    const Program& program_;
    Runtime rt_;
    std::shared_ptr<Scope> scope_;
    std::vector<std::shared_ptr<Scope>> captured_;  // scopes that a macro keeps alive
    std::vector<std::unique_ptr<TextBuilder>> outputs_;
    int line_ = 1;
};

}  // namespace tandem::text::jinja
