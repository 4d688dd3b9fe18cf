#include "cli/plan_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/file.h"

namespace tandem::cli {

namespace {

constexpr int kWidth = 860;
constexpr int kHeight = 360;
constexpr int kTop = 60;
constexpr int kBottom = 300;
constexpr int kLeft = 20;
constexpr int kBar = 40;
constexpr int kGap = 30;

const char* color_of(plan::Policy policy) {
    switch (policy) {
        case plan::Policy::main_only:
            return "#64748b";
        case plan::Policy::npu_attention:
            return "#f59e0b";
        case plan::Policy::npu_prefill:
            return "#0d9488";
        case plan::Policy::npu_alone:
            return "#0369a1";
        case plan::Policy::automatic:
            return "#7c3aed";
    }
    return "";
}

std::string xml_text(std::string_view text) {
    std::string safe;
    for (const char letter : text) {
        if (letter == '&') {
            safe += "&amp;";
        } else if (letter == '<') {
            safe += "&lt;";
        } else {
            safe += letter;
        }
    }
    return safe;
}

std::string bar(int x, const PlanRow& row, double most) {
    const int height = static_cast<int>(row.tokens_per_s() / most * (kBottom - kTop));
    return fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n"
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{:.0f}</text>\n",
        x, kBottom - height, kBar - 4, height, color_of(row.policy), x + kBar / 2 - 2, kBottom - height - 5,
        row.tokens_per_s());
}

std::string legend() {
    std::string text;
    int x = kLeft;
    for (const plan::Policy policy :
         {plan::Policy::main_only, plan::Policy::npu_attention, plan::Policy::npu_prefill, plan::Policy::automatic}) {
        text += fmt::format(
            "<rect x=\"{}\" y=\"330\" width=\"12\" height=\"12\" fill=\"{}\"/><text x=\"{}\" y=\"341\">{}</text>\n", x,
            color_of(policy), x + 18, plan::name(policy));
        x += 160;
    }
    return text;
}

}  // namespace

std::string svg_begin(int width, int height, std::string_view title) {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"13\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"{}\" y=\"28\" font-size=\"17\">{}</text>\n",
        width, height, kLeft, xml_text(title));
}

Status write_plan_chart(const std::string& path, const std::string& title, const std::vector<PlanRow>& rows) {
    double most = 1;
    std::map<int, std::vector<PlanRow>> groups;
    for (const PlanRow& row : rows) {
        most = std::max(most, row.tokens_per_s());
        groups[row.prompt].push_back(row);
    }
    std::string svg = svg_begin(kWidth, kHeight, title + ": tokens of a prompt per second, predicted, not measured");
    int x = kLeft;
    for (const auto& [prompt, group] : groups) {
        const int begin = x;
        for (const PlanRow& row : group) {
            svg += bar(x, row, most);
            x += kBar;
        }
        svg += fmt::format("<text x=\"{}\" y=\"318\" text-anchor=\"middle\">prompt of {}</text>\n", (begin + x) / 2,
                           prompt);
        x += kGap;
    }
    svg += legend() + "</svg>\n";
    return write_file(path, svg);
}

}  // namespace tandem::cli
