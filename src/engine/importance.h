// Importance: sums up, over a text, how large the inputs of every matrix are by column.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "format/imatrix.h"

namespace tandem::engine {

class Importance {
  public:
    // Rows of `cols` numbers that a matrix is multiplied with.
    void add(std::string_view matrix, std::span<const float> rows, int64_t cols);

    // What was summed up so far, without the names of file and texts.
    format::Imatrix imatrix() const;

  private:
    struct Sums {
        std::vector<double> squares;  // by column
        uint64_t rows = 0;
    };
    std::map<std::string, Sums, std::less<>> sums_;
};

}  // namespace tandem::engine
