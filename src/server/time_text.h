// Points in time and durations as APIs write them.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::server {

// "2026-05-01T12:00:00.000Z"
std::string iso_time(std::chrono::system_clock::time_point time);

// Seconds of "5m", "1h30m", "2.5s", "300ms", or a plain number of seconds. Nothing if it is none of them.
std::optional<double> parse_duration(std::string_view text);

}  // namespace tandem::server
