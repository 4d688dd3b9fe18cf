#include "cli/code_fence.h"

#include <algorithm>

namespace tandem::cli {

namespace {

constexpr size_t kMostIndent = 12;  // of a fence: those of lists in lists are deeper than the 3 of plain text
constexpr size_t kStartBytes = 64;

struct Fence {
    std::string_view marks;  // "```" of "  ```cpp"; empty when the line is none
    std::string_view rest;
};

Fence fence_of(std::string_view line) {
    const size_t indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos || indent > kMostIndent) return {};
    line.remove_prefix(indent);
    if (line[0] != '`' && line[0] != '~') return {};
    const size_t length = std::min(line.find_first_not_of(line[0]), line.size());
    if (length < CodeFence::kLeastMarks) return {};
    return {line.substr(0, length), line.substr(length)};
}

}  // namespace

void CodeFence::add(std::string_view bytes) {
    line_start_ += bytes.substr(0, kStartBytes - line_start_.size());
}

void CodeFence::end_line() {
    const Fence fence = fence_of(line_start_);
    if (fence_.empty()) {
        const bool is_inline_code = fence.rest.find('`') != std::string_view::npos;
        if (!is_inline_code) fence_ = fence.marks;
    } else if (fence.marks.starts_with(fence_) && fence.rest.find_first_not_of(' ') == std::string_view::npos) {
        fence_.clear();  // as long as the one that opened, or longer
    }
    line_start_.clear();
}

}  // namespace tandem::cli
