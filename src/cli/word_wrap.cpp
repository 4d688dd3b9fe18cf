#include "cli/word_wrap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cli/text_output.h"
#include "text/utf8.h"

namespace tandem::cli {

namespace {

constexpr size_t kTab = 8;
constexpr size_t kLeastFence = 3;
constexpr size_t kMostIndent = 3;  // of a fence, as Markdown has it
constexpr size_t kStartBytes = 64;

struct Fence {
    std::string_view marks;  // "```" of "  ```cpp"; empty when the line is none
    std::string_view rest;
};

Fence fence_of(std::string_view line) {
    const size_t indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos || indent > kMostIndent) return {};
    line.remove_prefix(indent);
    if (line[0] != '`' && line[0] != '~') return {};
    const size_t length = std::min(line.find_first_not_of(line[0]), line.size());
    if (length < kLeastFence) return {};
    return {line.substr(0, length), line.substr(length)};
}

}  // namespace

std::string WordWrap::push(std::string_view piece) {
    std::string text = std::exchange(partial_, {});
    text += piece;
    std::string_view rest = text;
    while (!rest.empty()) {
        const text::Utf8Char character = text::decode_utf8(rest);
        if (character.incomplete) {
            partial_ = rest;
            break;
        }
        add(rest.substr(0, character.length), character.code);
        rest.remove_prefix(character.length);
    }
    return std::exchange(out_, {});
}

std::string WordWrap::finish() {
    if (!partial_.empty()) add(std::exchange(partial_, {}), 0);
    end_word();
    out_ += std::exchange(spaces_, {});
    end_line();
    return std::exchange(out_, {});
}

void WordWrap::add(std::string_view bytes, uint32_t code) {
    if (code == '\n') {
        end_word();
        out_ += std::exchange(spaces_, {});
        out_ += '\n';
        end_line();
        return;
    }
    if (line_start_.size() + bytes.size() <= kStartBytes) line_start_ += bytes;
    if (!fence_.empty()) {  // code: as it comes
        out_ += bytes;
        return;
    }
    if (code == ' ' || code == '\t') {
        end_word();
        spaces_ += bytes;
        spaces_width_ += code == ' ' ? 1 : kTab - (column_ + spaces_width_) % kTab;
        return;
    }
    const size_t width = terminal_width(code);
    if (width == 2) end_word();  // between wide characters, as of Chinese, a line may break
    word_ += bytes;
    word_width_ += width;
    if (width == 2) end_word();
}

void WordWrap::end_word() {
    if (word_.empty()) return;
    const size_t columns = columns_();
    const bool fits = columns == 0 || column_ + spaces_width_ + word_width_ <= columns;
    if (fits || column_ == 0) {
        out_ += spaces_;
        column_ += spaces_width_;
    } else {
        out_ += '\n';  // in place of the spaces
        column_ = 0;
    }
    out_ += word_;
    column_ += word_width_;
    if (columns > 0 && column_ > columns) column_ = (column_ - 1) % columns + 1;  // longer than a line
    spaces_.clear();
    spaces_width_ = 0;
    word_.clear();
    word_width_ = 0;
}

void WordWrap::end_line() {
    const Fence fence = fence_of(line_start_);
    if (fence_.empty()) {
        const bool inline_code = fence.rest.find('`') != std::string_view::npos;
        if (!inline_code) fence_ = fence.marks;
    } else if (fence.marks.starts_with(fence_) && fence.rest.find_first_not_of(' ') == std::string_view::npos) {
        fence_.clear();  // as long as the one that opened, or longer
    }
    line_start_.clear();
    column_ = 0;
    spaces_width_ = 0;
}

size_t terminal_columns(int file) {
    winsize size{};
    if (isatty(file) != 1 || ::ioctl(file, TIOCGWINSZ, &size) != 0) return 0;
    return size.ws_col;
}

size_t output_columns() {
    return terminal_columns(STDOUT_FILENO);
}

}  // namespace tandem::cli
