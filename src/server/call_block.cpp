#include "server/call_block.h"

#include <nlohmann/json.hpp>

#include "format/json.h"
#include "server/sse.h"

namespace tandem::server {

namespace {

using BlockJson = nlohmann::ordered_json;

constexpr std::string_view kBlockSpaces = " \n\t\r";

std::string_view trimmed(std::string_view text) {
    const size_t first = text.find_first_not_of(kBlockSpaces);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlockSpaces) - first + 1);
}

// Takes what is before `mark`, and the mark, from the front of the text. Nothing if the mark is not there.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view mark) {
    const size_t found = text.find(mark);
    if (found == std::string_view::npos) return std::nullopt;
    const std::string_view before = text.substr(0, found);
    text.remove_prefix(found + mark.size());
    return before;
}

// A value as such templates write it: text as it is, everything else as JSON.
BlockJson value_of(std::string_view text, bool is_text) {
    if (!is_text) {
        if (auto parsed = format::parse_ordered_json(text, "argument")) return *std::move(parsed);
    }
    return std::string(text);
}

// One line break at each end belongs to the marks.
std::string_view without_breaks(std::string_view text) {
    if (text.starts_with('\n')) text.remove_prefix(1);
    if (text.ends_with('\n')) text.remove_suffix(1);
    return text;
}

std::optional<BlockCall> read_spelled(std::string_view block, const TextParameters& texts) {
    if (!take_until(block, "<function=")) return std::nullopt;
    const auto name = take_until(block, ">");
    if (!name || name->empty()) return std::nullopt;
    BlockJson arguments = BlockJson::object();
    while (take_until(block, "<parameter=")) {
        const auto key = take_until(block, ">");
        const auto value = key ? take_until(block, "</parameter>") : std::nullopt;
        if (!value) return std::nullopt;
        const bool is_text = texts.contains({std::string(*name), std::string(*key)});
        arguments[std::string(*key)] = value_of(without_breaks(*value), is_text);
    }
    return BlockCall{std::string(*name), dump(arguments)};
}

std::optional<BlockCall> read_keyed(std::string_view block, const TextParameters& texts) {
    const std::string_view name = trimmed(block.substr(0, block.find("<arg_key>")));
    if (name.empty() || name.find_first_of("<>{}") != std::string_view::npos) return std::nullopt;
    BlockJson arguments = BlockJson::object();
    while (take_until(block, "<arg_key>")) {
        const auto key = take_until(block, "</arg_key>");
        if (!key || !take_until(block, "<arg_value>")) return std::nullopt;
        const auto value = take_until(block, "</arg_value>");
        if (!value) return std::nullopt;
        const std::string parameter(trimmed(*key));
        arguments[parameter] = value_of(*value, texts.contains({std::string(name), parameter}));
    }
    return BlockCall{std::string(name), dump(arguments)};
}

// {key:value,...} with texts between marks and keys without.
class CalledParser {
  public:
    explicit CalledParser(std::string_view text) : text_(text) {}

    std::optional<BlockJson> object() {
        const auto whole = value(0);
        skip_space();
        return whole && whole->is_object() && text_.empty() ? whole : std::nullopt;
    }

  private:
    static constexpr int kMostDepth = 64;

    void skip_space() { text_.remove_prefix(std::min(text_.find_first_not_of(kBlockSpaces), text_.size())); }
    bool take(std::string_view mark) {
        skip_space();
        if (!text_.starts_with(mark)) return false;
        text_.remove_prefix(mark.size());
        return true;
    }

    std::optional<BlockJson> value(int depth) {
        if (depth > kMostDepth) return std::nullopt;
        if (take(text::kTextMark)) {
            const auto inner = take_until(text_, text::kTextMark);
            return inner ? std::optional<BlockJson>(std::string(*inner)) : std::nullopt;
        }
        if (take("{")) return members(depth);
        if (take("[")) return elements(depth);
        const std::string_view word = trimmed(text_.substr(0, text_.find_first_of(",}]")));
        text_.remove_prefix(std::min(text_.find_first_of(",}]"), text_.size()));
        auto parsed = format::parse_ordered_json(word, "argument");
        if (parsed) return *std::move(parsed);
        return word.empty() ? std::nullopt : std::optional<BlockJson>(std::string(word));
    }

    std::optional<BlockJson> members(int depth) {
        BlockJson object = BlockJson::object();
        if (take("}")) return object;
        do {
            const bool marked = take(text::kTextMark);
            const auto key = take_until(text_, marked ? text::kTextMark : ":");
            if (!key || (marked && !take(":"))) return std::nullopt;
            auto inner = value(depth + 1);
            if (!inner) return std::nullopt;
            object[std::string(trimmed(*key))] = *std::move(inner);
        } while (take(","));
        return take("}") ? std::optional(object) : std::nullopt;
    }

    std::optional<BlockJson> elements(int depth) {
        BlockJson array = BlockJson::array();
        if (take("]")) return array;
        do {
            auto inner = value(depth + 1);
            if (!inner) return std::nullopt;
            array.push_back(*std::move(inner));
        } while (take(","));
        return take("]") ? std::optional(array) : std::nullopt;
    }

    std::string_view text_;
};

std::optional<BlockCall> read_called(std::string_view block) {
    block = trimmed(block);
    constexpr std::string_view kCall = "call:";
    if (!block.starts_with(kCall)) return std::nullopt;
    block.remove_prefix(kCall.size());
    const size_t brace = block.find('{');
    if (brace == std::string_view::npos || brace == 0) return std::nullopt;
    const auto arguments = CalledParser(block.substr(brace)).object();
    if (!arguments) return std::nullopt;
    return BlockCall{std::string(trimmed(block.substr(0, brace))), dump(*arguments)};
}

}  // namespace

std::optional<BlockCall> read_call_block(text::CallStyle style, std::string_view block, const TextParameters& texts) {
    switch (style) {
        case text::CallStyle::spelled:
            return read_spelled(block, texts);
        case text::CallStyle::keyed:
            return read_keyed(block, texts);
        case text::CallStyle::called:
            return read_called(block);
        default:
            return std::nullopt;
    }
}

}  // namespace tandem::server
