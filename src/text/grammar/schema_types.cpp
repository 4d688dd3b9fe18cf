#include <algorithm>

#include "text/grammar/limits.h"
#include "text/grammar/schema_translator.h"
#include "text/grammar/string_formats.h"
#include "text/utf8.h"

namespace tandem::text::grammar {

namespace {

const Json kFalse = false;
constexpr size_t kMaxPrefixItems = 100;
constexpr size_t kMaxKeyBytes = 256;  // of declared properties where others are allowed

std::u32string code_points(std::string_view text) {
    std::u32string points;
    while (!text.empty()) {
        const Utf8Char next = decode_utf8(text);
        points += static_cast<char32_t>(next.code);
        text.remove_prefix(next.length);
    }
    return points;
}

std::string lower_case(std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
}

// Whether a name can stand between marks that end where a character of them comes.
bool fits_marks(std::string_view name) {
    constexpr std::string_view kSpaces = " \t\r\n";
    return !name.empty() && name.find_first_of("<>") == std::string_view::npos &&
           kSpaces.find(name.front()) == std::string_view::npos && kSpaces.find(name.back()) == std::string_view::npos;
}

}  // namespace

Result<NodeId> SchemaTranslator::translate_type(const std::string& type, const Json& schema, const Place& place) {
    if (place.form == Form::arguments && type != "object") return grammar_.nothing();
    if (place.form == Form::bare && type != "string") return grammar_.nothing();
    if (type == "null") return grammar_.literal("null");
    if (type == "boolean") return grammar_.choice({grammar_.literal("true"), grammar_.literal("false")});
    if (type == "string") return translate_string(schema, place);
    if (type == "array") return translate_array(schema, place);
    if (type == "object") return translate_object(schema, place);
    return translate_number(schema, type == "integer", place);
}

Result<uint32_t> SchemaTranslator::count_of(const Json& schema, const char* name, uint32_t otherwise,
                                            const Place& place) const {
    const Json* value = keyword(schema, name);
    if (value == nullptr) return otherwise;
    const double count = value->is_number() ? value->get<double>() : -1;
    if (count < 0 || count > kMaxCount || count != static_cast<uint32_t>(count)) {
        return error(place.at(name), fmt::format("it is not a whole number from 0 to {}", kMaxCount));
    }
    return static_cast<uint32_t>(count);
}

// Those that are declared, then those that are only required.
Result<std::vector<SchemaTranslator::Member>> SchemaTranslator::members_of(const Json& schema,
                                                                           const Place& place) const {
    std::vector<Member> members;
    std::unordered_map<std::string, size_t> places;
    if (const Json* properties = keyword(schema, "properties")) {
        if (!properties->is_object()) return error(place.at("properties"), "it is not an object");
        members.reserve(properties->size());
        for (const auto& [name, property] : properties->items()) members.push_back({name, &property, false});
    }
    for (size_t i = 0; i < members.size(); ++i) places.emplace(members[i].name, i);
    const Json* required = keyword(schema, "required");
    if (required == nullptr) return members;
    if (!required->is_array() || required->size() > kMaxObjectMembers) {
        return error(place.at("required"), "it is not a list of at most 2000 names");
    }
    const size_t declared = members.size();
    members.reserve(declared + required->size());
    for (const Json& name : *required) {
        if (!name.is_string()) return error(place.at("required"), "it is not a list of names");
        const auto known = places.find(name.get_ref<const std::string&>());
        if (known != places.end()) {
            members[known->second].required = true;
            continue;
        }
        const Json* property = property_schema(schema, name.get<std::string>(), false);
        if (property == nullptr && !place.merged) {
            return error(place.at("required"), fmt::format("'{}' is required, but additionalProperties forbids it",
                                                           to_valid_utf8(name.get<std::string>().substr(0, 100))));
        }
        members.push_back({name.get<std::string>(), property == nullptr ? &kFalse : property, true});
        places.emplace(name.get_ref<const std::string&>(), members.size() - 1);
    }
    return members;
}

Result<NodeId> SchemaTranslator::translate_object(const Json& schema, const Place& place) {
    std::vector<Member> members = TRY(members_of(schema, place));
    if (members.empty()) return translate_map(schema, place);
    if (schema.contains("propertyNames"))
        return error(place.at("propertyNames"), "it is supported without properties only");
    if (!json_.notation().is_json) {  // as the templates of such models write them
        std::ranges::stable_sort(members, {}, [](const Member& member) { return lower_case(member.name); });
    }
    std::vector<Grammar::ListItem> items;
    items.reserve(members.size() + 1);
    uint32_t required = 0;
    for (const Member& member : members) {
        required += member.required ? 1 : 0;
        if (*member.schema == false && !member.required) continue;
        items.push_back({TRY(translate_member(member, place)), !member.required});
    }
    const bool as_elements = place.form == Form::arguments && marks_ != nullptr;
    const Json* additional = keyword(schema, "additionalProperties");
    const bool is_open = additional != nullptr && *additional != false && !as_elements;
    if (is_open) {
        Place other_place = place.at("additionalProperties");
        other_place.form = Form::value;
        const NodeId value = TRY(translate(*additional, other_place));
        const NodeId other = grammar_.shared(json_.member(other_keys(members), grammar_.shared(value)));
        const NodeId more = grammar_.repeat(grammar_.sequence({json_.comma(), other}), 0, kUnbounded);
        items.push_back({grammar_.sequence({other, more}), true});
    }
    if (TRY(count_of(schema, "minProperties", 0, place)) > required) {
        return error(place.at("minProperties"), "it is above the number of required properties: require them by name");
    }
    const auto most = TRY(count_of(schema, "maxProperties", kUnbounded, place));
    if (is_open ? most != kUnbounded : most < members.size()) {
        return error(place.at("maxProperties"), "it is supported without properties only");
    }
    return as_elements ? grammar_.list(items, Grammar::empty()) : json_.braces(grammar_.list(items, json_.comma()));
}

Result<NodeId> SchemaTranslator::translate_member(const Member& member, const Place& place) {
    Place value_place = place.at("properties").at(member.name);
    const bool as_element = place.form == Form::arguments && marks_ != nullptr;
    value_place.form = as_element && marks_->texts.contains(member.name) ? Form::bare : Form::value;
    const NodeId value = grammar_.shared(TRY(translate(*member.schema, value_place)));
    if (!as_element) return json_.member(json_.key(member.name), value);
    if (!fits_marks(member.name)) {
        return error(place, fmt::format("the model's form of calls has no way to write the name '{}'",
                                        to_valid_utf8(member.name.substr(0, 100))));
    }
    return element(grammar_.literal(member.name), value);
}

NodeId SchemaTranslator::element(NodeId key, NodeId value) {
    return grammar_.sequence({element_mark(marks_->before_key), key, element_mark(marks_->after_key),
                              element_mark(marks_->before_value), value, element_mark(marks_->after_value)});
}

NodeId SchemaTranslator::element_mark(std::string_view written) {
    return marked_text(grammar_, written, marks_->loose_breaks);
}

// An object without declared properties.
Result<NodeId> SchemaTranslator::translate_map(const Json& schema, const Place& place) {
    const Json* additional = keyword(schema, "additionalProperties");
    const Json* names = keyword(schema, "propertyNames");
    const uint32_t min = TRY(count_of(schema, "minProperties", 0, place));
    uint32_t max = TRY(count_of(schema, "maxProperties", kUnbounded, place));
    // {"properties": {}} and nothing else to say has no properties, as any other object has only those it declares.
    const bool is_empty = schema.contains("properties") && additional == nullptr;
    if (is_empty || (additional != nullptr && *additional == false)) max = 0;
    if (min > 1) return error(place.at("minProperties"), "more than 1 is not supported: keys could come twice");
    if (min > max) return impossible(place, "it has fewer properties than minProperties");
    const bool as_elements = place.form == Form::arguments && marks_ != nullptr;
    if (max == 0) return as_elements ? Grammar::empty() : json_.braces(Grammar::empty());
    if (!as_elements && names == nullptr && min == 0 && max == kUnbounded &&
        (additional == nullptr || *additional == true)) {
        return json_.any_object();
    }
    NodeId key = json_.any_key();
    if (as_elements) key = bare_->any_key();
    if (names != nullptr) {
        if (as_elements) return error(place.at("propertyNames"), "the model's form of calls has no way to write it");
        const auto flat = algebra_.flatten(*names);
        if (!flat) return at(place.at("propertyNames"), flat.error());
        auto strings = algebra_.both(*flat, {{"type", "string"}});
        if (!strings) return at(place.at("propertyNames"), strings.error());
        key = grammar_.shared(TRY(translate(*strings, place.at("propertyNames"))));
    }
    Place value_place = place.at("additionalProperties");
    value_place.form = Form::value;
    const NodeId value =
        grammar_.shared(additional == nullptr ? json_.any_value() : TRY(translate(*additional, value_place)));
    if (as_elements) return grammar_.repeat(grammar_.shared(element(key, value)), min, max);
    return json_.braces(items_between(grammar_.shared(json_.member(key, value)), min, max));
}

// item, item, item: as many as the bounds say.
NodeId SchemaTranslator::items_between(NodeId item, uint32_t min, uint32_t max) {
    if (max == 0) return Grammar::empty();
    const NodeId next = grammar_.sequence({json_.comma(), item});
    const NodeId more = grammar_.repeat(next, std::max(min, 1U) - 1, max == kUnbounded ? kUnbounded : max - 1);
    const NodeId all = grammar_.sequence({item, more});
    return min == 0 ? grammar_.optional(all) : all;
}

NodeId SchemaTranslator::other_keys(const std::vector<Member>& members) {
    std::vector<std::u32string> names;
    names.reserve(members.size());
    for (const Member& member : members) {
        // One that needs an escape is never written as another key.
        if (!json_.notation().is_json || quote_json(member.name).size() == member.name.size() + 2)
            names.push_back(code_points(member.name));
    }
    return grammar_.shared(grammar_.sequence({json_.quote(), key_except(std::move(names), 0)}));
}

// Keys that are not declared are written without escapes, so that they are easily told from those that are.
// What is left of a key after `depth` characters that all of the names have, if it is none of them; with its quote.
NodeId SchemaTranslator::key_except(std::vector<std::u32string> names, size_t depth) {
    std::map<char32_t, std::vector<std::u32string>> by_next;
    bool is_name = false;
    for (std::u32string& name : names) {
        if (name.size() == depth)
            is_name = true;
        else
            by_next[name[depth]].push_back(std::move(name));
    }
    CodePoints others = json_.plain_characters();
    CodePoints taken;
    std::vector<NodeId> options;
    for (auto& group : by_next) {
        taken.add(group.first, group.first);
        // Longer keys than this are not told apart: no other key may begin so.
        if (depth >= kMaxKeyBytes) continue;
        const CodePoints next = {{group.first, group.first}};
        options.push_back(
            grammar_.sequence({grammar_.characters(next), key_except(std::move(group.second), depth + 1)}));
    }
    const NodeId quote = json_.quote();
    const NodeId rest = grammar_.repeat(grammar_.characters(json_.plain_characters()), 0, kUnbounded);
    options.push_back(grammar_.sequence({grammar_.characters(others.without(taken)), rest, quote}));
    if (!is_name) options.push_back(quote);
    return grammar_.choice(options);
}

Result<NodeId> SchemaTranslator::translate_array(const Json& schema, const Place& place) {
    const auto all = items_of(schema);
    if (!all) return at(place, all.error());
    const auto [prefix, items] = *all;
    if (all->size() > kMaxPrefixItems) {
        return error(place.at("prefixItems"),
                     fmt::format("it has {} schemas: at most {} are supported", all->size(), kMaxPrefixItems));
    }
    const auto fixed = static_cast<uint32_t>(all->size());
    const uint32_t min = TRY(count_of(schema, "minItems", 0, place));
    uint32_t max = TRY(count_of(schema, "maxItems", kUnbounded, place));
    // Items that a schema does not speak about are not written, unless they must be.
    const bool is_closed = items != nullptr ? *items == false : fixed > 0 && min <= fixed;
    if (is_closed) max = std::min(max, fixed);
    if (min > max) return impossible(place, "minItems is above maxItems, or above the items that may be there");
    const Json* unique = keyword(schema, "uniqueItems");
    if (unique != nullptr && *unique != false && max > 1) {
        return error(place.at("uniqueItems"), "it is supported for at most one item only");
    }
    NodeId rest = Grammar::empty();
    if (max > fixed) {
        const NodeId item = items == nullptr ? json_.any_value() : TRY(translate(*items, place.at("items")));
        const uint32_t more = max == kUnbounded ? kUnbounded : max - fixed;
        const NodeId shared = grammar_.shared(item);
        if (fixed == 0) return json_.brackets(items_between(shared, min, max));
        rest = grammar_.repeat(grammar_.sequence({json_.comma(), shared}), min > fixed ? min - fixed : 0, more);
    }
    for (uint32_t i = fixed; i-- > 0;) {
        const NodeId item = TRY(translate((*prefix)[i], place.at("prefixItems", i)));
        if (i >= max) continue;
        const NodeId before = i == 0 ? Grammar::empty() : json_.comma();
        rest = grammar_.sequence({before, grammar_.shared(item), rest});
        if (i >= min) rest = grammar_.optional(rest);
    }
    return json_.brackets(rest);
}

Result<NodeId> SchemaTranslator::translate_string(const Json& schema, const Place& place) {
    const Json* pattern = keyword(schema, "pattern");
    const Json* format = keyword(schema, "format");
    if (pattern != nullptr && format != nullptr) return error(place, "pattern together with format is not supported");
    if (pattern != nullptr) {
        if (!pattern->is_string()) return error(place.at("pattern"), "it is not a string");
        return string_of_pattern(pattern->get<std::string>(), schema, place.at("pattern"));
    }
    if (format != nullptr) {
        const auto known = format->is_string() ? pattern_of_format(format->get<std::string>()) : std::nullopt;
        if (!known) return error(place.at("format"), fmt::format("unknown: supported are {}", known_formats()));
        return string_of_pattern(*known, schema, place.at("format"));
    }
    const uint32_t min = TRY(count_of(schema, "minLength", 0, place));
    const uint32_t max = TRY(count_of(schema, "maxLength", kUnbounded, place));
    if (min > max) return impossible(place, "minLength is above maxLength");
    return pieces(place).string(min, max);
}

Result<NodeId> SchemaTranslator::string_of_pattern(const std::string& pattern, const Json& schema, const Place& place) {
    const auto regex = parse_ecma_regex(
        grammar_, pattern, [&](const CodePoints& points) { return pieces(place).characters_in_string(points); });
    if (!regex) return at(place, regex.error());
    const uint32_t min = TRY(count_of(schema, "minLength", 0, place));
    const uint32_t max = TRY(count_of(schema, "maxLength", kUnbounded, place));
    if (regex->min_length < min || regex->max_length > max) {
        return error(place, "it allows lengths that minLength and maxLength do not: put the bounds into the pattern");
    }
    const NodeId quote = pieces(place).quote();
    return grammar_.shared(grammar_.sequence({quote, regex->node, quote}));
}

Result<NumberBounds> SchemaTranslator::bounds_of(const Json& schema, bool integer, const Place& place) const {
    NumberBounds bounds;
    bounds.integer = integer;
    const auto read = [&](const char* name, std::optional<Decimal>& to) -> Result<bool> {
        const Json* value = keyword(schema, name);
        if (value == nullptr) return false;
        if (!value->is_number()) return error(place.at(name), "it is not a number");
        to = Decimal::parse(value->dump());
        if (!to) return error(place.at(name), "it is out of range");
        return true;
    };
    TRY(read("minimum", bounds.min));
    TRY(read("maximum", bounds.max));
    TRY(read("multipleOf", bounds.multiple_of));
    std::optional<Decimal> above;
    std::optional<Decimal> below;
    if (TRY(read("exclusiveMinimum", above)) && (!bounds.min || schema["exclusiveMinimum"] >= schema["minimum"])) {
        bounds.min = above;
        bounds.exclusive_min = true;
    }
    if (TRY(read("exclusiveMaximum", below)) && (!bounds.max || schema["exclusiveMaximum"] <= schema["maximum"])) {
        bounds.max = below;
        bounds.exclusive_max = true;
    }
    return bounds;
}

Result<NodeId> SchemaTranslator::translate_number(const Json& written, bool integer, const Place& place) {
    const auto limits = limits_of_format(written);
    const auto combined = algebra_.both(written, limits.value_or(Json::object()));
    if (!combined) return at(place, combined.error());
    const Json& schema = *combined;
    integer = integer || limits;
    const NumberBounds bounds = TRY(bounds_of(schema, integer, place));
    if (!bounds.min && !bounds.max && !bounds.multiple_of) return integer ? json_.integer() : json_.number();
    std::string key = integer ? "i" : "n";
    for (const char* name : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) {
        if (const Json* value = keyword(schema, name)) key += fmt::format(" {} {}", name, value->dump());
    }
    const auto known = numbers_.find(key);
    if (known != numbers_.end()) return known->second;
    const auto node = number_in_bounds(grammar_, bounds);
    if (!node) return at(place, node.error());
    numbers_.emplace(std::move(key), *node);
    return *node;
}

}  // namespace tandem::text::grammar
