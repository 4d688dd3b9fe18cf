#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace tandem::engine {

namespace {

// The length of the longest end of `text` that is a proper beginning of `stop`.
size_t partial_match(std::string_view text, std::string_view stop) {
    for (size_t length = std::min(text.size(), stop.size() - 1); length > 0; --length) {
        if (text.substr(text.size() - length) == stop.substr(0, length)) return length;
    }
    return 0;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
    std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::push(std::string_view text) {
    if (stopped_) return {};
    pending_ += text;
    size_t first = std::string::npos;
    for (const std::string& stop : stops_) {
        const size_t found = pending_.find(stop);
        if (found < first) met_ = stop;
        first = std::min(first, found);
    }
    if (first != std::string::npos) {
        stopped_ = true;
        pending_.resize(first);
        return std::exchange(pending_, {});
    }
    size_t held = 0;
    for (const std::string& stop : stops_) held = std::max(held, partial_match(pending_, stop));
    std::string shown = pending_.substr(0, pending_.size() - held);
    pending_.erase(0, shown.size());
    return shown;
}

std::string StopMatcher::finish() {
    return std::exchange(pending_, {});
}

}  // namespace tandem::engine
