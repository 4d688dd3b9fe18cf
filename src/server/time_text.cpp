#include "server/time_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <utility>

namespace tandem::server {

std::string iso_time(std::chrono::system_clock::time_point time) {
    const auto since = time.time_since_epoch();
    const auto whole = std::chrono::floor<std::chrono::seconds>(since);
    const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(since - whole).count();
    const std::time_t seconds = whole.count();
    std::tm parts = {};
    gmtime_r(&seconds, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, millis);
}

std::optional<double> parse_duration(std::string_view text) {
    constexpr std::array<std::pair<std::string_view, double>, 6> kUnits = {
        {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"h", 3600}, {"m", 60}, {"s", 1}}};
    const bool negative = text.starts_with('-');
    if (negative) text.remove_prefix(1);
    if (text.empty() || text.front() == '-') return std::nullopt;
    double total = 0;
    while (!text.empty()) {
        double number = 0;
        const auto [end, status] =
            std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
        if (status != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
        text.remove_prefix(static_cast<size_t>(end - text.data()));
        if (text.empty() && total == 0) return negative ? -number : number;
        double unit = 0;
        for (const auto& [name, seconds] : kUnits) {
            if (unit != 0 || !text.starts_with(name)) continue;
            unit = seconds;
            text.remove_prefix(name.size());
        }
        if (unit == 0) return std::nullopt;
        total += number * unit;
    }
    return negative ? -total : total;
}

}  // namespace tandem::server
