#include "measure/importance.h"

#include "base/check.h"

namespace tandem::measure {

void Importance::add(const Rows& in) {
    auto found = sums_.find(in.matrix);
    if (found == sums_.end()) found = sums_.emplace(in.matrix, Sums()).first;
    Sums& sums = found->second;
    const auto width = static_cast<size_t>(in.cols);
    const auto experts = static_cast<size_t>(in.experts);
    const auto expert = static_cast<size_t>(in.expert);
    sums.squares.resize(width * experts);
    sums.rows.resize(experts);
    CHECK(in.rows.size() % width == 0, "rows are whole");
    double* const squares = sums.squares.data() + expert * width;
    for (size_t at = 0; at < in.rows.size(); at += width, ++sums.rows[expert]) {
        for (size_t i = 0; i < width; ++i) squares[i] += double{in.rows[at + i]} * in.rows[at + i];
    }
}

format::Imatrix Importance::imatrix() const {
    format::Imatrix imatrix;
    for (const auto& [matrix, sums] : sums_) {
        format::Imatrix::Entry& entry = imatrix.entries[matrix];
        entry.sums.assign(sums.squares.begin(), sums.squares.end());
        for (const uint64_t rows : sums.rows) entry.counts.push_back(static_cast<float>(rows));
    }
    return imatrix;
}

}  // namespace tandem::measure
