#include "text/grammar/compiled_grammar.h"

#include "text/grammar/automaton.h"
#include "text/grammar/gbnf.h"
#include "text/grammar/schema.h"

namespace tandem::text {

namespace {

Result<CompiledGrammarPtr> compile(const grammar::Grammar& source, std::string_view name) {
    auto automaton = grammar::Automaton::compile(source);
    if (!automaton) return fail("{}: {}", name, automaton.error().message);
    return CompiledGrammarPtr(std::make_shared<CompiledGrammar>(std::move(*automaton)));
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

Result<CompiledGrammarPtr> compile_json_object() {
    return compile(grammar::json_object_grammar(), "JSON");
}

}  // namespace tandem::text
