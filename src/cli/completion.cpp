#include "cli/completion.h"

#include <algorithm>
#include <filesystem>

#include "user/paths.h"

namespace tandem::cli {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostEntries = 100'000;  // of a folder that Tab looks through

bool is_continuation(char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

}  // namespace

std::string Completion::common_rest() const {
    if (candidates.empty()) return {};
    size_t length = candidates.front().size();
    for (const std::string& other : candidates) {
        const auto differs =
            std::mismatch(candidates.front().begin(), candidates.front().end(), other.begin(), other.end());
        length = std::min(length, static_cast<size_t>(differs.first - candidates.front().begin()));
    }
    // Names may part within a character.
    while (length > typed.size() && length < candidates.front().size() && is_continuation(candidates.front()[length])) {
        --length;
    }
    return candidates.front().substr(typed.size(), length - typed.size());
}

Completion complete_word(std::string_view typed, const std::vector<std::string_view>& words) {
    Completion completion{.typed = std::string(typed), .candidates = {}};
    for (const std::string_view word : words) {
        if (word.starts_with(typed)) completion.candidates.emplace_back(word);
    }
    std::sort(completion.candidates.begin(), completion.candidates.end());
    return completion;
}

Completion complete_path(std::string_view typed) {
    Completion completion{.typed = std::string(typed), .candidates = {}};
    if (typed == "~") {
        completion.candidates.emplace_back("~/");
        return completion;
    }
    const size_t slash = typed.rfind('/');
    const std::string_view folder = slash == std::string_view::npos ? "" : typed.substr(0, slash + 1);
    const std::string_view beginning = typed.substr(folder.size());
    std::error_code error;  // a folder that cannot be read has nothing to offer
    fs::directory_iterator entries(folder.empty() ? "." : user::expand_home(folder), error);
    for (size_t seen = 0; !error && entries != fs::directory_iterator() && seen < kMostEntries; ++seen) {
        const std::string name = entries->path().filename().string();
        const bool hidden = name.starts_with('.') && !beginning.starts_with('.');
        if (name.starts_with(beginning) && !hidden) {
            std::error_code unknown;
            completion.candidates.push_back(std::string(folder) + name + (entries->is_directory(unknown) ? "/" : ""));
        }
        entries.increment(error);
    }
    std::sort(completion.candidates.begin(), completion.candidates.end());
    return completion;
}

}  // namespace tandem::cli
