// Text for terminals: aligned tables, escaped strings, a progress line.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace tandem::cli {

// Control characters, backslashes and what is not UTF-8 as \n, \\, \x1b: one line, safe on a terminal.
std::string escape(std::string_view text);
// The same, cut to about `limit` characters.
std::string escape_short(std::string_view text, size_t limit);

// Columns that a terminal takes for it: 2 for a wide character, 0 for one that combines with another.
size_t terminal_width(uint32_t code);
size_t terminal_width(std::string_view text);

// Columns as wide as their longest cell; `right` lists the columns that hold numbers.
class Table {
  public:
    explicit Table(std::vector<std::string> header, std::vector<size_t> right = {});
    void add(std::vector<std::string> row);
    std::string to_string() const;

  private:
    std::vector<std::vector<std::string>> rows_;  // the header first
    std::vector<size_t> right_;
};

// A line on standard error that is drawn again as work proceeds, with the time it will take from there; silent unless
// that is a terminal.
class Progress {
  public:
    enum class Unit : uint8_t { none, bytes };  // of bytes the rate is shown
    explicit Progress(std::string what, Unit unit = Unit::none);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();

    void show(double done, double total);

  private:
    std::string what_;
    Unit unit_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    int shown_percent_ = -1;
    bool terminal_;
};

// "1:05:09", "2:05", "8 s": what is left of something that has taken so long for `share` of it; empty in the first
// second.
std::string time_left(double elapsed_s, double share);

// Whether the file is a terminal that moves its cursor when told to (not that of TERM=dumb).
bool has_control_sequences(int file);

// To standard output, at once.
void print(std::string_view text);
// A line to standard error, broken between words where that is a terminal.
void note(std::string_view line);

}  // namespace tandem::cli
