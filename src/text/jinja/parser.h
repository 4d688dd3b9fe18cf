// Builds the syntax tree of a template from its tokens: Jinja's grammar, with Jinja's precedences.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/program.h"

namespace tandem::text::jinja {

class Parser {
  public:
    // Names are interned in the program.
    Parser(std::vector<Token> tokens, Program& program) : tokens_(std::move(tokens)), program_(program) {}

    Result<ast::Block> parse();

  private:
    using EndNames = std::initializer_list<std::string_view>;

    // Tokens.
    const Token& current() const { return tokens_[pos_]; }
    const Token& ahead() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
    const Token& take() { return tokens_[pos_ + 1 < tokens_.size() ? pos_++ : pos_]; }
    bool skip_name(std::string_view name);
    bool skip_symbol(std::string_view symbol);
    Status expect_symbol(std::string_view symbol);
    Status expect_name(std::string_view name);
    Status expect_block_end();
    Result<std::string> expect_any_name();
    Error error(std::string_view message) const { return error_at(current().line, message); }
    Error unexpected(std::string_view wanted) const;
    Status check_depth() const;

    // Statements (parser.cpp).
    Result<ast::Block> parse_block(EndNames ends);
    Result<ast::Block> parse_body(EndNames ends);
    Result<ast::Stmt> parse_statement();
    Status parse_print(ast::Block& out);
    Result<ast::Stmt> parse_for(int line);
    Result<ast::Stmt> parse_if(int line);
    Result<ast::Stmt> parse_set(int line);
    Result<ast::Stmt> parse_macro(int line);
    Result<ast::Stmt> parse_call_block(int line);
    Result<ast::Stmt> parse_filter_block(int line);
    Result<ast::Stmt> parse_with(int line);
    Result<ast::Stmt> parse_generation(int line);
    Result<ast::Stmt> parse_loop_control(int line);
    Status parse_signature(ast::MacroBody& macro);
    Status parse_macro_body(ast::MacroBody& macro, std::string_view end);
    Result<ast::Target> parse_target(std::string_view end_name);
    Result<ast::Target> parse_target_item();
    Result<ast::NameId> parse_target_name();

    // Expressions (expression_parser.cpp).
    struct TupleRules {
        bool conditional = true;         // whether `a if b else c` may stand without parentheses
        bool in_parentheses = false;     // whether there may be nothing at all
        std::string_view end_name = {};  // a word that ends the tuple
    };
    Result<ast::ExprPtr> parse_tuple(TupleRules rules);
    Result<ast::ExprPtr> parse_expression() { return parse_conditional(); }
    Result<ast::ExprPtr> parse_conditional();
    Result<ast::ExprPtr> parse_logical(bool is_or);
    Result<ast::ExprPtr> parse_not();
    Result<ast::ExprPtr> parse_compare();
    Result<std::optional<CompareOp>> parse_compare_operator();
    Result<ast::ExprPtr> parse_sum();
    Result<ast::ExprPtr> parse_concat();
    Result<ast::ExprPtr> parse_product();
    Result<ast::ExprPtr> parse_power();
    Result<ast::ExprPtr> parse_unary(bool with_filters);
    Result<ast::ExprPtr> parse_primary();
    Result<ast::ExprPtr> parse_name();
    Result<ast::ExprPtr> parse_list();
    Result<ast::ExprPtr> parse_dict();
    Status parse_postfix(std::vector<ast::Step>& steps);
    Status parse_filters_and_tests(std::vector<ast::Step>& steps);
    Result<ast::Step> parse_attribute();
    Result<ast::Step> parse_subscript();
    Result<ast::Step> parse_slice(int line, ast::ExprPtr start);
    Result<ast::Step> parse_filter();
    Result<ast::Step> parse_test();
    Result<ast::CallArguments> parse_arguments();
    Result<std::string> parse_dotted_name();
    ast::ExprPtr with_steps(ast::ExprPtr base, std::vector<ast::Step> steps) const;

    // Jinja refuses an unknown filter or test at once, unless it stands in a branch that may not be taken.
    void note_unknown(std::string_view what, std::string_view name, int line);
    Status check_known(size_t since) const;

    std::vector<Token> tokens_;
    Program& program_;
    size_t pos_ = 0;
    int depth_ = 0;
    int loops_ = 0;  // around here, inside of the same macro
    std::vector<ast::MacroBody*> macros_;
    std::vector<Error> unknown_;
};

// Counts a level of nesting for as long as it lives.
class NestingGuard {
  public:
    explicit NestingGuard(int& depth) : depth_(depth) { depth_++; }
    ~NestingGuard() { depth_--; }
    NestingGuard(const NestingGuard&) = delete;
    NestingGuard& operator=(const NestingGuard&) = delete;

  private:
    int& depth_;
};

}  // namespace tandem::text::jinja
