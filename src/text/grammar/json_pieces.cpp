#include "text/grammar/json_pieces.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "text/grammar/token_trie.h"
#include "text/utf8.h"

namespace tandem::text::grammar {

namespace {

constexpr uint32_t kIndentation = 20;
constexpr uint32_t kIntegerDigits = 15;  // what a double holds exactly
constexpr uint32_t kFractionDigits = 15;
constexpr uint32_t kExponentDigits = 2;
constexpr uint32_t kMaxBareKey = 64;

CodePoints digits() {
    return {{'0', '9'}};
}

// Of keys without quotes.
CodePoints bare_characters() {
    return {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}, {'-', '-'}, {'.', '.'}, {'$', '$'}};
}

bool is_bare(std::string_view key) {
    const CodePoints bare = bare_characters();
    return !key.empty() &&
           std::all_of(key.begin(), key.end(), [&](char c) { return bare.contains(static_cast<unsigned char>(c)); });
}

}  // namespace

NodeId marked_text(Grammar& grammar, std::string_view text, bool loose_breaks) {
    std::vector<NodeId> parts;
    while (!text.empty()) {
        const bool is_break = loose_breaks && text.front() == '\n';
        const size_t end = is_break ? 0
                                    : text.find_first_of(text.front() == '<'   ? ">"
                                                         : text.front() == '[' ? "]"
                                                                               : "");
        const bool is_mark = end != std::string_view::npos && end > 0;
        const size_t size = is_break ? 1 : is_mark ? end + 1 : std::min(text.find_first_of("<[\n", 1), text.size());
        const NodeId plain = grammar.literal(text.substr(0, size));
        if (is_break) {
            parts.push_back(grammar.optional(plain));
        } else if (is_mark) {
            const std::string control = kControlByte + std::string(text.substr(0, size));
            parts.push_back(grammar.choice({grammar.literal(control), plain}));
        } else {
            parts.push_back(plain);
        }
        text.remove_prefix(size);
    }
    return grammar.sequence(parts);
}

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
    if (!notation_.is_json) return Grammar::empty();
    const NodeId indentation = once(indentation_, [&] {
        return grammar_.repeat(grammar_.characters({{' ', ' '}, {'\t', '\t'}}), 0, kIndentation);
    });
    return grammar_.optional(
        grammar_.choice({grammar_.literal(" "), grammar_.sequence({grammar_.literal("\n"), indentation})}));
}

NodeId JsonPieces::comma() {
    return grammar_.sequence({grammar_.literal(","), space()});
}

NodeId JsonPieces::escape() {
    return once(escape_, [&] {
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
        return grammar_.sequence({grammar_.literal("\\"), escape});
    });
}

CodePoints JsonPieces::first_of_marks() const {
    CodePoints first;
    for (const std::string_view mark : notation_.never) {
        const auto code = static_cast<unsigned char>(mark.front());
        first.add(code, code);
    }
    return first;
}

CodePoints JsonPieces::plain_characters() const {
    if (!notation_.is_json) return first_of_marks().complement();
    return CodePoints({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}).complement().without(first_of_marks());
}

NodeId JsonPieces::quote() {
    return notation_.is_json ? grammar_.literal(notation_.quote) : marked_text(grammar_, notation_.quote);
}

NodeId JsonPieces::character_but(const CodePoints& points) {
    if (!notation_.is_json) return grammar_.characters(points.complement());
    const CodePoints special = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    escape();
    // Not a call for each character.
    return grammar_.choice(
        {grammar_.characters(special.complement().without(points)), grammar_.rules()[*escape_].body});
}

NodeId JsonPieces::text() {
    const NodeId plain = grammar_.repeat(character_but(first_of_marks()), 0, kUnbounded);
    if (notation_.never.empty()) return plain;
    std::vector<std::string_view> rests;
    for (const std::string_view mark : notation_.never) rests.push_back(mark.substr(1));
    const NodeId first = grammar_.literal(notation_.never.front().substr(0, 1));
    const NodeId more = grammar_.sequence({first, text_after(rests)});
    return grammar_.sequence({plain, grammar_.repeat(more, 0, kUnbounded)});
}

// What may follow the first character of the marks, and some more of those whose rests are given, up to the next one.
NodeId JsonPieces::text_after(const std::vector<std::string_view>& rests) {
    std::map<char, std::vector<std::string_view>> by_next;
    for (const std::string_view rest : rests) {
        if (rest.empty()) return grammar_.nothing();  // it was a mark
        by_next[rest.front()].push_back(rest.substr(1));
    }
    const CodePoints first = first_of_marks();
    CodePoints others = first;
    std::vector<NodeId> options = {Grammar::empty()};
    for (const auto& [next, group] : by_next) {
        const auto code = static_cast<unsigned char>(next);
        others.add(code, code);
        options.push_back(grammar_.sequence({grammar_.literal(std::string(1, next)), text_after(group)}));
    }
    const NodeId more = grammar_.repeat(character_but(first), 0, kUnbounded);
    options.push_back(grammar_.sequence({character_but(others), more}));
    return grammar_.choice(options);
}

NodeId JsonPieces::string() {
    return once(string_, [&] { return grammar_.sequence({quote(), text(), quote()}); });
}

NodeId JsonPieces::string(uint32_t min_length, uint32_t max_length) {
    if (min_length == 0 && max_length == kUnbounded) return string();
    const NodeId character = once(character_, [&] { return character_but(first_of_marks()); });
    return grammar_.sequence({quote(), grammar_.repeat(character, min_length, max_length), quote()});
}

NodeId JsonPieces::characters_in_string(const CodePoints& points) {
    const CodePoints plain = points.without(plain_characters().complement());
    if (!notation_.is_json) {
        // A mark's first character is written only where no other may be.
        return grammar_.characters(plain.empty() ? points : plain);
    }
    std::vector<NodeId> options = {grammar_.characters(plain)};
    for (uint32_t code = 0; code <= '\\'; ++code) {
        if (plain_characters().contains(code) || !points.contains(code)) continue;
        const std::string quoted = quote_json(std::string(1, static_cast<char>(code)));
        const bool is_escaped = quoted.size() > 3;
        options.push_back(
            grammar_.literal(is_escaped ? quoted.substr(1, quoted.size() - 2) : fmt::format("\\u{:04x}", code)));
    }
    return grammar_.choice(options);
}

NodeId JsonPieces::known_string(std::string_view value) {
    if (notation_.is_json) return this->value(value);
    for (const std::string_view mark : notation_.never) {
        if (value.find(mark) != std::string_view::npos) return grammar_.nothing();
    }
    return grammar_.sequence({quote(), grammar_.literal(value), quote()});
}

NodeId JsonPieces::list_of(std::string_view begin, const std::vector<NodeId>& items, std::string_view end) {
    std::vector<NodeId> parts = {grammar_.literal(begin)};
    for (size_t i = 0; i < items.size(); ++i) {
        if (i > 0) parts.push_back(grammar_.literal(","));
        parts.push_back(items[i]);
    }
    parts.push_back(grammar_.literal(end));
    return grammar_.sequence(parts);
}

NodeId JsonPieces::value(const nlohmann::ordered_json& value) {
    if (notation_.is_json || !(value.is_string() || value.is_structured())) {
        std::string written = value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
        const CodePoints marks = first_of_marks();
        for (const CodeRange& first : marks.ranges()) {  // in strings only
            const std::string escape = fmt::format("\\u{:04x}", first.first);
            written = replace_all(written, std::string(1, static_cast<char>(first.first)), escape);
        }
        return grammar_.literal(written);
    }
    if (value.is_string()) return known_string(value.get_ref<const std::string&>());
    std::vector<NodeId> items;
    items.reserve(value.size());
    if (value.is_array()) {
        for (const auto& item : value) items.push_back(this->value(item));
        return list_of("[", items, "]");
    }
    for (const auto& [name, member] : value.items()) {
        items.push_back(grammar_.sequence({key(name), grammar_.literal(":"), this->value(member)}));
    }
    return list_of("{", items, "}");
}

NodeId JsonPieces::key(std::string_view name) {
    return !notation_.is_json && is_bare(name) ? grammar_.literal(name) : known_string(name);
}

NodeId JsonPieces::any_key() {
    return notation_.is_json ? string() : grammar_.repeat(grammar_.characters(bare_characters()), 1, kMaxBareKey);
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
        const NodeId pair = member(any_key(), any_value());
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
