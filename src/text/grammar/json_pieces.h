// The parts of JSON texts that every schema needs: strings, numbers, any value, and the whitespace between them; and of
// texts that are like JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/grammar.h"

namespace tandem::text::grammar {

// How values are written.
struct Notation {
    bool is_json = true;            // if not, strings have no escapes, most keys no quotes, and there is no white space
    std::string_view quote = "\"";  // at both ends of strings: of others than JSON a mark, or nothing
    // Marks that end what a value is part of, so that no string has them. All begin with the same character, which they
    // have once.
    std::vector<std::string_view> never = {};
};

class JsonPieces {
  public:
    explicit JsonPieces(Grammar& grammar, Notation notation = {}) : grammar_(grammar), notation_(std::move(notation)) {}

    Grammar& grammar() { return grammar_; }
    const Notation& notation() const { return notation_; }

    // Nothing, a space, or a new line and its indentation: enough to write neatly, too little to drift.
    NodeId space();
    // A comma, and space.
    NodeId comma();

    NodeId string();
    NodeId string(uint32_t min_length, uint32_t max_length);
    // The characters of a set, as they stand in a string: what must be escaped is, in one way.
    NodeId characters_in_string(const CodePoints& points);
    // What stands in a string as it is, for strings of some length.
    CodePoints plain_characters() const;
    NodeId quote();

    // A value that is known, written in one way. Nothing can be written for a string with a mark in it.
    NodeId value(const nlohmann::ordered_json& value);
    // The key of a member.
    NodeId key(std::string_view name);
    NodeId any_key();

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
    // One character of a string, raw or escaped, but for some.
    NodeId character_but(const CodePoints& points);
    NodeId escape();
    // Any number of characters, but for the marks.
    NodeId text();
    NodeId text_after(const std::vector<std::string_view>& rests);
    CodePoints first_of_marks() const;
    NodeId known_string(std::string_view value);
    NodeId list_of(std::string_view begin, const std::vector<NodeId>& items, std::string_view end);

    template <typename Make>
    NodeId once(std::optional<RuleId>& rule, Make make);

    Grammar& grammar_;
    Notation notation_;
    std::optional<RuleId> indentation_, string_, escape_, character_, integer_, number_, value_, object_, array_;
};

// Text of a template. Marks in it, which are in <> or [], may be control tokens; line breaks may be left out where they
// are loose.
NodeId marked_text(Grammar& grammar, std::string_view text, bool loose_breaks = false);

// As JSON writes it, with quotes.
std::string quote_json(std::string_view text);

}  // namespace tandem::text::grammar
