#include "measure/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/units.h"

namespace tandem::measure {

namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 380;
constexpr double kLeft = 74;
constexpr double kRight = 170;  // where the names of lines stand
constexpr double kTop = 16;
constexpr double kBottom = 56;
constexpr double kLabelGap = 15;

// What an axis shows, and where.
class Scale {
  public:
    Scale(const ChartAxis& axis, std::vector<double> values, double from, double to)
        : is_log_(axis.is_log), from_(from), to_(to), ticks_(axis.ticks) {
        std::sort(values.begin(), values.end());
        low_ = is_log_ ? values.front() : 0;
        high_ = values.back();
        if (ticks_.empty()) find_ticks();
        low_ = std::min(low_, ticks_.front());
        high_ = std::max(high_, ticks_.back());
        if (high_ <= low_) high_ = is_log_ ? low_ * 2 : low_ + 1;
    }

    double at(double value) const {
        const double share =
            is_log_ ? std::log(std::max(value, low_) / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
        return from_ + share * (to_ - from_);
    }
    const std::vector<double>& ticks() const { return ticks_; }

  private:
    void find_ticks() {
        if (is_log_) {
            for (double tick = std::pow(10, std::floor(std::log10(low_))); tick < high_ * 10; tick *= 10)
                ticks_.push_back(tick);
            return;
        }
        constexpr double kWanted = 5;
        const double rough = std::max(high_, std::numeric_limits<double>::min()) / kWanted;
        const double power = std::pow(10, std::floor(std::log10(rough)));
        const double step = power * (rough > 5 * power ? 10 : rough > 2 * power ? 5 : rough > power ? 2 : 1);
        for (int i = 0; step * (i - 1) < high_; ++i) ticks_.push_back(step * i);
    }

    bool is_log_;
    double from_;
    double to_;
    std::vector<double> ticks_;
    double low_ = 0;
    double high_ = 1;
};

std::string tick_text(double value) {
    return fmt::format("{:g}", value);
}

std::string grid(const Chart& chart, const Scale& x, const Scale& y) {
    std::string svg;
    const double bottom = kHeight - kBottom;
    const double right = kWidth - kRight;
    for (const double tick : y.ticks()) {
        svg += fmt::format(
            "<line class=\"grid\" x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\"/>"
            "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
            kLeft, right, y.at(tick), kLeft - 8, y.at(tick) + 4, tick_text(tick));
    }
    double last = -kWidth;
    for (const double tick : x.ticks()) {
        svg += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>\n", x.at(tick),
                           kTop, bottom);
        constexpr double kTickGap = 34;  // so that no number is written over another
        if (x.at(tick) - last < kTickGap) continue;
        last = x.at(tick);
        svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", last, bottom + 18,
                           tick_text(tick));
    }
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\" class=\"axis\">{}</text>\n",
                       (kLeft + right) / 2, bottom + 42, html_text(chart.x.label));
    svg += fmt::format(
        "<text x=\"16\" y=\"{0:.1f}\" text-anchor=\"middle\" class=\"axis\" transform=\"rotate(-90 16 {0:.1f})\">{1}"
        "</text>\n",
        (kTop + bottom) / 2, html_text(chart.y.label));
    return svg;
}

std::string draw_series(const ChartSeries& series, const Scale& x, const Scale& y) {
    std::string line;
    std::string dots;
    for (const auto& [at_x, at_y] : series.points) {
        line += fmt::format("{}{:.1f},{:.1f}", line.empty() ? "" : " ", x.at(at_x), y.at(at_y));
        dots += fmt::format(
            "<circle class=\"dot c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"><title>{}: {:g}, {}</title>"
            "</circle>\n",
            series.color, x.at(at_x), y.at(at_y), html_text(series.label), at_x, format_rate(at_y));
    }
    if (series.dots_only) return dots;
    const std::string path = fmt::format("<polyline class=\"line s{}{}\" points=\"{}\"/>\n", series.color,
                                         series.dashed ? " dashed" : "", line);
    return series.dashed ? path : path + dots;
}

struct PlacedLabel {
    double x;
    double y;
    int color;
    std::string text;
    bool of_dot;

    double width() const {
        constexpr double kLetter = 7.5;
        return kLetter * static_cast<double>(text.size());
    }
    bool touches(const PlacedLabel& other) const {
        return std::abs(y - other.y) < kLabelGap && x < other.x + other.width() && other.x < x + width();
    }
};

// Dots that lie together have one label, "1, 5, 9"; the names of lines move apart instead.
void place_label(std::vector<PlacedLabel>& labels, PlacedLabel label) {
    for (PlacedLabel& other : labels) {
        if (!label.of_dot || !other.of_dot || other.color != label.color || !label.touches(other)) continue;
        other.text += ", " + label.text;
        other.x = std::max(other.x, label.x);
        return;
    }
    labels.push_back(std::move(label));
}

std::string draw_labels(const Chart& chart, const Scale& x, const Scale& y) {
    std::vector<PlacedLabel> labels;
    for (const ChartSeries& series : chart.series) {
        if (series.label.empty() || series.points.empty()) continue;
        const auto& [at_x, at_y] = series.points.back();
        const double above = series.dots_only ? -8 : 4;
        place_label(labels, {x.at(at_x) + 8, y.at(at_y) + above, series.color, series.label, series.dots_only});
    }
    std::sort(labels.begin(), labels.end(), [](const PlacedLabel& a, const PlacedLabel& b) { return a.y < b.y; });
    std::string svg;
    for (size_t i = 0; i < labels.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
            if (labels[j].touches(labels[i])) labels[i].y = labels[j].y + kLabelGap;
        }
        svg += fmt::format("<text class=\"label t{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", labels[i].color,
                           labels[i].x, labels[i].y, html_text(labels[i].text));
    }
    return svg;
}

std::string open_svg(std::string_view title, double width, double height) {
    return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", width, height, html_text(title));
}

}  // namespace

std::string html_text(std::string_view text) {
    std::string safe;
    for (const char letter : text) {
        switch (letter) {
            case '&':
                safe += "&amp;";
                break;
            case '<':
                safe += "&lt;";
                break;
            case '>':
                safe += "&gt;";
                break;
            case '"':
                safe += "&quot;";
                break;
            default:
                safe += letter;
        }
    }
    return safe;
}

std::string to_svg(const Chart& chart) {
    std::vector<double> xs;
    std::vector<double> ys;
    for (const ChartSeries& series : chart.series) {
        for (const auto& [x, y] : series.points) {
            xs.push_back(x);
            ys.push_back(y);
        }
    }
    if (xs.empty()) return {};
    const Scale x(chart.x, xs, kLeft, kWidth - kRight);
    const Scale y(chart.y, ys, kHeight - kBottom, kTop);
    std::string svg = open_svg(chart.title, kWidth, kHeight) + grid(chart, x, y);
    for (const ChartSeries& series : chart.series) svg += draw_series(series, x, y);
    return svg + draw_labels(chart, x, y) + "</svg>\n";
}

std::string stacked_bars(std::string_view title, const std::vector<Bar>& bars) {
    constexpr double kBarLeft = 210;
    constexpr double kBarRight = 90;
    constexpr double kBarHeight = 22;
    constexpr double kStep = 34;
    constexpr double kPercentWidth = 34;  // that a number in a part needs
    const double full = kWidth - kBarLeft - kBarRight;
    const double height = kStep * static_cast<double>(bars.size()) + 4;
    std::string svg = open_svg(title, kWidth, height);
    double y = 4;
    for (const Bar& bar : bars) {
        double total = 0;
        for (const BarPart& part : bar.parts) total += part.value;
        svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kBarLeft - 10, y + 15,
                           html_text(bar.label));
        double x = kBarLeft;
        for (const BarPart& part : bar.parts) {
            const double share = total > 0 ? part.value / total : 0;
            const double width = share * full;
            svg += fmt::format(
                "<rect class=\"c{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"><title>{}: {:.1f} %"
                "</title></rect>\n",
                part.color, x, y, width, kBarHeight, html_text(part.label), 100 * share);
            if (width > kPercentWidth) {
                svg +=
                    fmt::format("<text class=\"inside\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.0f} %</text>\n",
                                x + width / 2, y + 15, 100 * share);
            }
            x += width;
        }
        svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kBarLeft + full + 8, y + 15, html_text(bar.total));
        y += kStep;
    }
    return svg + "</svg>\n";
}

std::string sparkline(const std::vector<double>& values, std::string_view title) {
    constexpr double kSparkWidth = 120;
    constexpr double kSparkHeight = 22;
    if (values.empty()) return {};
    const double most = *std::max_element(values.begin(), values.end());
    const double step = values.size() > 1 ? (kSparkWidth - 4) / static_cast<double>(values.size() - 1) : 0;
    std::string points;
    for (size_t i = 0; i < values.size(); ++i) {
        points += fmt::format("{}{:.1f},{:.1f}", i > 0 ? " " : "", 2 + step * static_cast<double>(i),
                              kSparkHeight - 2 - values[i] / most * (kSparkHeight - 4));
    }
    return fmt::format(
        "<svg class=\"spark\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"><polyline class=\"line s0\" "
        "points=\"{}\"/></svg>",
        kSparkWidth, kSparkHeight, html_text(title), points);
}

}  // namespace tandem::measure
