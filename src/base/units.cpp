#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

namespace tandem {

namespace {

std::string with_unit(double value, double step, std::span<const std::string_view> units, std::string_view suffix) {
    size_t unit = 0;
    while (value >= step && unit + 1 < units.size()) {
        value /= step;
        ++unit;
    }
    if (unit == 0) return fmt::format("{:.0f}{}{}", value, suffix.empty() ? "" : " ", suffix);
    return fmt::format("{:.{}f} {}{}", value, value < 10 ? 2 : 1, units[unit], suffix);
}

// Digits behind the point, so that three are shown in all.
int digits_behind(double value) {
    return value < 0.9995 ? 3 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

}  // namespace

std::string format_bytes(uint64_t bytes) {
    static constexpr std::array<std::string_view, 5> kUnits = {"", "Ki", "Mi", "Gi", "Ti"};
    return with_unit(static_cast<double>(bytes), 1024, kUnits, "B");
}

std::string format_count(uint64_t count) {
    static constexpr std::array<std::string_view, 5> kUnits = {"", "K", "M", "G", "T"};
    return with_unit(static_cast<double>(count), 1000, kUnits, "");
}

std::string format_seconds(double seconds) {
    constexpr std::pair<double, std::string_view> kUnits[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
    // A little more than one of a unit is shown as that, not as 1000 of the next.
    const auto* const unit = std::find_if(std::begin(kUnits), std::end(kUnits) - 1,
                                          [&](const auto& each) { return seconds >= 0.9995 * each.first; });
    const double value = seconds / unit->first;
    return fmt::format("{:.{}f} {}", value, digits_behind(value), unit->second);
}

std::string format_rate(double rate) {
    if (rate < 999.5) return fmt::format("{:.{}f}", rate, digits_behind(rate));
    double unit = 1;
    while (rate / unit >= 999.5) unit *= 10;
    return fmt::format("{:.0f}", std::round(rate / unit) * unit);
}

}  // namespace tandem
