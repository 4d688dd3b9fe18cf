#include "format/json.h"

#include <nlohmann/json.hpp>
#include <string>

namespace tandem::format {

namespace {

template <typename Json>
Result<Json> parse(std::string_view text, std::string_view name, int max_depth) {
    bool too_deep = false;
    // The parser itself keeps its own stack; what it builds is walked by recursion.
    const auto bound_depth = [&](int depth, typename Json::parse_event_t event, Json&) {
        using Event = typename Json::parse_event_t;
        const bool opens = event == Event::object_start || event == Event::array_start;
        if (opens && depth >= max_depth) too_deep = true;
        return !too_deep;
    };
    try {
        Json parsed = Json::parse(text.begin(), text.end(), bound_depth);
        if (too_deep) return fail("{}: nested deeper than {} levels", name, max_depth);
        return parsed;
    } catch (const typename Json::exception& error) {
        std::string_view reason = error.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
        if (const size_t end = reason.find("] "); end != std::string_view::npos) reason.remove_prefix(end + 2);
        return fail("{}: not valid JSON: {}", name, reason.substr(0, 200));  // it quotes the text
    }
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view text, std::string_view name, int max_depth) {
    return parse<nlohmann::json>(text, name, max_depth);
}

Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view name, int max_depth) {
    return parse<nlohmann::ordered_json>(text, name, max_depth);
}

}  // namespace tandem::format
