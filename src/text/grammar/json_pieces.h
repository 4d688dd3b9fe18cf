// The parts of JSON texts that every schema needs: strings, numbers, any value, and the whitespace between them.
#pragma once

#include <optional>
#include <string_view>

#include "text/grammar/grammar.h"

namespace tandem::text::grammar {

class JsonPieces {
  public:
    explicit JsonPieces(Grammar& grammar) : grammar_(grammar) {}

    // Nothing, a space, or a new line and its indentation: enough to write neatly, too little to drift.
    NodeId space();
    // A comma, and space.
    NodeId comma();

    NodeId string();
    NodeId string(uint32_t min_length, uint32_t max_length);
    // One character of a string, raw or escaped.
    NodeId string_character();
    // The characters of a set, as they stand in a string: what must be escaped is, in one way.
    NodeId characters_in_string(const CodePoints& points);

    NodeId integer();
    NodeId number();
    NodeId any_value();
    NodeId any_object();
    NodeId any_array();

    // "{" ... "}" and "[" ... "]"
    NodeId braces(NodeId members);
    NodeId brackets(NodeId items);
    // "key": value
    NodeId member(NodeId key, NodeId value);

  private:
    template <typename Make>
    NodeId once(std::optional<RuleId>& rule, Make make);

    Grammar& grammar_;
    std::optional<RuleId> indentation_, string_, character_, integer_, number_, value_, object_, array_;
};

// As JSON writes it, with quotes.
std::string quote_json(std::string_view text);

}  // namespace tandem::text::grammar
