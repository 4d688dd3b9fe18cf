// What `tandem bench` does with runs that were saved: the comparison of two, and the page of one.
#pragma once

#include <string>

#include "base/result.h"

namespace tandem::cli {

// `first` and `second` are files of `tandem bench --json`.
Result<int> compare_saved(const std::string& first, const std::string& second, bool json);

// Draws the run of such a file.
Result<int> draw_saved(const std::string& run, const std::string& html);

}  // namespace tandem::cli
