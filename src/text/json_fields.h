// Fields of JSON objects that we do not trust: absent or of another kind is never an exception.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tandem::text {

// null when `object` is none or has no such field.
inline const nlohmann::json& field(const nlohmann::json& object, const char* key) {
    static const nlohmann::json null;
    if (!object.is_object()) return null;
    const auto found = object.find(key);
    return found == object.end() ? null : *found;
}

inline std::optional<std::string> string_field(const nlohmann::json& object, const char* key) {
    const auto& value = field(object, key);
    if (!value.is_string()) return std::nullopt;
    return value.get<std::string>();
}

inline std::optional<bool> bool_field(const nlohmann::json& object, const char* key) {
    const auto& value = field(object, key);
    if (!value.is_boolean()) return std::nullopt;
    return value.get<bool>();
}

inline std::optional<int64_t> as_int(const nlohmann::json& value) {
    if (!value.is_number_integer()) return std::nullopt;
    return value.get<int64_t>();
}

inline std::optional<int64_t> int_field(const nlohmann::json& object, const char* key) {
    return as_int(field(object, key));
}

// "type" of a component, or "nothing" for messages.
inline std::string type_of(const nlohmann::json& object) {
    return string_field(object, "type").value_or("(no type)");
}

}  // namespace tandem::text
