// Text for terminals: sizes for people, aligned tables, escaped strings, a progress line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

std::string format_bytes(uint64_t bytes);  // "26.4 MiB"
std::string format_count(uint64_t count);  // "27.01 G"

// Control characters, backslashes and what is not UTF-8 as \n, \\, \x1b: one line, safe on a terminal.
std::string escape(std::string_view text);
// The same, cut to about `limit` characters.
std::string escape_short(std::string_view text, size_t limit);

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

// A line on standard error that is drawn again as work proceeds; silent unless that is a terminal.
class Progress {
  public:
    explicit Progress(std::string what);
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();

    void show(double done, double total);

  private:
    std::string what_;
    int shown_percent_ = -1;
    bool terminal_;
};

// To standard output, at once.
void print(std::string_view text);
// A line to standard error.
void note(std::string_view line);

}  // namespace tandem::cli
