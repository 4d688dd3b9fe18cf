// Importance: sums up, over a text, how large the inputs of every matrix are by column.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/imatrix.h"

namespace tandem::measure {

class Importance {
  public:
    // Rows of `cols` numbers that a matrix is multiplied with, or that of one of its experts.
    struct Rows {
        std::string_view matrix;
        std::span<const float> rows;
        int64_t cols = 0;
        int64_t expert = 0;
        int64_t experts = 1;
    };
    void add(const Rows& rows);

    // What was summed up so far, without the names of file and texts.
    format::Imatrix imatrix() const;

  private:
    struct Sums {
        std::vector<double> squares;  // by column, expert after expert
        std::vector<uint64_t> rows;   // by expert
    };
    std::map<std::string, Sums, std::less<>> sums_;
};

}  // namespace tandem::measure
