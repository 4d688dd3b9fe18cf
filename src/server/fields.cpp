#include "server/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace tandem::server {

namespace {

std::optional<int64_t> whole_number(const Json& value) {
    if (value.is_number_unsigned()) {
        const auto number = value.get<uint64_t>();
        if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
        return static_cast<int64_t>(number);
    }
    if (value.is_number_integer()) return value.get<int64_t>();
    if (!value.is_number_float()) return std::nullopt;
    const auto number = value.get<double>();  // some clients write 100.0
    if (number != std::floor(number) || std::abs(number) > 9e15) return std::nullopt;
    return static_cast<int64_t>(number);
}

}  // namespace

Reply<Fields> Fields::of(const Json& object, std::string path) {
    if (object.is_object()) return Fields(object, std::move(path));
    if (path.empty()) return bad_request("", "the body must be a JSON object, not {}", object.type_name());
    return bad_request(path, "{} must be an object, not {}", path, object.type_name());
}

const Json* Fields::find(const char* key) const {
    const auto field = object_->find(key);
    return field == object_->end() || field->is_null() ? nullptr : &*field;
}

std::vector<std::string> Fields::keys() const {
    std::vector<std::string> keys;
    for (const auto& item : object_->items()) {
        if (!item.value().is_null()) keys.push_back(item.key());
    }
    return keys;
}

ApiError Fields::wrong(const char* key, std::string_view expected) const {
    const Json* const value = find(key);
    return bad_request(name(key), "{} must be {}, not {}", name(key), expected,
                       value == nullptr ? "absent" : value->type_name());
}

Reply<Ok> Fields::read(const char* key, std::string& out) const {
    const Json* const value = find(key);
    if (value == nullptr) return Ok{};
    if (!value->is_string()) return wrong(key, "a string");
    out = value->get<std::string>();
    return Ok{};
}

Reply<Ok> Fields::read(const char* key, bool& out) const {
    const Json* const value = find(key);
    if (value == nullptr) return Ok{};
    if (!value->is_boolean()) return wrong(key, "true or false");
    out = value->get<bool>();
    return Ok{};
}

Reply<Ok> Fields::read(const char* key, int& out) const {
    const Json* const value = find(key);
    if (value == nullptr) return Ok{};
    const std::optional<int64_t> number = whole_number(*value);
    if (!number) return wrong(key, "a whole number");
    if (*number < std::numeric_limits<int>::min() || *number > std::numeric_limits<int>::max()) {
        return bad_request(name(key), "{} is {}: that is out of range", name(key), *number);
    }
    out = static_cast<int>(*number);
    return Ok{};
}

Reply<Ok> Fields::read(const char* key, float& out) const {
    const Json* const value = find(key);
    if (value == nullptr) return Ok{};
    if (!value->is_number()) return wrong(key, "a number");
    const auto number = value->get<double>();
    // check() refuses it; converting would be undefined
    out = std::abs(number) <= 1e30 ? static_cast<float>(number) : std::numeric_limits<float>::infinity();
    return Ok{};
}

Reply<Ok> Fields::read(const char* key, double& out) const {
    const Json* const value = find(key);
    if (value == nullptr) return Ok{};
    if (!value->is_number()) return wrong(key, "a number");
    out = value->get<double>();
    return Ok{};
}

Reply<Ok> Fields::read(const char* key, uint64_t& out) const {
    const Json* const value = find(key);
    if (value == nullptr) return Ok{};
    if (value->is_number_unsigned()) {
        out = value->get<uint64_t>();
        return Ok{};
    }
    const std::optional<int64_t> number = whole_number(*value);
    if (!number) return wrong(key, "a whole number");
    out = static_cast<uint64_t>(*number);
    return Ok{};
}

Reply<Ok> Fields::read(const char* key, std::vector<std::string>& out) const {
    const Json* const value = find(key);
    if (value == nullptr) return Ok{};
    if (value->is_string()) {
        out = {value->get<std::string>()};
        return Ok{};
    }
    const auto is_text = [](const Json& item) { return item.is_string(); };
    if (!value->is_array() || !std::all_of(value->begin(), value->end(), is_text)) {
        return wrong(key, "a string or an array of strings");
    }
    out = value->get<std::vector<std::string>>();
    return Ok{};
}

Reply<Ok> Fields::read_logit_bias(const char* key, std::vector<std::pair<int32_t, float>>& out) const {
    const Json* const value = find(key);
    if (value == nullptr) return Ok{};
    if (!value->is_object()) return wrong(key, "an object of token ids and numbers");
    out.clear();
    out.reserve(value->size());
    for (const auto& item : value->items()) {
        const std::string& digits = item.key();
        int32_t token = 0;
        const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), token);
        if (status != std::errc{} || end != digits.data() + digits.size() || !item.value().is_number()) {
            return bad_request(name(key), "{}: '{}' must be a token id with a number", name(key), digits);
        }
        const auto bias = item.value().get<double>();
        if (!(std::abs(bias) <= 100)) return bad_request(name(key), "{}: a bias must be within 100", name(key));
        out.emplace_back(token, static_cast<float>(bias));
    }
    return Ok{};
}

Reply<std::string> Fields::required_text(const char* key) const {
    const Json* const value = find(key);
    if (value == nullptr || !value->is_string()) return wrong(key, "a string");
    return value->get<std::string>();
}

Reply<const Json*> Fields::required_array(const char* key, size_t most) const {
    const Json* const value = find(key);
    if (value == nullptr || !value->is_array()) return wrong(key, "an array");
    if (value->size() > most)
        return bad_request(name(key), "{}: {} of them; at most {}", name(key), value->size(), most);
    return value;
}

Reply<std::string> text_of_content(const Json& content, const std::string& path,
                                   std::initializer_list<std::string_view> text_types) {
    if (content.is_null()) return std::string();
    if (content.is_string()) return content.get<std::string>();
    if (!content.is_array()) return bad_request(path, "{} must be a string or an array of parts", path);
    std::string text;
    for (size_t i = 0; i < content.size(); ++i) {
        const std::string place = fmt::format("{}[{}]", path, i);
        const Fields part = TRY(Fields::of(content[i], place));
        const std::string type = TRY(part.required_text("type"));
        if (std::find(text_types.begin(), text_types.end(), type) == text_types.end()) {
            return bad_request(place, "{}: parts of type '{}' are not supported: the models of this server read text",
                               place, type);
        }
        text += TRY(part.required_text("text"));
    }
    return text;
}

Reply<Ok> check_tool(const Json& tool, const std::string& path) {
    const Fields fields = TRY(Fields::of(tool, path));
    std::string type = "function";
    TRY(fields.read("type", type));
    if (type != "function") {
        return bad_request(fields.name("type"), "{}: tools of type '{}' are not supported; give a function", path,
                           type);
    }
    const Json* const function = fields.find("function");
    if (function == nullptr) return fields.wrong("function", "an object");
    const Fields inner = TRY(Fields::of(*function, fields.name("function")));
    const std::string name = TRY(inner.required_text("name"));
    if (name.empty() || name.size() > 256) {
        return bad_request(inner.name("name"), "{}: a name of {} bytes; 1 to 256", path, name.size());
    }
    const Json* const parameters = inner.find("parameters");
    if (parameters != nullptr && !parameters->is_object()) return inner.wrong("parameters", "a JSON Schema object");
    return Ok{};
}

}  // namespace tandem::server
