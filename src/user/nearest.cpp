#include "user/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace tandem::user {

namespace {

constexpr size_t kLongestWord = 64;  // the distance takes time by the square of it
constexpr size_t kLeastBeginning = 3;

char lower(char letter) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

bool same(char a, char b) {
    return lower(a) == lower(b);
}

// Letters to add, drop or change, and neighbours to swap, that make `b` of `a`.
size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> distance(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i) {
        for (size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                distance[i][j] = i + j;
                continue;
            }
            const size_t changed = distance[i - 1][j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1);
            distance[i][j] = std::min({changed, distance[i - 1][j] + 1, distance[i][j - 1] + 1});
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1])) {
                distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
            }
        }
    }
    return distance[a.size()][b.size()];
}

bool begins(std::string_view word, std::string_view candidate) {
    return word.size() >= kLeastBeginning && word.size() <= candidate.size() &&
           std::equal(word.begin(), word.end(), candidate.begin(), same);
}

}  // namespace

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
    if (word.size() > kLongestWord) return {};
    std::string_view found;
    size_t least = std::max<size_t>(1, word.size() / 3) + 1;  // more letters than that make it another word
    for (const std::string_view candidate : candidates) {
        const size_t distance = begins(word, candidate) ? 1 : edit_distance(word, candidate);
        if (distance < least && distance < word.size()) {
            least = distance;
            found = candidate;
        }
    }
    return found;
}

std::string suggestion(std::string_view word, const std::vector<std::string_view>& candidates) {
    const std::string_view found = nearest(word, candidates);
    return found.empty() ? std::string() : fmt::format("; did you mean '{}'?", found);
}

}  // namespace tandem::user
