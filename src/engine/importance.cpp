#include "engine/importance.h"

#include "base/check.h"

namespace tandem::engine {

void Importance::add(std::string_view matrix, std::span<const float> rows, int64_t cols) {
    auto found = sums_.find(matrix);
    if (found == sums_.end()) found = sums_.emplace(matrix, Sums()).first;
    Sums& sums = found->second;
    const auto width = static_cast<size_t>(cols);
    sums.squares.resize(width);
    CHECK(rows.size() % width == 0, "rows are whole");
    for (size_t at = 0; at < rows.size(); at += width, ++sums.rows) {
        for (size_t i = 0; i < width; ++i) sums.squares[i] += double{rows[at + i]} * rows[at + i];
    }
}

format::Imatrix Importance::imatrix() const {
    format::Imatrix imatrix;
    for (const auto& [matrix, sums] : sums_) {
        imatrix.entries[matrix] = {.sums = {sums.squares.begin(), sums.squares.end()},
                                   .counts = {static_cast<float>(sums.rows)}};
    }
    return imatrix;
}

}  // namespace tandem::engine
