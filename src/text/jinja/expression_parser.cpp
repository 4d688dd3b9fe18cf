// The expression half of the parser, from the loosest binding to the tightest.
#include <algorithm>

#include "text/jinja/parser.h"
#include "text/jinja/print.h"

namespace tandem::text::jinja {

using namespace ast;  // NOLINT(google-build-using-namespace): its own namespace, all of whose nodes are used here

namespace {

template <typename Node>
ExprPtr expression(int line, Node node) {
    return std::make_unique<Expr>(Expr{.line = line, .node = std::move(node)});
}

}  // namespace

Result<ExprPtr> Parser::parse_tuple(TupleRules rules) {
    int line = current().line;
    auto at_end = [&] {
        return current().is(TokenType::variable_end) || current().is(TokenType::block_end) ||
               current().is_symbol(")") || (!rules.end_name.empty() && current().is_name(rules.end_name));
    };
    std::vector<ExprPtr> items;
    bool is_tuple = false;
    while (!at_end()) {
        items.push_back(TRY(rules.conditional ? parse_conditional() : parse_logical(true)));
        if (!skip_symbol(",")) break;
        is_tuple = true;
    }
    if (!is_tuple && !items.empty()) return std::move(items[0]);
    if (!is_tuple && !rules.in_parentheses) return unexpected("an expression");
    return expression(line, ListLiteral{.items = std::move(items), .is_tuple = true});
}

Result<ExprPtr> Parser::parse_conditional() {
    NestingGuard nesting(depth_);
    TRY(check_depth());
    int line = current().line;
    size_t known = unknown_.size();
    ExprPtr value = TRY(parse_logical(true));
    if (!current().is_name("if")) return value;
    Conditional node{.value = std::move(value), .alternatives = {}};
    while (skip_name("if")) {
        Conditional::Alternative alternative{.test = TRY(parse_logical(true)), .otherwise = nullptr};
        if (skip_name("else")) alternative.otherwise = TRY(parse_conditional());
        node.alternatives.push_back(std::move(alternative));
    }
    unknown_.resize(known, Error{});
    return expression(line, std::move(node));
}

Result<ExprPtr> Parser::parse_logical(bool is_or) {
    int line = current().line;
    std::string_view word = is_or ? "or" : "and";
    ExprPtr first = TRY(is_or ? parse_logical(false) : parse_not());
    if (!current().is_name(word)) return first;
    Logical node{.is_or = is_or, .operands = {}};
    node.operands.push_back(std::move(first));
    while (skip_name(word)) node.operands.push_back(TRY(is_or ? parse_logical(false) : parse_not()));
    return expression(line, std::move(node));
}

Result<ExprPtr> Parser::parse_not() {
    int line = current().line;
    int count = 0;
    while (skip_name("not")) count++;
    ExprPtr value = TRY(parse_compare());
    // Any even number of them is the same as two, any odd number the same as one.
    int needed = count == 0 ? 0 : 2 - count % 2;
    for (int i = 0; i < needed; i++) {
        value = expression(line, Unary{.op = Unary::Op::invert, .operand = std::move(value)});
    }
    return value;
}

Result<std::optional<CompareOp>> Parser::parse_compare_operator() {
    constexpr std::pair<std::string_view, CompareOp> kOperators[] = {
        {"==", CompareOp::equal},      {"!=", CompareOp::not_equal}, {"<", CompareOp::less},
        {"<=", CompareOp::less_equal}, {">", CompareOp::greater},    {">=", CompareOp::greater_equal},
    };
    using Found = std::optional<CompareOp>;
    for (const auto& [symbol, op] : kOperators) {
        if (skip_symbol(symbol)) return Found(op);
    }
    if (skip_name("in")) return Found(CompareOp::in);
    if (current().is_name("not") && ahead().is_name("in")) {
        take();
        take();
        return Found(CompareOp::not_in);
    }
    return Found();
}

Result<ExprPtr> Parser::parse_compare() {
    int line = current().line;
    ExprPtr first = TRY(parse_sum());
    Compare node{.first = nullptr, .rest = {}};
    while (auto op = TRY(parse_compare_operator())) node.rest.emplace_back(*op, TRY(parse_sum()));
    if (node.rest.empty()) return first;
    node.first = std::move(first);
    return expression(line, std::move(node));
}

Result<ExprPtr> Parser::parse_sum() {
    int line = current().line;
    ExprPtr first = TRY(parse_concat());
    Arithmetic node{.first = nullptr, .rest = {}};
    while (current().is_symbol("+") || current().is_symbol("-")) {
        BinaryOp op = take().text == "+" ? BinaryOp::add : BinaryOp::subtract;
        node.rest.emplace_back(op, TRY(parse_concat()));
    }
    if (node.rest.empty()) return first;
    node.first = std::move(first);
    return expression(line, std::move(node));
}

Result<ExprPtr> Parser::parse_concat() {
    int line = current().line;
    ExprPtr first = TRY(parse_product());
    if (!current().is_symbol("~")) return first;
    Concat node;
    node.parts.push_back(std::move(first));
    while (skip_symbol("~")) node.parts.push_back(TRY(parse_product()));
    return expression(line, std::move(node));
}

Result<ExprPtr> Parser::parse_product() {
    constexpr std::pair<std::string_view, BinaryOp> kOperators[] = {
        {"*", BinaryOp::multiply},
        {"/", BinaryOp::divide},
        {"//", BinaryOp::floor_divide},
        {"%", BinaryOp::modulo},
    };
    int line = current().line;
    ExprPtr first = TRY(parse_power());
    Arithmetic node{.first = nullptr, .rest = {}};
    while (true) {
        auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                  [&](const auto& op) { return current().is_symbol(op.first); });
        if (found == std::end(kOperators)) break;
        take();
        node.rest.emplace_back(found->second, TRY(parse_power()));
    }
    if (node.rest.empty()) return first;
    node.first = std::move(first);
    return expression(line, std::move(node));
}

// Unlike in Python it groups from the left.
Result<ExprPtr> Parser::parse_power() {
    int line = current().line;
    ExprPtr first = TRY(parse_unary(true));
    Arithmetic node{.first = nullptr, .rest = {}};
    while (skip_symbol("**")) node.rest.emplace_back(BinaryOp::power, TRY(parse_unary(true)));
    if (node.rest.empty()) return first;
    node.first = std::move(first);
    return expression(line, std::move(node));
}

Result<ExprPtr> Parser::parse_unary(bool with_filters) {
    NestingGuard nesting(depth_);
    TRY(check_depth());
    int line = current().line;
    ExprPtr value;
    if (current().is_symbol("-") || current().is_symbol("+")) {
        Unary::Op op = take().text == "-" ? Unary::Op::negate : Unary::Op::posit;
        value = expression(line, Unary{.op = op, .operand = TRY(parse_unary(false))});
    } else {
        value = TRY(parse_primary());
    }
    std::vector<Step> steps;
    TRY(parse_postfix(steps));
    if (with_filters) TRY(parse_filters_and_tests(steps));
    return with_steps(std::move(value), std::move(steps));
}

ExprPtr Parser::with_steps(ExprPtr base, std::vector<Step> steps) const {
    if (steps.empty()) return base;
    int line = base->line;
    return expression(line, Postfix{.base = std::move(base), .steps = std::move(steps)});
}

Result<ExprPtr> Parser::parse_primary() {
    const Token& token = current();
    int line = token.line;
    switch (token.type) {
        case TokenType::name:
            return parse_name();
        case TokenType::integer:
            return expression(line, Literal{Value::integer(take().integer)});
        case TokenType::real:
            return expression(line, Literal{Value::real(take().real)});
        case TokenType::string: {
            std::string text;
            while (current().is(TokenType::string)) text += take().text;
            return expression(line, Literal{constant_string(std::move(text))});
        }
        default:
            break;
    }
    if (skip_symbol("(")) {
        ExprPtr inner = TRY(parse_tuple({.conditional = true, .in_parentheses = true, .end_name = {}}));
        TRY(expect_symbol(")"));
        return inner;
    }
    if (token.is_symbol("[")) return parse_list();
    if (token.is_symbol("{")) return parse_dict();
    return unexpected("an expression");
}

Result<ExprPtr> Parser::parse_name() {
    const Token& token = take();
    std::string_view name = token.text;
    if (name == "true" || name == "True") return expression(token.line, Literal{Value::boolean(true)});
    if (name == "false" || name == "False") return expression(token.line, Literal{Value::boolean(false)});
    if (name == "none" || name == "None") return expression(token.line, Literal{Value::none()});
    for (MacroBody* macro : macros_) {
        if (name == "varargs") macro->uses_varargs = true;
        if (name == "kwargs") macro->uses_kwargs = true;
        if (name == "caller") macro->uses_caller = true;
    }
    return expression(token.line, Name{program_.intern(name)});
}

Result<ExprPtr> Parser::parse_list() {
    int line = take().line;
    ListLiteral list{.items = {}, .is_tuple = false};
    while (!current().is_symbol("]")) {
        if (!list.items.empty()) TRY(expect_symbol(","));
        if (current().is_symbol("]")) break;
        list.items.push_back(TRY(parse_expression()));
    }
    TRY(expect_symbol("]"));
    return expression(line, std::move(list));
}

Result<ExprPtr> Parser::parse_dict() {
    int line = take().line;
    DictLiteral dict;
    while (!current().is_symbol("}")) {
        if (!dict.entries.empty()) TRY(expect_symbol(","));
        if (current().is_symbol("}")) break;
        ExprPtr key = TRY(parse_expression());
        TRY(expect_symbol(":"));
        dict.entries.emplace_back(std::move(key), TRY(parse_expression()));
    }
    TRY(expect_symbol("}"));
    return expression(line, std::move(dict));
}

Status Parser::parse_postfix(std::vector<Step>& steps) {
    while (true) {
        if (current().is_symbol(".")) {
            steps.push_back(TRY(parse_attribute()));
        } else if (current().is_symbol("[")) {
            steps.push_back(TRY(parse_subscript()));
        } else if (current().is_symbol("(")) {
            int line = current().line;
            steps.push_back({.line = line, .action = CallStep{TRY(parse_arguments())}});
        } else {
            return Ok{};
        }
    }
}

Status Parser::parse_filters_and_tests(std::vector<Step>& steps) {
    while (true) {
        if (skip_symbol("|")) {
            steps.push_back(TRY(parse_filter()));
        } else if (current().is_name("is")) {
            steps.push_back(TRY(parse_test()));
        } else if (current().is_symbol("(")) {
            int line = current().line;
            steps.push_back({.line = line, .action = CallStep{TRY(parse_arguments())}});
        } else {
            return Ok{};
        }
    }
}

Result<Step> Parser::parse_attribute() {
    int line = take().line;
    if (current().is(TokenType::name)) return Step{.line = line, .action = GetAttribute{take().text}};
    if (!current().is(TokenType::integer)) return unexpected("a name or number after '.'");
    return Step{.line = line, .action = GetItem{expression(line, Literal{Value::integer(take().integer)})}};
}

Result<Step> Parser::parse_subscript() {
    int line = take().line;
    std::vector<ExprPtr> keys;
    while (!current().is_symbol("]")) {
        if (!keys.empty()) TRY(expect_symbol(","));
        ExprPtr key;
        if (!current().is_symbol(":")) key = TRY(parse_expression());
        if (current().is_symbol(":")) {
            if (!keys.empty()) return error("a slice cannot be one of several subscripts");
            return parse_slice(line, std::move(key));
        }
        keys.push_back(std::move(key));
    }
    TRY(expect_symbol("]"));
    if (keys.size() == 1) return Step{.line = line, .action = GetItem{std::move(keys[0])}};
    ExprPtr tuple = expression(line, ListLiteral{.items = std::move(keys), .is_tuple = true});
    return Step{.line = line, .action = GetItem{std::move(tuple)}};
}

Result<Step> Parser::parse_slice(int line, ExprPtr start) {
    GetSlice slice{.start = std::move(start), .stop = nullptr, .step = nullptr};
    TRY(expect_symbol(":"));
    auto ends = [&] { return current().is_symbol(":") || current().is_symbol("]"); };
    if (!ends()) slice.stop = TRY(parse_expression());
    if (skip_symbol(":") && !ends()) slice.step = TRY(parse_expression());
    TRY(expect_symbol("]"));
    return Step{.line = line, .action = std::move(slice)};
}

Result<std::string> Parser::parse_dotted_name() {
    std::string name = TRY(expect_any_name());
    while (skip_symbol(".")) name += "." + TRY(expect_any_name());
    return name;
}

Result<Step> Parser::parse_filter() {
    int line = current().line;
    FilterStep filter{.name = TRY(parse_dotted_name()), .native = nullptr, .args = {}};
    filter.native = find_filter(filter.name);
    if (!filter.native) note_unknown("filter", filter.name, line);
    if (current().is_symbol("(")) filter.args = TRY(parse_arguments());
    return Step{.line = line, .action = std::move(filter)};
}

Result<Step> Parser::parse_test() {
    int line = take().line;
    bool negated = skip_name("not");
    TestStep test{.name = TRY(parse_dotted_name()), .native = nullptr, .args = {}, .negated = negated};
    test.native = find_test(test.name);
    if (!test.native) note_unknown("test", test.name, line);
    const Token& token = current();
    bool starts_argument = token.is(TokenType::name) || token.is(TokenType::string) || token.is(TokenType::integer) ||
                           token.is(TokenType::real) || token.is_symbol("[") || token.is_symbol("{");
    bool continues = token.is_name("else") || token.is_name("or") || token.is_name("and");
    if (token.is_symbol("(")) {
        test.args = TRY(parse_arguments());
    } else if (starts_argument && !continues) {
        if (token.is_name("is")) return error("you cannot chain multiple tests with is");
        ExprPtr argument = TRY(parse_primary());
        std::vector<Step> steps;
        TRY(parse_postfix(steps));
        test.args.positional.push_back(with_steps(std::move(argument), std::move(steps)));
    }
    return Step{.line = line, .action = std::move(test)};
}

Result<CallArguments> Parser::parse_arguments() {
    TRY(expect_symbol("("));
    CallArguments args;
    bool first = true;
    auto misplaced = [&] { return error("invalid syntax for function call expression"); };
    while (!current().is_symbol(")")) {
        if (!first) {
            TRY(expect_symbol(","));
            if (current().is_symbol(")")) break;
        }
        first = false;
        if (skip_symbol("*")) {
            if (args.more_positional || args.more_named) return misplaced();
            args.more_positional = TRY(parse_expression());
        } else if (skip_symbol("**")) {
            if (args.more_named) return misplaced();
            args.more_named = TRY(parse_expression());
        } else if (current().is(TokenType::name) && ahead().is_symbol("=")) {
            if (args.more_named) return misplaced();
            std::string name = take().text;
            take();
            bool repeated = std::any_of(args.named.begin(), args.named.end(),
                                        [&](const auto& other) { return other.first == name; });
            if (args.named.size() >= kMaxArguments) return error("too many keyword arguments");
            if (repeated) return error(fmt::format("keyword argument repeated: {}", name));
            args.named.emplace_back(std::move(name), TRY(parse_expression()));
        } else {
            if (args.more_positional || args.more_named || !args.named.empty()) return misplaced();
            args.positional.push_back(TRY(parse_expression()));
        }
    }
    TRY(expect_symbol(")"));
    return args;
}

}  // namespace tandem::text::jinja
