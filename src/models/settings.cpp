#include "models/settings.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tandem::models {

using nlohmann::json;

namespace {

// The value at a path of keys with dots between; null when there is none.
const json* walk(const json& object, std::string_view path) {
    const json* at = &object;
    while (true) {
        const size_t dot = path.find('.');
        if (!at->is_object()) return nullptr;
        const auto found = at->find(std::string(path.substr(0, dot)));
        if (found == at->end()) return nullptr;
        at = &*found;
        if (dot == std::string_view::npos) return at;
        path.remove_prefix(dot + 1);
    }
}

std::optional<double> as_number(const json& value) {
    if (!value.is_number()) return std::nullopt;
    return value.get<double>();
}

}  // namespace

Settings::Settings(const format::Checkpoint& checkpoint, std::string architecture)
    : checkpoint_(&checkpoint), architecture_(std::move(architecture)), config_(checkpoint.config()), text_(config_) {
    if (config_ == nullptr) return;
    if (const json* nested = walk(*config_, "text_config"); nested != nullptr && nested->is_object()) text_ = nested;
}

const json* Settings::find_json(std::string_view path) const {
    if (config_ == nullptr || path.empty()) return nullptr;
    const json* found = walk(*text_, path);
    return found != nullptr ? found : walk(*config_, path);
}

const format::GgufValue* Settings::find_gguf(std::string_view key) const {
    if (config_ != nullptr || key.empty()) return nullptr;
    return checkpoint_->gguf()->find(fmt::format("{}.{}", architecture_, key));
}

bool Settings::is_there(const Key& key) const {
    return find_json(key.hf) != nullptr || find_gguf(key.gguf) != nullptr;
}

bool Settings::has_value(const Key& key) const {
    const json* value = find_json(key.hf);
    return (value != nullptr && !value->is_null()) || find_gguf(key.gguf) != nullptr;
}

std::string Settings::describe(const Key& key) const {
    return is_gguf() ? fmt::format("'{}.{}'", architecture_, key.gguf) : fmt::format("'{}' of config.json", key.hf);
}

void Settings::reject(std::string_view problem) {
    if (error_.empty()) error_ = fmt::format("{}: {}", checkpoint_->name(), problem);
}

Status Settings::status() const {
    if (error_.empty()) return Ok{};
    return Error{error_};
}

std::optional<double> Settings::number(const Key& key, bool required) {
    if (!has_value(key)) {
        if (required) reject(fmt::format("{} is missing", describe(key)));
        return std::nullopt;
    }
    const auto value = is_gguf() ? find_gguf(key.gguf)->as_float() : as_number(*find_json(key.hf));
    if (!value) reject(fmt::format("{} is not a number", describe(key)));
    return value;
}

int Settings::count(const Key& key, int limit, std::optional<int> fallback) {
    const auto value = number(key, !fallback);
    if (!value) return fallback.value_or(1);
    if (!(*value >= 1 && *value <= limit) || *value != std::floor(*value)) {
        reject(fmt::format("{} is {}, expected a whole number from 1 to {}", describe(key), *value, limit));
        return fallback.value_or(1);
    }
    return static_cast<int>(*value);
}

double Settings::real(const Key& key, Range range, std::optional<double> fallback) {
    const auto value = number(key, !fallback);
    if (!value) return fallback.value_or(range.least);
    if (!(*value >= range.least && *value <= range.most)) {
        reject(fmt::format("{} is {}, expected {} to {}", describe(key), *value, range.least, range.most));
        return fallback.value_or(range.least);
    }
    return *value;
}

bool Settings::flag(const Key& key, bool fallback) {
    if (!has_value(key)) return fallback;
    std::optional<bool> value;
    if (is_gguf()) {
        value = find_gguf(key.gguf)->as_bool();
    } else if (const json& found = *find_json(key.hf); found.is_boolean()) {
        value = found.get<bool>();
    }
    if (!value) reject(fmt::format("{} is neither true nor false", describe(key)));
    return value.value_or(fallback);
}

std::string Settings::text(const Key& key, std::string_view fallback) {
    if (!has_value(key)) return std::string(fallback);
    if (is_gguf()) {
        if (const auto value = find_gguf(key.gguf)->as_string()) return std::string(*value);
    } else if (const json& found = *find_json(key.hf); found.is_string()) {
        return found.get<std::string>();
    }
    reject(fmt::format("{} is not a text", describe(key)));
    return std::string(fallback);
}

bool Settings::is_list(const Key& key) const {
    if (!has_value(key)) return false;
    return is_gguf() ? find_gguf(key.gguf)->as_array().has_value() : find_json(key.hf)->is_array();
}

std::vector<double> Settings::reals(const Key& key, Range range) {
    std::vector<std::optional<double>> found;
    const bool good = is_list(key);
    if (good && is_gguf()) {
        const format::GgufArray array = *find_gguf(key.gguf)->as_array();
        for (const format::GgufValue& element : array) found.push_back(element.as_float());
    } else if (good) {
        for (const json& element : *find_json(key.hf)) found.push_back(as_number(element));
    }
    std::vector<double> list;
    for (const std::optional<double> number : found) {
        list.push_back(number.value_or(range.least));
        if (!number || !(*number >= range.least && *number <= range.most)) {
            reject(fmt::format("{} is not a list of numbers from {} to {}", describe(key), range.least, range.most));
        }
    }
    if (!good) reject(fmt::format("{} is not a list of numbers", describe(key)));
    return list;
}

std::vector<std::string> Settings::texts(std::string_view hf) {
    const Key key{"", hf};
    std::vector<std::string> list;
    bool good = is_list(key);
    for (const json& element : good ? *find_json(hf) : json::array()) {
        good = good && element.is_string();
        list.push_back(element.is_string() ? element.get<std::string>() : "");
    }
    if (!good) reject(fmt::format("{} is not a list of texts", describe(key)));
    return list;
}

std::vector<double> Settings::numbers(std::string_view hf) {
    const Key key{"", hf};
    std::vector<double> list;
    bool good = is_list(key);
    for (const json& element : good ? *find_json(hf) : json::array()) {
        good = good && element.is_number();
        list.push_back(as_number(element).value_or(0));
    }
    if (!good) reject(fmt::format("{} is not a list of numbers", describe(key)));
    return list;
}

std::vector<bool> Settings::flags(std::string_view gguf) {
    const Key key{gguf, ""};
    std::vector<bool> list;
    bool good = is_list(key);
    const format::GgufArray array = good ? *find_gguf(gguf)->as_array() : format::GgufArray{};
    for (const format::GgufValue& element : array) {
        // Written as booleans or as numbers, by different converters.
        const auto number = element.as_int();
        const auto boolean = element.as_bool();
        good = good && (number || boolean);
        list.push_back(boolean ? *boolean : number.value_or(0) != 0);
    }
    if (!good) reject(fmt::format("{} is not a list of true and false", describe(key)));
    return list;
}

}  // namespace tandem::models
