#include "text/grammar/compiled_grammar.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "text/grammar/automaton.h"
#include "text/grammar/call_grammar.h"
#include "text/grammar/ecma_regex.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/schema.h"

namespace tandem::text {

namespace {

Result<CompiledGrammarPtr> compile(const grammar::Grammar& source, std::string_view name) {
    auto automaton = grammar::Automaton::compile(source);
    if (!automaton) return fail("{}: {}", name, automaton.error().message);
    return CompiledGrammarPtr(std::make_shared<CompiledGrammar>(std::move(*automaton)));
}

// Those at both ends, which say what is meant anyway.
std::string_view without_anchors(std::string_view pattern) {
    if (pattern.starts_with('^')) pattern.remove_prefix(1);
    if (!pattern.ends_with('$')) return pattern;
    const std::string_view before = pattern.substr(0, pattern.size() - 1);
    const size_t backslashes = before.size() - (before.find_last_not_of('\\') + 1);
    return backslashes % 2 == 0 ? before : pattern;
}

grammar::Grammar with_root(grammar::Grammar source, grammar::NodeId body) {
    const grammar::RuleId root = source.add_rule("root");
    source.define(root, body);
    source.set_root(root);
    return source;
}

}  // namespace

CompiledGrammar::CompiledGrammar(grammar::Automaton automaton)
    : automaton_(std::make_unique<const grammar::Automaton>(std::move(automaton))) {}

CompiledGrammar::~CompiledGrammar() = default;

Result<CompiledGrammarPtr> compile_gbnf(std::string_view text) {
    return compile(TRY(grammar::parse_gbnf(text)), "grammar");
}

Result<CompiledGrammarPtr> compile_json_schema(std::string_view schema) {
    return compile(TRY(grammar::translate_schema(schema)), "schema");
}

Result<CompiledGrammarPtr> compile_regex(std::string_view pattern) {
    grammar::Grammar source;
    const auto write = [&](const grammar::CodePoints& points) { return source.characters(points); };
    const auto regex = grammar::parse_ecma_regex(source, fmt::format("^(?:{})$", without_anchors(pattern)), write);
    if (!regex) return fail("regular expression: {}", regex.error().message);
    return compile(with_root(std::move(source), regex->node), "regular expression");
}

Result<CompiledGrammarPtr> compile_choice(std::span<const std::string> texts) {
    grammar::Grammar source;
    std::vector<grammar::NodeId> options;
    options.reserve(texts.size());
    for (const std::string& text : texts) options.push_back(source.literal(text));
    const grammar::NodeId any = source.choice(options);
    return compile(with_root(std::move(source), any), "choice");
}

Result<CompiledGrammarPtr> compile_calls(const CallRules& rules) {
    return compile(TRY(grammar::translate_calls(rules)), "tools");
}

Result<CompiledGrammarPtr> compile_json_object() {
    return compile(grammar::json_object_grammar(), "JSON");
}

}  // namespace tandem::text
