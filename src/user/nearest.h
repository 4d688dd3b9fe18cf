// The word that a misspelled one was meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::user {

// The candidate with the fewest letters to change, or that the word begins; empty when none is near.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

// "; did you mean 'serve'?", or nothing when no candidate is near.
std::string suggestion(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace tandem::user
