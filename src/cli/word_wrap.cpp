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

std::string WordWrap::style(std::string_view sequence) {
    (fence_.is_code() ? out_ : word_) += sequence;
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
    fence_.add(bytes);
    if (fence_.is_code()) {  // as it comes
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
    fence_.end_line();
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
