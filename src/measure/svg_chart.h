// Charts as inline SVG: lines and dots over labelled axes, and bars made of parts; colours are those of the page's
// style.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::measure {

struct ChartSeries {
    std::string label;  // stands at its last point; of dots, beside each
    std::vector<std::pair<double, double>> points;
    int color = 0;
    bool dashed = false;
    bool dots_only = false;
};

struct ChartAxis {
    std::string label;  // with the unit
    bool is_log = false;
    std::vector<double> ticks = {};  // none: found for the data
};

struct Chart {
    std::string title;  // for those who hear the page
    ChartAxis x;
    ChartAxis y;
    std::vector<ChartSeries> series;
};

std::string to_svg(const Chart& chart);

struct BarPart {
    std::string label;
    double value = 0;
    int color = 0;
};
struct Bar {
    std::string label;
    std::string total;  // behind the bar
    std::vector<BarPart> parts;
};

// Each bar as long as the others, its parts in proportion.
std::string stacked_bars(std::string_view title, const std::vector<Bar>& bars);

// A line of values without axes, from 0.
std::string sparkline(const std::vector<double>& values, std::string_view title);

inline constexpr int kChartColors = 8;

// Text that may stand in HTML and in attributes.
std::string html_text(std::string_view text);

}  // namespace tandem::measure
