#include "cli/multi_line.h"

namespace tandem::cli {

namespace {

constexpr std::string_view kFence = "\"\"\"";

}  // namespace

bool MultiLine::push(std::string_view line) {
    if (block_) {
        text_ += '\n';
        block_source_ += '\n';
        block_source_ += line;
        return push_block(line);
    }
    if (!pending_ && line.starts_with(kFence)) {
        pending_ = true;
        block_ = true;
        block_source_ = line;
        return push_block(line.substr(kFence.size()));
    }
    const bool goes_on = line.ends_with('\\');
    if (goes_on) line.remove_suffix(1);
    text_ += line;
    if (goes_on) text_ += '\n';
    pending_ = goes_on;
    return !goes_on;
}

bool MultiLine::push_block(std::string_view line) {
    const bool closes = line.ends_with(kFence);
    if (closes) line.remove_suffix(kFence.size());
    text_ += line;
    pending_ = block_ = !closes;
    return closes;
}

std::string MultiLine::take() {
    pending_ = block_ = false;
    block_source_.clear();
    std::string text = std::exchange(text_, {});
    if (text.starts_with('\n')) text.erase(0, 1);  // a block may begin on the line after its """
    if (text.ends_with('\n')) text.pop_back();
    return text;
}

}  // namespace tandem::cli
