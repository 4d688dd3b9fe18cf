#include "server/field_rules.h"

#include <algorithm>

namespace tandem::server {

namespace {

// Clients send fields that they do not use as "", [] or false.
bool asks_for_nothing(const Json& value, std::string_view neutral) {
    if (value.is_boolean() && !value.get<bool>()) return true;
    if (value.is_string() && value.get_ref<const std::string&>().empty()) return true;
    if (value.is_structured() && value.empty()) return true;
    return !neutral.empty() && value == Json::parse(neutral);
}

Reply<Ok> apply(const FieldRule& rule, const Fields& fields, Ask& ask) {
    const Json* const value = fields.find(rule.name);
    if (value == nullptr && rule.treatment != FieldRule::Treatment::required) return Ok{};
    if (rule.read != nullptr) return rule.read(fields, rule.name, ask);
    if (rule.treatment == FieldRule::Treatment::ignored || asks_for_nothing(*value, rule.neutral)) return Ok{};
    const std::string name = fields.name(rule.name);
    return bad_request(name, "{} is not supported: {}", name, rule.remedy);
}

}  // namespace

Reply<Ok> read_penalty_window(const Fields& fields, const char* key, Ask& ask) {
    int window = -1;
    TRY(fields.read(key, window));
    if (window == -1 || !ask.sampling.penalizes()) return Ok{};
    const std::string name = fields.name(key);
    return bad_request(name, "{} is {}: penalties look at all tokens; leave it out, or give -1", name, window);
}

FieldRules joined(std::initializer_list<FieldRules> parts) {
    FieldRules all;
    for (const FieldRules& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}

Reply<Ok> read_fields(const Fields& fields, const FieldRules& rules, Ask& ask, OtherFields others) {
    for (const FieldRule& rule : rules) TRY(apply(rule, fields, ask));
    if (others == OtherFields::ignored) return Ok{};
    for (const std::string& key : fields.keys()) {
        const bool is_known =
            std::any_of(rules.begin(), rules.end(), [&](const FieldRule& rule) { return key == rule.name; });
        if (is_known) continue;
        const std::string name = fields.name(key.c_str());
        return bad_request(name, "{} is no field of this request: leave it out (/openapi.json lists those that are)",
                           name);
    }
    return Ok{};
}

}  // namespace tandem::server
