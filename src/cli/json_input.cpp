#include "cli/json_input.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/standard_input.h"

namespace tandem::cli {

namespace {

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr int kMostDepth = 64;  // what is parsed is walked by recursion

}  // namespace

Result<nlohmann::ordered_json> parse_ordered_json(std::string_view text, std::string_view name) {
    using Json = nlohmann::ordered_json;
    bool too_deep = false;
    const auto bound_depth = [&](int depth, Json::parse_event_t event, Json&) {
        const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
        if (opens && depth >= kMostDepth) too_deep = true;
        return !too_deep;
    };
    try {
        Json parsed = Json::parse(text.begin(), text.end(), bound_depth);
        if (too_deep) return fail("{}: nested deeper than {} levels", name, kMostDepth);
        return parsed;
    } catch (const Json::exception& error) {
        std::string_view reason = error.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
        if (const size_t end = reason.find("] "); end != std::string_view::npos) reason.remove_prefix(end + 2);
        return fail("{}: not valid JSON: {}", name, reason.substr(0, 200));  // it quotes the text
    }
}

Result<nlohmann::ordered_json> read_json(const std::string& path) {
    if (path == "-") {
        const std::string text = TRY(read_standard_input());
        return parse_ordered_json(text, "standard input");
    }
    const std::string text = TRY(read_text_file(path, kMostBytes));
    return parse_ordered_json(text, path);
}

}  // namespace tandem::cli
