// What Tab may put behind the letters that were typed: words of a list, or names of files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

struct Completion {
    std::string typed;                    // the part of the line that is completed, up to the cursor
    std::vector<std::string> candidates;  // what it may become, each beginning with it; sorted

    // What all candidates have after what was typed.
    std::string common_rest() const;
};

// The words that begin with `typed`.
Completion complete_word(std::string_view typed, const std::vector<std::string_view>& words);

// The files whose paths begin with `typed`, folders with a slash behind; hidden ones only when asked for by their dot.
// "~/" is the user's home.
Completion complete_path(std::string_view typed);

}  // namespace tandem::cli
