#include "text/call_block.h"

#include <nlohmann/json.hpp>

#include "format/json.h"

namespace tandem::text {

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

// The same for the mark alone: a line break next to it belongs to it.
std::optional<std::string_view> take_until_mark(std::string_view& text, std::string_view written) {
    return take_until(text, mark_of(written));
}

// Of a value that the marks around it are written with.
std::string_view without_breaks(std::string_view text, const CallSyntax& syntax) {
    const std::string_view before = syntax.before_value.empty() ? syntax.after_key : syntax.before_value;
    if (before.ends_with('\n') && text.starts_with('\n')) text.remove_prefix(1);
    if (syntax.after_value.starts_with('\n') && text.ends_with('\n')) text.remove_suffix(1);
    return text;
}

// The name in front of the arguments, which is taken away with its marks.
std::optional<std::string> take_name(const CallSyntax& syntax, std::string_view& block) {
    const std::string_view end_of_name = mark_of(syntax.after_name);
    if (!take_until_mark(block, syntax.before_name)) return std::nullopt;
    const auto taken = end_of_name.empty() ? block.substr(0, block.find(syntax.before_key))
                                           : take_until(block, end_of_name).value_or(std::string_view());
    std::string name(trimmed(taken));
    if (name.empty() || name.find_first_of("<>{}") != std::string::npos) return std::nullopt;
    return name;
}

// The next argument, if there is one; false where its end is missing.
bool take_element(const CallSyntax& syntax, const std::string& name, std::string_view& block,
                  const TextParameters& texts, BlockJson& arguments) {
    const auto key = take_until_mark(block, syntax.after_key);
    if (!key || !take_until_mark(block, syntax.before_value)) return false;
    const auto value = take_until_mark(block, syntax.after_value);
    if (!value) return false;
    const std::string parameter(trimmed(*key));
    arguments[parameter] = value_of(without_breaks(*value, syntax), texts.contains({name, parameter}));
    return true;
}

std::optional<BlockCall> read_elements(const CallSyntax& syntax, std::string_view block, const TextParameters& texts) {
    const auto name = take_name(syntax, block);
    if (!name) return std::nullopt;
    BlockJson arguments = BlockJson::object();
    while (take_until_mark(block, syntax.before_key)) {
        if (!take_element(syntax, *name, block, texts, arguments)) return std::nullopt;
    }
    return BlockCall{*name, format::dump(arguments)};
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
        if (take(kTextMark)) {
            const auto inner = take_until(text_, kTextMark);
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
            const bool marked = take(kTextMark);
            const auto key = take_until(text_, marked ? kTextMark : ":");
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

std::optional<BlockCall> read_called(const CallSyntax& syntax, std::string_view block) {
    block = trimmed(block);
    if (!block.starts_with(syntax.before_name)) return std::nullopt;
    block.remove_prefix(syntax.before_name.size());
    const size_t brace = block.find('{');
    if (brace == std::string_view::npos || brace == 0) return std::nullopt;
    const auto arguments = CalledParser(block.substr(brace)).object();
    if (!arguments) return std::nullopt;
    return BlockCall{std::string(trimmed(block.substr(0, brace))), format::dump(*arguments)};
}

}  // namespace

bool is_block(const CallSyntax& syntax) {
    return syntax.form == CallSyntax::Form::elements || syntax.form == CallSyntax::Form::called;
}

std::optional<BlockCall> read_call_block(const CallSyntax& syntax, std::string_view block,
                                         const TextParameters& texts) {
    if (!is_block(syntax)) return std::nullopt;
    const bool has_elements = syntax.form == CallSyntax::Form::elements;
    return has_elements ? read_elements(syntax, block, texts) : read_called(syntax, block);
}

std::optional<BlockCall> read_cut_call_block(const CallSyntax& syntax, std::string_view block,
                                             const TextParameters& texts) {
    if (syntax.form == CallSyntax::Form::called) {
        block = trimmed(block);
        const size_t brace = block.find('{');
        if (!block.starts_with(syntax.before_name) || brace == std::string_view::npos) return std::nullopt;
        const std::string_view name =
            trimmed(block.substr(syntax.before_name.size(), brace - syntax.before_name.size()));
        return name.empty() ? std::nullopt : std::optional(BlockCall{std::string(name), ""});
    }
    const bool ends_by_mark = !mark_of(syntax.after_name).empty();
    const bool has_name = !ends_by_mark ? block.find_first_of("\n<", 1) != std::string_view::npos : true;
    const auto name = has_name ? take_name(syntax, block) : std::nullopt;
    if (!name) return std::nullopt;
    BlockJson arguments = BlockJson::object();
    while (take_until_mark(block, syntax.before_key) && take_element(syntax, *name, block, texts, arguments)) {
    }
    const std::string_view end = mark_of(syntax.after_arguments);
    std::string written = format::dump(arguments);
    const bool is_whole = !end.empty() && block.find(end) != std::string_view::npos;
    if (!is_whole) written = arguments.empty() ? "" : written.substr(0, written.size() - 1);
    return BlockCall{*name, std::move(written)};
}

}  // namespace tandem::text
