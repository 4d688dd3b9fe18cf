#include "cli/text_output.h"

#include <fmt/format.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "cli/word_wrap.h"
#include "text/utf8.h"

namespace tandem::cli {

namespace {

void append_escaped(std::string& out, std::string_view bytes, uint32_t code, bool valid) {
    if (code == '\n') {
        out += "\\n";
    } else if (code == '\t') {
        out += "\\t";
    } else if (code == '\r') {
        out += "\\r";
    } else if (code == '\\') {
        out += "\\\\";
    } else if (!valid || code < 0x20 || (code >= 0x7f && code < 0xa0)) {
        for (const char byte : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    } else {
        out += bytes;
    }
}

}  // namespace

std::string escape(std::string_view text) {
    return escape_short(text, std::string_view::npos);
}

std::string escape_short(std::string_view text, size_t limit) {
    std::string out;
    for (size_t count = 0; !text.empty(); ++count) {
        if (count == limit) return out + "...";
        const text::Utf8Char character = text::decode_utf8(text);
        append_escaped(out, text.substr(0, character.length), character.code, character.valid);
        text.remove_prefix(character.length);
    }
    return out;
}

size_t terminal_width(uint32_t code) {
    return static_cast<size_t>(std::max(0, utf8proc_charwidth(static_cast<utf8proc_int32_t>(code))));
}

size_t terminal_width(std::string_view text) {
    size_t width = 0;
    while (!text.empty()) {
        const text::Utf8Char character = text::decode_utf8(text);
        width += terminal_width(character.code);
        text.remove_prefix(character.length);
    }
    return width;
}

Table::Table(std::vector<std::string> header, std::vector<size_t> right) : right_(std::move(right)) {
    add(std::move(header));
}

void Table::add(std::vector<std::string> row) {
    rows_.push_back(std::move(row));
}

std::string Table::to_string() const {
    std::vector<size_t> widths;
    for (const auto& row : rows_) {
        widths.resize(std::max(widths.size(), row.size()));
        for (size_t column = 0; column < row.size(); ++column) {
            widths[column] = std::max(widths[column], terminal_width(row[column]));
        }
    }
    std::string out;
    for (const auto& row : rows_) {
        std::string line;
        for (size_t column = 0; column < row.size(); ++column) {
            const std::string padding(widths[column] - terminal_width(row[column]), ' ');
            const bool right = std::find(right_.begin(), right_.end(), column) != right_.end();
            line += fmt::format("{}{}{}{}", column > 0 ? "  " : "", right ? padding : "", row[column],
                                right || column + 1 == row.size() ? "" : padding);
        }
        out += line + "\n";
    }
    return out;
}

Progress::Progress(std::string what, Unit unit)
    : what_(std::move(what)), unit_(unit), terminal_(has_control_sequences(STDERR_FILENO)) {}

Progress::~Progress() {
    if (shown_percent_ >= 0) std::fputs("\r\x1b[K", stderr);
}

void Progress::show(double done, double total) {
    const int percent = total > 0 ? static_cast<int>(std::clamp(100 * done / total, 0.0, 100.0)) : 0;
    if (!terminal_ || percent == shown_percent_) return;
    shown_percent_ = percent;
    constexpr int kBar = 30;
    const int filled = kBar * percent / 100;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    const std::string left = time_left(elapsed.count(), total > 0 ? done / total : 0);
    const bool has_rate = unit_ == Unit::bytes && elapsed.count() > 0.1;  // before it is no rate of anything
    fmt::print(stderr, "\r{} [{}{}] {:3}%{}{}\x1b[K", what_, std::string(static_cast<size_t>(filled), '#'),
               std::string(static_cast<size_t>(kBar - filled), '.'), percent,
               has_rate ? fmt::format(", {:.2f} GB/s", done / elapsed.count() / 1e9) : "",
               left.empty() ? "" : fmt::format(", {} left", left));
}

std::string time_left(double elapsed_s, double share) {
    if (elapsed_s < 1 || share <= 0) return {};
    const auto seconds = static_cast<int64_t>(std::ceil(elapsed_s * (1 - std::min(share, 1.0)) / share));
    if (seconds < 60) return fmt::format("{} s", seconds);
    if (seconds < 3600) return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
    return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

bool has_control_sequences(int file) {
    const char* const kind = std::getenv("TERM");
    return isatty(file) == 1 && kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

void print(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

void note(std::string_view line) {
    WordWrap wrap([] { return terminal_columns(STDERR_FILENO); });
    std::string text = wrap.push(line);
    text += wrap.finish();
    std::fprintf(stderr, "%s\n", text.c_str());
}

}  // namespace tandem::cli
