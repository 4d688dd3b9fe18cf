#include "text/json_scanner.h"

namespace tandem::text {

namespace {

bool is_json_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool is_word_char(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '-' || c == '+' || c == '.';
}

// Walks over the parts of a valid object or array: keys and values in turn, or elements.
class Parts {
  public:
    explicit Parts(std::string_view text) : rest_(text.substr(text.find_first_of("{[") + 1)) {}

    // Nothing at the end.
    std::optional<std::string_view> next() {
        while (!rest_.empty() && (is_json_space(rest_.front()) || rest_.front() == ',' || rest_.front() == ':'))
            rest_.remove_prefix(1);
        if (rest_.empty() || rest_.front() == '}' || rest_.front() == ']') return std::nullopt;
        const size_t length = value_length();
        const std::string_view part = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return part;
    }

  private:
    size_t value_length() const {
        size_t depth = 0;
        bool in_string = false;
        for (size_t i = 0; i < rest_.size(); ++i) {
            const char c = rest_[i];
            if (in_string) {
                if (c == '\\') ++i;
                in_string = c != '"';
                if (!in_string && depth == 0) return i + 1;
                continue;
            }
            if (depth == 0 && (c == ',' || c == '}' || c == ']' || is_json_space(c))) return i;
            if (c == '"') in_string = true;
            if (c == '{' || c == '[') ++depth;
            if ((c == '}' || c == ']') && --depth == 0) return i + 1;
        }
        return rest_.size();
    }

    std::string_view rest_;
};

}  // namespace

JsonScanner::State JsonScanner::push(char c) {
    if (state_ != State::more) return state_;
    if (in_string_) {
        if (static_cast<unsigned char>(c) < 0x20) return state_ = State::bad;
        if (escaped_) {
            escaped_ = false;
        } else if (c == '\\') {
            escaped_ = true;
        } else if (c == '"') {
            in_string_ = false;
            if (!is_key_) return end_value();
            next_ = Next::colon;
        }
        return state_;
    }
    if (in_word_) {
        if (is_word_char(c)) return state_;
        in_word_ = false;
        if (end_value() != State::more) return state_;
    }
    return is_json_space(c) ? state_ : push_outside(c);
}

JsonScanner::State JsonScanner::push_outside(char c) {
    const bool takes_key = next_ == Next::key || next_ == Next::key_or_end;
    const bool takes_value = next_ == Next::value || next_ == Next::value_or_end;
    const bool takes_end = next_ == Next::key_or_end || next_ == Next::value_or_end || next_ == Next::comma_or_end;
    if (c == '"' && (takes_key || takes_value)) {
        in_string_ = true;
        is_key_ = takes_key;
    } else if (takes_value && (c == '{' || c == '[')) {
        return open(c == '{');
    } else if (takes_end && (c == '}' || c == ']')) {
        return close(c == '}');
    } else if (next_ == Next::colon && c == ':') {
        next_ = Next::value;
    } else if (next_ == Next::comma_or_end && c == ',') {
        next_ = open_.back() ? Next::key : Next::value;
    } else if (takes_value && !open_.empty() && is_word_char(c)) {  // alone, a word has no end
        in_word_ = true;
    } else {
        state_ = State::bad;
    }
    return state_;
}

JsonScanner::State JsonScanner::open(bool is_object) {
    if (open_.size() == kMostDepth) return state_ = State::bad;
    open_.push_back(is_object);
    next_ = is_object ? Next::key_or_end : Next::value_or_end;
    return state_;
}

JsonScanner::State JsonScanner::close(bool is_object) {
    if (open_.back() != is_object) return state_ = State::bad;
    open_.pop_back();
    return end_value();
}

JsonScanner::State JsonScanner::end_value() {
    if (open_.empty()) return state_ = State::done;
    next_ = Next::comma_or_end;
    return state_;
}

std::optional<std::string_view> raw_member(std::string_view object, std::string_view key) {
    std::optional<std::string_view> found;
    Parts parts(object);
    while (const auto name = parts.next()) {
        const auto value = parts.next();
        if (!value) break;
        if (name->size() == key.size() + 2 && name->substr(1, key.size()) == key) found = value;
    }
    return found;
}

std::vector<std::string_view> raw_elements(std::string_view array) {
    std::vector<std::string_view> elements;
    Parts parts(array);
    while (const auto element = parts.next()) elements.push_back(*element);
    return elements;
}

}  // namespace tandem::text
