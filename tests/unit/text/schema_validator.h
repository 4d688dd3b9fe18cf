// A plain JSON Schema validator for tests, written from the specification and sharing nothing with what it checks.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace tandem::text {

class SchemaValidator {
  public:
    using Json = nlohmann::ordered_json;

    explicit SchemaValidator(const Json& root) : root_(root) {}

    bool validates(const Json& value) const { return check(root_, value); }

  private:
    static size_t length(const std::string& text) {
        return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    }

    static bool has_type(const Json& value, const std::string& type) {
        if (type == "object") return value.is_object();
        if (type == "array") return value.is_array();
        if (type == "string") return value.is_string();
        if (type == "boolean") return value.is_boolean();
        if (type == "null") return value.is_null();
        if (type == "number") return value.is_number();
        return value.is_number_integer() ||
               (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
    }

    bool check(const Json& schema, const Json& value) const {
        if (schema.is_boolean()) return schema.get<bool>();
        return check_any(schema, value) && check_combinations(schema, value) && check_number(schema, value) &&
               check_string(schema, value) && check_array(schema, value) && check_object(schema, value);
    }

    static bool check_any(const Json& schema, const Json& value) {
        if (schema.contains("type")) {
            const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
            if (std::none_of(types.begin(), types.end(), [&](const Json& type) { return has_type(value, type); }))
                return false;
        }
        if (schema.contains("enum") &&
            std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
            return false;
        return !schema.contains("const") || schema["const"] == value;
    }

    bool check_combinations(const Json& schema, const Json& value) const {
        if (schema.contains("$ref")) {
            const std::string pointer = schema["$ref"].get<std::string>().substr(1);
            if (!check(root_.at(Json::json_pointer(pointer)), value)) return false;
        }
        const auto count = [&](const char* keyword) {
            const Json& options = schema[keyword];
            return std::count_if(options.begin(), options.end(),
                                 [&](const Json& option) { return check(option, value); });
        };
        if (schema.contains("anyOf") && count("anyOf") == 0) return false;
        if (schema.contains("oneOf") && count("oneOf") != 1) return false;
        return !schema.contains("allOf") || count("allOf") == static_cast<ptrdiff_t>(schema["allOf"].size());
    }

    static bool check_number(const Json& schema, const Json& value) {
        if (!value.is_number()) return true;
        if (schema.contains("minimum") && value < schema["minimum"]) return false;
        if (schema.contains("maximum") && value > schema["maximum"]) return false;
        if (schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"]) return false;
        if (schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"]) return false;
        if (!schema.contains("multipleOf")) return true;
        const double quotient = value.get<double>() / schema["multipleOf"].get<double>();
        // Two numbers and their quotient are each rounded once.
        const double rounding = 2 * std::numeric_limits<double>::epsilon() * std::max(1.0, std::abs(quotient));
        return std::abs(quotient - std::round(quotient)) <= rounding;
    }

    static bool check_string(const Json& schema, const Json& value) {
        if (!value.is_string()) return true;
        const auto& text = value.get_ref<const std::string&>();
        if (schema.contains("minLength") && length(text) < schema["minLength"].get<size_t>()) return false;
        if (schema.contains("maxLength") && length(text) > schema["maxLength"].get<size_t>()) return false;
        return !schema.contains("pattern") || std::regex_search(text, std::regex(schema["pattern"].get<std::string>()));
    }

    bool check_array(const Json& schema, const Json& value) const {
        if (!value.is_array()) return true;
        if (schema.contains("minItems") && value.size() < schema["minItems"].get<size_t>()) return false;
        if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<size_t>()) return false;
        const size_t fixed = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
        for (size_t i = 0; i < value.size(); ++i) {
            if (i < fixed && !check(schema["prefixItems"][i], value[i])) return false;
            if (i >= fixed && schema.contains("items") && !check(schema["items"], value[i])) return false;
        }
        return true;
    }

    bool check_object(const Json& schema, const Json& value) const {
        if (!value.is_object()) return true;
        if (schema.contains("required")) {
            for (const Json& name : schema["required"]) {
                if (!value.contains(name.get<std::string>())) return false;
            }
        }
        if (schema.contains("minProperties") && value.size() < schema["minProperties"].get<size_t>()) return false;
        if (schema.contains("maxProperties") && value.size() > schema["maxProperties"].get<size_t>()) return false;
        for (const auto& [name, property] : value.items()) {
            if (schema.contains("propertyNames") && !check(schema["propertyNames"], name)) return false;
            if (schema.contains("properties") && schema["properties"].contains(name)) {
                if (!check(schema["properties"][name], property)) return false;
            } else if (schema.contains("additionalProperties") && !check(schema["additionalProperties"], property)) {
                return false;
            }
        }
        return true;
    }

    const Json& root_;
};

}  // namespace tandem::text
