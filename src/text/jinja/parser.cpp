#include "text/jinja/parser.h"

#include <algorithm>
#include <array>

#include "text/jinja/print.h"

namespace tandem::text::jinja {

using namespace ast;  // NOLINT(google-build-using-namespace): a parser is about nothing else

namespace {

bool is_reserved(std::string_view name) {
    constexpr std::array<std::string_view, 6> kReserved = {"true", "false", "none", "True", "False", "None"};
    return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

bool is_one_of(const Token& token, std::initializer_list<std::string_view> names) {
    return token.is(TokenType::name) && std::find(names.begin(), names.end(), token.text) != names.end();
}

template <typename Node>
Stmt statement(int line, Node node) {
    return Stmt{.line = line, .node = std::move(node)};
}

}  // namespace

bool Parser::skip_name(std::string_view name) {
    if (!current().is_name(name)) return false;
    take();
    return true;
}

bool Parser::skip_symbol(std::string_view symbol) {
    if (!current().is_symbol(symbol)) return false;
    take();
    return true;
}

Error Parser::unexpected(std::string_view wanted) const {
    const Token& token = current();
    std::string got;
    switch (token.type) {
        case TokenType::end:
            got = "the end of the template";
            break;
        case TokenType::block_end:
        case TokenType::variable_end:
            got = "the end of the tag";
            break;
        case TokenType::name:
        case TokenType::symbol:
            got = quote_name(token.text);
            break;
        default:
            got = "something else";
    }
    return error(fmt::format("expected {}, got {}", wanted, got));
}

Status Parser::expect_symbol(std::string_view symbol) {
    if (!skip_symbol(symbol)) return unexpected(fmt::format("'{}'", symbol));
    return Ok{};
}

Status Parser::expect_name(std::string_view name) {
    if (!skip_name(name)) return unexpected(fmt::format("'{}'", name));
    return Ok{};
}

Status Parser::expect_block_end() {
    if (!current().is(TokenType::block_end)) return unexpected("the end of the tag");
    take();
    return Ok{};
}

Result<std::string> Parser::expect_any_name() {
    if (!current().is(TokenType::name)) return unexpected("a name");
    return take().text;
}

Status Parser::check_depth() const {
    if (depth_ > kMaxNesting) return error(fmt::format("nested more than {} levels deep", kMaxNesting));
    return Ok{};
}

void Parser::note_unknown(std::string_view what, std::string_view name, int line) {
    unknown_.push_back(error_at(line, fmt::format("no {} named {}", what, quote_name(name))));
}

Status Parser::check_known(size_t since) const {
    if (unknown_.size() > since) return unknown_[since];
    return Ok{};
}

Result<Block> Parser::parse() {
    Block block = TRY(parse_block({}));
    TRY(check_known(0));
    return block;
}

// Statements up to a tag with one of these names, whose name is then the current token; or up to the end of the
// template when there are none.
Result<Block> Parser::parse_block(EndNames ends) {
    NestingGuard nesting(depth_);
    TRY(check_depth());
    Block block;
    while (true) {
        const Token& token = current();
        switch (token.type) {
            case TokenType::text:
                block.push_back(statement(token.line, Text{token.text}));
                take();
                break;
            case TokenType::variable_begin: {
                take();
                int line = current().line;
                block.push_back(statement(line, Output{TRY(parse_tuple({}))}));
                if (!current().is(TokenType::variable_end)) return unexpected("the end of the expression");
                take();
                break;
            }
            case TokenType::block_begin:
                take();
                if (is_one_of(current(), ends)) return block;
                if (current().is_name("print")) {
                    TRY(parse_print(block));
                } else {
                    block.push_back(TRY(parse_statement()));
                }
                TRY(expect_block_end());
                break;
            default:
                if (ends.size() > 0) return unexpected(fmt::format("'{}'", *ends.begin()));
                return block;
        }
    }
}

// The rest of an opening tag, and then what stands between it and the closing one.
Result<Block> Parser::parse_body(EndNames ends) {
    skip_symbol(":");
    TRY(expect_block_end());
    return parse_block(ends);
}

Result<Stmt> Parser::parse_statement() {
    struct Tag {
        std::string_view name;
        Result<Stmt> (Parser::*parse)(int line);
    };
    static constexpr Tag kTags[] = {
        {"for", &Parser::parse_for},
        {"if", &Parser::parse_if},
        {"set", &Parser::parse_set},
        {"macro", &Parser::parse_macro},
        {"call", &Parser::parse_call_block},
        {"filter", &Parser::parse_filter_block},
        {"with", &Parser::parse_with},
        {"generation", &Parser::parse_generation},
        {"break", &Parser::parse_loop_control},
        {"continue", &Parser::parse_loop_control},
    };
    if (!current().is(TokenType::name)) return unexpected("the name of a tag");
    for (const Tag& tag : kTags) {
        if (tag.name != current().text) continue;
        int line = current().line;
        if (tag.parse != &Parser::parse_loop_control) take();
        return (this->*tag.parse)(line);
    }
    if (is_one_of(current(), {"include", "import", "from", "extends", "block", "autoescape"})) {
        return error(fmt::format("the tag '{}' is not supported: a chat template stands alone", current().text));
    }
    return error(fmt::format("unknown tag {}", quote_name(current().text)));
}

Status Parser::parse_print(Block& out) {
    int line = take().line;
    bool first = true;
    while (!current().is(TokenType::block_end)) {
        if (!first) TRY(expect_symbol(","));
        out.push_back(statement(line, Output{TRY(parse_expression())}));
        first = false;
    }
    return Ok{};
}

Result<Stmt> Parser::parse_for(int line) {
    Target target = TRY(parse_target("in"));
    if (auto* id = std::get_if<NameId>(&target.to); id && program_.names()[*id] == "loop") {
        return error("can't assign to the special loop variable in a for loop");
    }
    TRY(expect_name("in"));
    For loop{.target = std::move(target), .iterable = nullptr, .filter = nullptr, .body = {}, .otherwise = {}};
    loop.iterable = TRY(parse_tuple({.conditional = false, .end_name = "recursive"}));
    size_t known = unknown_.size();
    if (skip_name("if")) loop.filter = TRY(parse_expression());
    if (current().is_name("recursive")) return error("recursive loops are not supported");
    loops_++;
    loop.body = TRY(parse_body({"endfor", "else"}));
    loops_--;
    if (take().text == "else") {
        loop.otherwise = TRY(parse_body({"endfor"}));
        take();
    }
    TRY(check_known(known));
    return statement(line, std::move(loop));
}

Result<Stmt> Parser::parse_if(int line) {
    If node;
    size_t known = unknown_.size();
    while (true) {
        ExprPtr test = TRY(parse_tuple({.conditional = false, .end_name = {}}));
        Block body = TRY(parse_body({"elif", "else", "endif"}));
        node.branches.push_back({std::move(test), std::move(body)});
        const std::string& end = take().text;
        if (end == "elif") continue;
        if (end == "else") {
            node.otherwise = TRY(parse_body({"endif"}));
            take();
        }
        break;
    }
    unknown_.resize(known, Error{});
    return statement(line, std::move(node));
}

Result<Stmt> Parser::parse_set(int line) {
    Target target{.line = line, .to = NameId{0}};
    if (ahead().is_symbol(".")) {
        NamespaceAttribute to{.ns = program_.intern(TRY(expect_any_name())), .attribute = {}};
        take();
        to.attribute = TRY(expect_any_name());
        target.to = std::move(to);
    } else {
        target = TRY(parse_target({}));
    }
    if (skip_symbol("=")) {
        // Not inside of the braces: leaving them half made would leak what is made already.
        auto value = TRY(parse_tuple({}));
        return statement(line, Set{.target = std::move(target), .value = std::move(value)});
    }
    size_t known = unknown_.size();
    SetBlock set{.target = std::move(target), .filters = {}, .body = {}};
    while (skip_symbol("|")) set.filters.push_back(TRY(parse_filter()));
    set.body = TRY(parse_body({"endset"}));
    take();
    TRY(check_known(known));
    return statement(line, std::move(set));
}

Result<NameId> Parser::parse_target_name() {
    int line = current().line;
    std::string name = TRY(expect_any_name());
    if (is_reserved(name)) return error_at(line, fmt::format("can't assign to '{}'", name));
    return program_.intern(name);
}

Result<Target> Parser::parse_target_item() {
    NestingGuard nesting(depth_);
    TRY(check_depth());
    int line = current().line;
    if (!skip_symbol("(")) return Target{.line = line, .to = TRY(parse_target_name())};
    Target target{.line = line, .to = std::vector<Target>{}};
    if (!current().is_symbol(")")) target = TRY(parse_target({}));
    TRY(expect_symbol(")"));
    return target;
}

// A name, or several separated by commas.
Result<Target> Parser::parse_target(std::string_view end_name) {
    int line = current().line;
    Target first = TRY(parse_target_item());
    if (!current().is_symbol(",")) return first;
    std::vector<Target> items;
    items.push_back(std::move(first));
    while (skip_symbol(",")) {
        bool ends = current().is(TokenType::block_end) || current().is_symbol(")") ||
                    (!end_name.empty() && current().is_name(end_name));
        if (ends) break;
        items.push_back(TRY(parse_target_item()));
    }
    return Target{.line = line, .to = std::move(items)};
}

Status Parser::parse_signature(MacroBody& macro) {
    TRY(expect_symbol("("));
    bool defaults = false;
    while (!current().is_symbol(")")) {
        if (!macro.params.empty()) TRY(expect_symbol(","));
        NameId id = TRY(parse_target_name());
        for (const Parameter& p : macro.params) {
            if (p.id == id) return error(fmt::format("duplicate parameter {}", quote_name(p.name)));
        }
        if (macro.params.size() >= kMaxArguments) return error("too many parameters");
        Parameter param{.id = id, .name = program_.names()[id], .otherwise = nullptr};
        if (skip_symbol("=")) {
            param.otherwise = TRY(parse_expression());
            defaults = true;
        } else if (defaults) {
            return error("non-default argument follows default argument");
        }
        macro.params.push_back(std::move(param));
    }
    return expect_symbol(")");
}

Status Parser::parse_macro_body(MacroBody& macro, std::string_view end) {
    size_t known = unknown_.size();
    int outer_loops = std::exchange(loops_, 0);
    macros_.push_back(&macro);
    macro.body = TRY(parse_body({end}));
    take();
    macros_.pop_back();
    loops_ = outer_loops;
    for (const Parameter& p : macro.params) {
        if (p.name == "caller" && macro.uses_caller && !p.otherwise) {
            return error("the special argument 'caller' must be omitted or be given a default");
        }
        if (p.name == "caller") macro.uses_caller = false;
        if (p.name == "kwargs") macro.uses_kwargs = false;
        if (p.name == "varargs") macro.uses_varargs = false;
    }
    return check_known(known);
}

Result<Stmt> Parser::parse_macro(int line) {
    Macro macro{.id = TRY(parse_target_name()), .body = std::make_unique<MacroBody>()};
    macro.body->name = program_.names()[macro.id];
    TRY(parse_signature(*macro.body));
    TRY(parse_macro_body(*macro.body, "endmacro"));
    return statement(line, std::move(macro));
}

Result<Stmt> Parser::parse_call_block(int line) {
    CallBlock block{.caller = std::make_unique<MacroBody>(), .call = nullptr};
    block.caller->name = "caller";
    if (current().is_symbol("(")) TRY(parse_signature(*block.caller));
    block.call = TRY(parse_expression());
    auto* postfix = std::get_if<Postfix>(&block.call->node);
    if (!postfix || !std::holds_alternative<CallStep>(postfix->steps.back().action)) {
        return error_at(line, "expected a call in the tag 'call'");
    }
    TRY(parse_macro_body(*block.caller, "endcall"));
    return statement(line, std::move(block));
}

Result<Stmt> Parser::parse_filter_block(int line) {
    size_t known = unknown_.size();
    FilterBlock block;
    do {
        block.filters.push_back(TRY(parse_filter()));
    } while (skip_symbol("|"));
    block.body = TRY(parse_body({"endfilter"}));
    take();
    TRY(check_known(known));
    return statement(line, std::move(block));
}

Result<Stmt> Parser::parse_with(int line) {
    size_t known = unknown_.size();
    With with;
    while (!current().is(TokenType::block_end)) {
        if (!with.assignments.empty()) TRY(expect_symbol(","));
        Target target = TRY(parse_target({}));
        TRY(expect_symbol("="));
        with.assignments.emplace_back(std::move(target), TRY(parse_expression()));
    }
    with.body = TRY(parse_body({"endwith"}));
    take();
    TRY(check_known(known));
    return statement(line, std::move(with));
}

// Marks what the assistant says, for training: here it only has a scope of its own.
Result<Stmt> Parser::parse_generation(int line) {
    size_t known = unknown_.size();
    With with;
    with.body = TRY(parse_body({"endgeneration"}));
    take();
    TRY(check_known(known));
    return statement(line, std::move(with));
}

Result<Stmt> Parser::parse_loop_control(int line) {
    const std::string& word = take().text;
    if (loops_ == 0) return error_at(line, fmt::format("'{}' outside of a loop", word));
    if (word == "break") return statement(line, Break{});
    return statement(line, Continue{});
}

}  // namespace tandem::text::jinja
