// Grammars that an answer can be held to: from GBNF text, from a JSON Schema, or any JSON.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/answer_format.h"

namespace tandem::text {

namespace grammar {
class Automaton;
class Grammar;
}  // namespace grammar

// Immutable; any number of requests and models may share one.
class CompiledGrammar {
  public:
    explicit CompiledGrammar(grammar::Automaton automaton);
    ~CompiledGrammar();
    CompiledGrammar(const CompiledGrammar&) = delete;
    CompiledGrammar& operator=(const CompiledGrammar&) = delete;

    const grammar::Automaton& automaton() const { return *automaton_; }

  private:
    std::unique_ptr<const grammar::Automaton> automaton_;
};

using CompiledGrammarPtr = std::shared_ptr<const CompiledGrammar>;

// The notation of llama.cpp's grammars; the text is what the rule `root` matches. Errors name the line.
Result<CompiledGrammarPtr> compile_gbnf(std::string_view text);

// The JSON texts that are valid for a schema, as far as docs/structured-output.md says; what is not supported is an
// error that names its place, such as "schema at /properties/name/pattern: ...".
Result<CompiledGrammarPtr> compile_json_schema(std::string_view schema);

// The texts that a regular expression matches from beginning to end (text/grammar/ecma_regex.h).
Result<CompiledGrammarPtr> compile_regex(std::string_view pattern);

// One of these texts.
Result<CompiledGrammarPtr> compile_choice(std::span<const std::string> texts);

// Calls of tools in the form of a family of models.
struct CallRules {
    AnswerFormat format;
    bool several = false;    // at once, where the family can; if not, one
    bool with_text = false;  // free text may come before the calls, or in their place
    bool begins_in_reasoning = false;
    // [{"name": text, "parameters": a schema of objects, null for any}]
    nlohmann::ordered_json tools = nlohmann::ordered_json::array();
};
Result<CompiledGrammarPtr> compile_calls(const CallRules& rules);

// Any JSON object, as OpenAI's "json_object" asks for.
Result<CompiledGrammarPtr> compile_json_object();

}  // namespace tandem::text
