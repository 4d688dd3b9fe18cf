// Whether a value is valid for a schema, where that can be told.
#include <algorithm>
#include <cmath>

#include "text/grammar/schema_algebra.h"

namespace tandem::text::grammar {

namespace {

using Verdict = std::optional<bool>;

constexpr int kMaxValueDepth = 32;

size_t length_of(const std::string& text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// All of them hold: false as soon as one certainly does not.
class AllHold {
  public:
    // Whether there is more to learn.
    bool add(Verdict verdict) {
        if (!verdict) certain_ = false;
        if (verdict == false) failed_ = true;
        return !failed_;
    }
    Verdict verdict() const {
        if (failed_) return false;
        return certain_ ? Verdict(true) : std::nullopt;
    }

  private:
    bool failed_ = false;
    bool certain_ = true;
};

Verdict within(size_t count, std::string_view name, const Json& wanted) {
    if (!wanted.is_number()) return std::nullopt;
    const auto size = static_cast<double>(count);
    return name.starts_with("min") ? size >= wanted.get<double>() : size <= wanted.get<double>();
}

Verdict holds_number(const Json& value, std::string_view name, const Json& wanted) {
    if (!value.is_number()) return true;
    if (!wanted.is_number()) return std::nullopt;
    if (name == "minimum") return value >= wanted;
    if (name == "maximum") return value <= wanted;
    if (name == "exclusiveMinimum") return value > wanted;
    if (name == "exclusiveMaximum") return value < wanted;
    const bool are_whole = value.is_number_integer() && wanted.is_number_integer() && wanted > 0;
    if (are_whole && std::abs(value.get<double>()) < 1e15 && wanted < 1e15)
        return value.get<int64_t>() % wanted.get<int64_t>() == 0;
    return std::nullopt;
}

bool is_about_numbers(std::string_view name) {
    return name == "minimum" || name == "maximum" || name == "exclusiveMinimum" || name == "exclusiveMaximum" ||
           name == "multipleOf";
}

}  // namespace

Verdict SchemaAlgebra::is_valid(const Json& value, const Json& schema, int depth) {
    if (schema.is_boolean()) return schema.get<bool>();
    if (!schema.is_object() || depth > kMaxValueDepth || !spend(1)) return std::nullopt;
    AllHold all;
    for (const auto& [name, wanted] : schema.items()) {
        if (!all.add(holds(value, {schema, name, wanted, depth}))) break;
    }
    return all.verdict();
}

Verdict SchemaAlgebra::holds(const Json& value, const Assertion& assertion) {
    const auto& [schema, name, wanted, depth] = assertion;
    if (is_annotation(name)) return true;
    if (name == "enum") return spend(wanted.size() / 16) ? Verdict(contains(wanted, value)) : std::nullopt;
    if (name == "const") return is_same(wanted, value);
    if (name == "type") {
        const auto types = types_of({{"type", wanted}});
        return types ? Verdict(is_of_type(value, *types)) : std::nullopt;
    }
    if (is_about_numbers(name)) return holds_number(value, name, wanted);
    if (name == "minLength" || name == "maxLength") {
        return value.is_string() ? within(length_of(value.get_ref<const std::string&>()), name, wanted) : true;
    }
    if (name == "format" && value.is_number()) {
        const auto limits = limits_of_format(schema);
        return !limits || (is_of_type(value, {"integer"}) && is_valid(value, *limits) == true);
    }
    if (name == "pattern" || name == "format") return value.is_string() ? std::nullopt : Verdict(true);
    if (name == "items" || name.ends_with("Items")) return holds_array(value, assertion);
    if (name == "required" || name.starts_with("propert") || name.ends_with("Properties"))
        return holds_object(value, assertion);
    return holds_combined(value, assertion);
}

Verdict SchemaAlgebra::holds_combined(const Json& value, const Assertion& assertion) {
    const auto& [schema, name, wanted, depth] = assertion;
    if (name == "$ref" && wanted.is_string()) {
        const auto target = find(wanted.get<std::string>());
        return target ? is_valid(value, **target, depth + 1) : std::nullopt;
    }
    if (!wanted.is_array() || (name != "allOf" && name != "anyOf" && name != "oneOf")) return std::nullopt;
    size_t valid = 0;
    size_t invalid = 0;
    for (const Json& option : wanted) {
        const Verdict verdict = is_valid(value, option, depth + 1);
        valid += verdict == true ? 1 : 0;
        invalid += verdict == false ? 1 : 0;
    }
    const bool is_certain = valid + invalid == wanted.size();
    if (name == "allOf") return invalid > 0 || is_certain ? Verdict(invalid == 0) : std::nullopt;
    if (name == "anyOf") return valid > 0 || is_certain ? Verdict(valid > 0) : std::nullopt;
    return valid > 1 || is_certain ? Verdict(valid == 1) : std::nullopt;
}

Verdict SchemaAlgebra::holds_array(const Json& value, const Assertion& assertion) {
    const auto& [schema, name, wanted, depth] = assertion;
    if (!value.is_array()) return true;
    if (name == "minItems" || name == "maxItems") return within(value.size(), name, wanted);
    if (name == "uniqueItems") return wanted == false || value.size() < 2 ? Verdict(true) : std::nullopt;
    const auto items = items_of(schema);
    if (!items || (name != "items" && name != "prefixItems" && name != "additionalItems")) return std::nullopt;
    AllHold all;
    for (size_t i = 0; i < value.size(); ++i) {
        const Json* item = items->at(i);
        const bool is_here = &wanted == (i < items->size() ? items->prefix : items->rest);
        if (is_here && item != nullptr && !all.add(is_valid(value[i], *item, depth + 1))) break;
    }
    return all.verdict();
}

Verdict SchemaAlgebra::holds_object(const Json& value, const Assertion& assertion) {
    const auto& [schema, name, wanted, depth] = assertion;
    if (!value.is_object()) return true;
    if (name == "minProperties" || name == "maxProperties") return within(value.size(), name, wanted);
    AllHold all;
    if (name == "required" && wanted.is_array()) {
        for (const Json& required : wanted) {
            if (!required.is_string()) return std::nullopt;
            all.add(value.contains(required.get_ref<const std::string&>()));
        }
        return all.verdict();
    }
    if (name != "properties" && name != "additionalProperties" && name != "propertyNames") return std::nullopt;
    if (schema.contains("patternProperties")) return std::nullopt;
    const Json* properties = keyword(schema, "properties");
    for (const auto& [key, member] : value.items()) {
        const bool is_declared = properties != nullptr && properties->contains(key);
        if (name == "propertyNames") all.add(is_valid(key, wanted, depth + 1));
        if (name == "properties" && is_declared) all.add(is_valid(member, wanted.at(key), depth + 1));
        if (name == "additionalProperties" && !is_declared) all.add(is_valid(member, wanted, depth + 1));
    }
    return all.verdict();
}

}  // namespace tandem::text::grammar
