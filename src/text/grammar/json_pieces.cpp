#include "text/grammar/json_pieces.h"

#include <nlohmann/json.hpp>

namespace tandem::text::grammar {

namespace {

constexpr uint32_t kIndentation = 20;
constexpr uint32_t kIntegerDigits = 15;  // what a double holds exactly
constexpr uint32_t kFractionDigits = 15;
constexpr uint32_t kExponentDigits = 2;

CodePoints digits() {
    return {{'0', '9'}};
}

// What stands in a string as it is.
CodePoints plain_characters() {
    return CodePoints({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}).complement();
}

}  // namespace

std::string quote_json(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A rule of its own, made when it is first needed; it may use itself.
template <typename Make>
NodeId JsonPieces::once(std::optional<RuleId>& rule, Make make) {
    if (!rule) {
        rule = grammar_.add_rule({});
        grammar_.define(*rule, make());
    }
    return grammar_.use(*rule);
}

NodeId JsonPieces::space() {
    const NodeId indentation = once(indentation_, [&] {
        return grammar_.repeat(grammar_.characters({{' ', ' '}, {'\t', '\t'}}), 0, kIndentation);
    });
    return grammar_.optional(
        grammar_.choice({grammar_.literal(" "), grammar_.sequence({grammar_.literal("\n"), indentation})}));
}

NodeId JsonPieces::comma() {
    return grammar_.sequence({grammar_.literal(","), space()});
}

NodeId JsonPieces::string_character() {
    return once(character_, [&] {
        const NodeId hex = grammar_.characters({{'0', '9'}, {'a', 'f'}, {'A', 'F'}});
        const NodeId d = grammar_.characters({{'d', 'd'}, {'D', 'D'}});
        const NodeId other = grammar_.characters({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}});
        // Half of a surrogate pair alone is no character.
        const NodeId one = grammar_.choice({grammar_.sequence({other, hex, hex, hex}),
                                            grammar_.sequence({d, grammar_.characters({{'0', '7'}}), hex, hex})});
        const NodeId high = grammar_.characters({{'8', '9'}, {'a', 'b'}, {'A', 'B'}});
        const NodeId low = grammar_.characters({{'c', 'f'}, {'C', 'F'}});
        const NodeId pair = grammar_.sequence({d, high, hex, hex, grammar_.literal("\\u"), d, low, hex, hex});
        const NodeId escape = grammar_.choice(
            {grammar_.characters(
                 {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}}),
             grammar_.sequence({grammar_.literal("u"), grammar_.choice({one, pair})})});
        return grammar_.choice(
            {grammar_.characters(plain_characters()), grammar_.sequence({grammar_.literal("\\"), escape})});
    });
}

NodeId JsonPieces::string() {
    return once(string_, [&] { return string(0, kUnbounded); });
}

NodeId JsonPieces::string(uint32_t min_length, uint32_t max_length) {
    string_character();
    const bool is_plain = min_length == 0 && max_length == kUnbounded;
    // Not a call for each character where nothing is counted.
    const NodeId character = is_plain ? grammar_.rules()[*character_].body : grammar_.use(*character_);
    const NodeId quote = grammar_.literal("\"");
    return grammar_.sequence({quote, grammar_.repeat(character, min_length, max_length), quote});
}

NodeId JsonPieces::characters_in_string(const CodePoints& points) {
    std::vector<NodeId> options = {grammar_.characters(points.without(plain_characters().complement()))};
    for (uint32_t code = 0; code <= '\\'; ++code) {
        if ((code >= 0x20 && code != '"' && code != '\\') || !points.contains(code)) continue;
        const std::string quoted = quote_json(std::string(1, static_cast<char>(code)));
        options.push_back(grammar_.literal(quoted.substr(1, quoted.size() - 2)));
    }
    return grammar_.choice(options);
}

NodeId JsonPieces::integer() {
    return once(integer_, [&] {
        const NodeId more = grammar_.repeat(grammar_.characters(digits()), 0, kIntegerDigits - 1);
        const NodeId positive = grammar_.sequence({grammar_.characters({{'1', '9'}}), more});
        return grammar_.choice(
            {grammar_.literal("0"), grammar_.sequence({grammar_.optional(grammar_.literal("-")), positive})});
    });
}

NodeId JsonPieces::number() {
    return once(number_, [&] {
        const NodeId digit = grammar_.characters(digits());
        const NodeId whole = grammar_.choice(
            {grammar_.literal("0"),
             grammar_.sequence({grammar_.characters({{'1', '9'}}), grammar_.repeat(digit, 0, kIntegerDigits - 1)})});
        const NodeId fraction = grammar_.sequence({grammar_.literal("."), grammar_.repeat(digit, 1, kFractionDigits)});
        const NodeId exponent = grammar_.sequence({grammar_.characters({{'e', 'e'}, {'E', 'E'}}),
                                                   grammar_.optional(grammar_.characters({{'+', '+'}, {'-', '-'}})),
                                                   grammar_.repeat(digit, 1, kExponentDigits)});
        return grammar_.sequence({grammar_.optional(grammar_.literal("-")), whole, grammar_.optional(fraction),
                                  grammar_.optional(exponent)});
    });
}

NodeId JsonPieces::any_value() {
    return once(value_, [&] {
        return grammar_.choice({any_object(), any_array(), string(), number(), grammar_.literal("true"),
                                grammar_.literal("false"), grammar_.literal("null")});
    });
}

NodeId JsonPieces::any_object() {
    return once(object_, [&] {
        const NodeId pair = member(string(), any_value());
        const NodeId more = grammar_.repeat(grammar_.sequence({comma(), pair}), 0, kUnbounded);
        return braces(grammar_.optional(grammar_.sequence({pair, more})));
    });
}

NodeId JsonPieces::any_array() {
    return once(array_, [&] {
        const NodeId more = grammar_.repeat(grammar_.sequence({comma(), any_value()}), 0, kUnbounded);
        return brackets(grammar_.optional(grammar_.sequence({any_value(), more})));
    });
}

NodeId JsonPieces::braces(NodeId members) {
    return grammar_.sequence({grammar_.literal("{"), space(), members, space(), grammar_.literal("}")});
}

NodeId JsonPieces::brackets(NodeId items) {
    return grammar_.sequence({grammar_.literal("["), space(), items, space(), grammar_.literal("]")});
}

NodeId JsonPieces::member(NodeId key, NodeId value) {
    return grammar_.sequence({key, grammar_.literal(":"), space(), value});
}

}  // namespace tandem::text::grammar
