#include "cli/answer_text.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "cli/text_output.h"

namespace tandem::cli {

namespace {

using std::string_view;

constexpr string_view kBold = "\x1b[1m";
constexpr string_view kNotBold = "\x1b[22m";
constexpr string_view kCode = "\x1b[36m";  // cyan can be read on dark and on light
constexpr string_view kNotCode = "\x1b[39m";
constexpr string_view kDot = "\u2022 ";

constexpr size_t kMostHeld = 400;  // bytes of a line that wait for the other half of a mark
constexpr size_t kMostHashes = 6;
constexpr size_t kMostIndentOfMark = 40;

bool is_letter(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || (static_cast<unsigned char>(c) & 0x80U) != 0;
}

size_t run_length(string_view text, size_t begin = 0) {
    const size_t end = text.find_first_not_of(text[begin], begin);
    return (end == string_view::npos ? text.size() : end) - begin;
}

// Where in the line the next run of exactly `length` of the mark begins, behind `from`; npos: nowhere. `is_closing` is
// asked for the place of each.
template <typename IsClosing>
size_t find_run(string_view line, string_view marks, size_t from, const IsClosing& is_closing) {
    for (size_t at = line.find(marks[0], from); at != string_view::npos; at = line.find(marks[0], at)) {
        const size_t length = run_length(line, at);
        if (length == marks.size() && is_closing(at)) return at;
        at += length;
    }
    return string_view::npos;
}

// Where the other half of a mark is looked for.
string_view line_of(string_view text) {
    return text.substr(0, std::min(text.find('\n'), kMostHeld));
}

// A run at the end of what is there may go on.
bool may_go_on(string_view text, size_t end, bool is_end) {
    return end == text.size() && !is_end;
}

}  // namespace

std::string AnswerText::push(string_view piece) {
    if (!shows_markdown_) return wrap_.push(piece);
    held_ += piece;
    take_all(false);
    return std::exchange(out_, {});
}

std::string AnswerText::finish() {
    take_all(true);
    end_line();
    return std::exchange(out_, {}) + wrap_.finish();
}

void AnswerText::take_all(bool is_end) {
    size_t done = 0;
    while (done < held_.size()) {
        const size_t taken = take(string_view(held_).substr(done), is_end);
        if (taken == 0) break;
        done += taken;
    }
    held_.erase(0, done);
}

// How much of the text is dealt with; 0: what follows must be known first.
size_t AnswerText::take(string_view text, bool is_end) {
    if (text[0] == '\n') {
        end_line();
        fence_.end_line();
        out_ += wrap_.push("\n");
        before_ = '\n';
        at_line_start_ = true;
        return 1;
    }
    if (at_line_start_ && !fence_.is_code()) return take_line_start(text, is_end);
    if (at_line_start_) style(kCode);
    is_raw_ |= at_line_start_;
    at_line_start_ = false;
    if (is_raw_) return take_raw(text);
    if (text[0] == '`') return take_code(text, is_end);
    if (text[0] == '*' || text[0] == '_') return take_bold(text, is_end);
    return take_plain(text, std::min(text.find_first_of("\n`*_"), text.size()));
}

// The indent and the mark behind it, if it is one of a heading, a list or a block of code.
size_t AnswerText::take_line_start(string_view text, bool is_end) {
    const size_t indent = std::min(text.find_first_not_of(' '), text.size());
    if (may_go_on(text, indent, is_end) && indent <= kMostIndentOfMark) return 0;
    const char mark = indent < text.size() && indent <= kMostIndentOfMark ? text[indent] : '\n';
    const bool is_mark = string_view("#-+*`~").find(mark) != string_view::npos;
    const size_t length = is_mark ? run_length(text, indent) : 0;
    if (is_mark && may_go_on(text, indent + length, is_end) && length <= kMostHashes) return 0;
    const bool has_space = is_mark && indent + length < text.size() && text[indent + length] == ' ';
    at_line_start_ = false;
    if ((mark == '`' || mark == '~') && length >= CodeFence::kLeastMarks) {
        is_raw_ = true;
        style(kCode);
        return take_raw(text);
    }
    if (mark == '#' && has_space && length <= kMostHashes) {
        fence_.add(text.substr(0, indent + length));
        is_heading_ = true;
        style(kBold);
        return indent + length + 1;
    }
    if ((mark == '-' || mark == '+' || mark == '*') && has_space && length == 1) {
        take_plain(text, indent);
        take_plain(kDot, kDot.size());
        return indent + 2;
    }
    return indent == 0 ? take(text, is_end) : take_plain(text, indent);
}

size_t AnswerText::take_raw(string_view text) {
    return take_plain(text, std::min(text.find('\n'), text.size()));
}

size_t AnswerText::take_code(string_view text, bool is_end) {
    const size_t length = run_length(text);
    const string_view line = line_of(text);
    const bool is_whole = is_end || line.size() < text.size();
    const size_t close = find_run(line, text.substr(0, length), length, [](size_t) { return true; });
    const bool is_sure = close != string_view::npos && !may_go_on(text, close + length, is_end);
    if (!is_sure && !is_whole) return 0;
    if (close == string_view::npos) return take_plain(text, length);
    style(kCode);
    take_plain(text.substr(length), close - length);
    style(kNotCode);
    return close + length;
}

// Two or three marks, before a word and behind one; one mark, or marks within a word as in 2**3, are text.
size_t AnswerText::take_bold(string_view text, bool is_end) {
    const size_t length = run_length(text);
    if (may_go_on(text, length, is_end)) return 0;
    const string_view line = line_of(text);
    const bool can_open =
        length >= 2 && length <= 3 && !is_letter(before_) && length < line.size() && line[length] != ' ';
    if (!can_open) return take_plain(text, length);
    const bool is_whole = is_end || line.size() < text.size();
    const size_t close = find_run(line, text.substr(0, length), length, [&](size_t at) { return line[at - 1] != ' '; });
    const bool is_sure = close != string_view::npos && !may_go_on(text, close + length, is_end);
    if (!is_sure && !is_whole) return 0;
    if (close == string_view::npos) return take_plain(text, length);
    if (!is_heading_) style(kBold);
    take_inner(line.substr(length, close - length));
    if (!is_heading_) style(kNotBold);
    return close + length;
}

// Of what is bold, code alone is told apart.
void AnswerText::take_inner(string_view text) {
    while (!text.empty()) {
        const size_t taken =
            text[0] == '`' ? take_code(text, true) : take_plain(text, std::min(text.find('`'), text.size()));
        text.remove_prefix(taken);
    }
}

size_t AnswerText::take_plain(string_view text, size_t length) {
    if (length == 0) return 0;
    const string_view plain = text.substr(0, length);
    fence_.add(plain);
    out_ += wrap_.push(plain);
    before_ = plain.back();
    return length;
}

void AnswerText::end_line() {
    if (is_raw_) style(kNotCode);
    if (is_heading_) style(kNotBold);
    is_raw_ = is_heading_ = false;
}

void AnswerText::style(string_view sequence) {
    out_ += wrap_.style(sequence);
}

bool can_show_markdown() {
    const char* const no_color = std::getenv("NO_COLOR");  // no-color.org: whatever it is, if it is anything
    return has_control_sequences(STDOUT_FILENO) && (no_color == nullptr || *no_color == '\0');
}

}  // namespace tandem::cli
