#include "user/parse.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/file.h"

namespace tandem::user {

namespace {

constexpr std::string_view kSeparators = ", \t\r\n";
constexpr size_t kMaxIdFileBytes = size_t{64} << 20;

// All of `text` as a number of type T, or nothing.
template <typename T>
std::optional<T> number_of(std::string_view text) {
    if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string shortened(std::string_view text) {
    constexpr size_t kShown = 40;
    return text.size() <= kShown ? std::string(text) : std::string(text.substr(0, kShown)) + "...";
}

template <typename T>
Error out_of_range(std::string_view what, std::string_view text, Range<T> range) {
    const bool open_below = range.least == std::numeric_limits<T>::lowest();
    const bool open_above = range.most == std::numeric_limits<T>::max();
    const std::string shown = shortened(text);
    if (open_below && open_above) return fail("{} {}: it must be finite", what, shown);
    if (open_above) return fail("{} {}: it must be at least {}", what, shown, range.least);
    if (open_below) return fail("{} {}: it must be at most {}", what, shown, range.most);
    return fail("{} {}: it must be from {} to {}", what, shown, range.least, range.most);
}

}  // namespace

Result<double> parse_number(std::string_view text, std::string_view what, Range<double> range) {
    const std::optional<double> value = number_of<double>(text);
    if (!value || std::isnan(*value)) return fail("{} '{}' is not a number", what, shortened(text));
    if (std::isinf(*value) || *value < range.least || *value > range.most) return out_of_range(what, text, range);
    return *value;
}

Result<int64_t> parse_integer(std::string_view text, std::string_view what, Range<int64_t> range) {
    const std::optional<int64_t> value = number_of<int64_t>(text);
    if (!value) return fail("{} '{}' is not a whole number", what, shortened(text));
    if (*value < range.least || *value > range.most) return out_of_range(what, text, range);
    return *value;
}

Result<std::vector<int32_t>> parse_ids(const std::string& text) {
    std::string content = text;
    if (content.starts_with('@')) content = TRY(read_text_file(content.substr(1), kMaxIdFileBytes));
    std::vector<int32_t> ids;
    const std::string_view list = content;
    for (size_t begin = list.find_first_not_of(kSeparators); begin != std::string_view::npos;) {
        const size_t end = std::min(list.find_first_of(kSeparators, begin), list.size());
        const int64_t id = TRY(parse_integer(list.substr(begin, end - begin), "token id",
                                             {.least = 0, .most = std::numeric_limits<int32_t>::max()}));
        ids.push_back(static_cast<int32_t>(id));
        begin = list.find_first_not_of(kSeparators, end);
    }
    return ids;
}

Status check_vocabulary(const std::vector<int32_t>& ids, int vocab) {
    for (const int32_t id : ids) {
        if (id < 0 || id >= vocab) return fail("token id {}: the vocabulary has ids from 0 to {}", id, vocab - 1);
    }
    return Ok{};
}

Result<std::pair<int32_t, float>> parse_logit_bias(std::string_view text) {
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) return fail("logit bias '{}' is not of the form ID=VALUE", shortened(text));
    const int64_t id = TRY(parse_integer(text.substr(0, equals), "token id of a logit bias",
                                         {.least = 0, .most = std::numeric_limits<int32_t>::max()}));
    const double value =
        TRY(parse_number(text.substr(equals + 1), "value of a logit bias", {.least = -1e6, .most = 1e6}));
    return std::pair{static_cast<int32_t>(id), static_cast<float>(value)};
}

}  // namespace tandem::user
