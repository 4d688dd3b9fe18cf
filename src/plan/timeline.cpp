#include "plan/timeline.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace tandem::plan {

void Timeline::add(std::string device, std::string what, Clock::time_point begin, Clock::time_point end) {
    const auto since_start = [&](Clock::time_point at) { return std::chrono::duration<double>(at - start_).count(); };
    const std::lock_guard lock(mutex_);
    spans_.push_back({std::move(device), std::move(what), since_start(begin), since_start(end)});
}

std::vector<Timeline::Span> Timeline::spans() const {
    const std::lock_guard lock(mutex_);
    return spans_;
}

// One thread per device; "M" events name the threads.
std::string Timeline::to_json() const {
    nlohmann::json events = nlohmann::json::array();
    std::map<std::string, int> threads;
    for (const Span& span : spans()) {
        const auto [thread, is_new] = threads.emplace(span.device, static_cast<int>(threads.size()) + 1);
        if (is_new) {
            events.push_back({{"name", "thread_name"},
                              {"ph", "M"},
                              {"pid", 1},
                              {"tid", thread->second},
                              {"args", {{"name", span.device}}}});
        }
        events.push_back({{"name", span.what},
                          {"ph", "X"},
                          {"pid", 1},
                          {"tid", thread->second},
                          {"ts", span.begin_s * 1e6},
                          {"dur", (span.end_s - span.begin_s) * 1e6}});
    }
    return nlohmann::json{{"traceEvents", std::move(events)}}.dump();
}

double Timeline::overlap_seconds(const std::string& device, const std::string& other) const {
    const std::vector<Span> all = spans();
    double seconds = 0;
    for (const Span& a : all) {
        if (a.device != device) continue;
        for (const Span& b : all) {
            if (b.device != other) continue;
            seconds += std::max(0.0, std::min(a.end_s, b.end_s) - std::max(a.begin_s, b.begin_s));
        }
    }
    return seconds;
}

}  // namespace tandem::plan
