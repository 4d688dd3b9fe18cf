#include "cli/text_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <utility>

#include "text/utf8.h"

namespace tandem::cli {

namespace {

std::string with_unit(double value, double step, std::span<const std::string_view> units, std::string_view suffix) {
    size_t unit = 0;
    while (value >= step && unit + 1 < units.size()) {
        value /= step;
        ++unit;
    }
    if (unit == 0) return fmt::format("{:.0f}{}{}", value, suffix.empty() ? "" : " ", suffix);
    return fmt::format("{:.{}f} {}{}", value, value < 10 ? 2 : 1, units[unit], suffix);
}

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

// Characters, which is what a terminal counts but for wide and combining ones.
size_t width(std::string_view text) {
    return static_cast<size_t>(std::count_if(
        text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }));
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
    static constexpr std::array<std::string_view, 5> kUnits = {"", "Ki", "Mi", "Gi", "Ti"};
    return with_unit(static_cast<double>(bytes), 1024, kUnits, "B");
}

std::string format_count(uint64_t count) {
    static constexpr std::array<std::string_view, 5> kUnits = {"", "K", "M", "G", "T"};
    return with_unit(static_cast<double>(count), 1000, kUnits, "");
}

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
            widths[column] = std::max(widths[column], width(row[column]));
        }
    }
    std::string out;
    for (const auto& row : rows_) {
        std::string line;
        for (size_t column = 0; column < row.size(); ++column) {
            const std::string padding(widths[column] - width(row[column]), ' ');
            const bool right = std::find(right_.begin(), right_.end(), column) != right_.end();
            line += fmt::format("{}{}{}{}", column > 0 ? "  " : "", right ? padding : "", row[column],
                                right || column + 1 == row.size() ? "" : padding);
        }
        out += line + "\n";
    }
    return out;
}

Progress::Progress(std::string what) : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
    if (shown_percent_ >= 0) std::fputs("\r\x1b[K", stderr);
}

void Progress::show(double done, double total) {
    const int percent = total > 0 ? static_cast<int>(std::clamp(100 * done / total, 0.0, 100.0)) : 0;
    if (!terminal_ || percent == shown_percent_) return;
    shown_percent_ = percent;
    constexpr int kBar = 30;
    const int filled = kBar * percent / 100;
    fmt::print(stderr, "\r{} [{}{}] {:3}%", what_, std::string(static_cast<size_t>(filled), '#'),
               std::string(static_cast<size_t>(kBar - filled), '.'), percent);
}

void print(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

void note(std::string_view line) {
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

}  // namespace tandem::cli
