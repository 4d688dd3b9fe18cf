#include "measure/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/statistics.h"
#include "base/units.h"
#include "measure/svg_chart.h"

namespace tandem::measure {

namespace {

constexpr const char* kStyle = R"(<style>
:root { color-scheme: light dark; --ground: #ffffff; --card: #f6f8fa; --ink: #1b1f24; --quiet: #57606a; --rule: #d0d7de;
  --k0: #2563b8; --k1: #c2410c; --k2: #15803d; --k3: #9333a8; --k4: #a16207; --k5: #0e7490; --k6: #b91c4b; --k7: #6b7280; --in: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #11151a; --card: #1a2027; --ink: #e6edf3; --quiet: #9aa4af; --rule: #333c47;
    --k0: #6ea8f5; --k1: #fb923c; --k2: #4ade80; --k3: #d68cf0; --k4: #eac54f; --k5: #4fd1e0; --k6: #fb7199; --k7: #9ca3af; --in: #11151a; } }
body { margin: 0 auto; padding: 24px; max-width: 980px; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 34px 0 4px; }
p { margin: 4px 0 10px; } .quiet { color: var(--quiet); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th, td { padding: 5px 8px; border-bottom: 1px solid var(--rule); text-align: right; white-space: nowrap; }
th { color: var(--quiet); font-weight: 600; font-size: 13px; } th:nth-child(2), td:nth-child(2) { text-align: left; }
.meter { display: inline-block; width: 90px; height: 10px; margin-right: 8px; background: var(--rule); border-radius: 3px; overflow: hidden; }
.meter i { display: block; height: 100%; background: var(--k0); }
svg { display: block; width: 100%; max-width: 900px; height: auto; } svg.spark { display: inline-block; width: 120px; height: 22px; }
svg text { font: 12.5px system-ui, sans-serif; fill: var(--ink); } svg text.axis { fill: var(--quiet); font-size: 13px; }
svg text.label { font-weight: 600; } svg text.inside { fill: var(--in); font-weight: 600; }
.grid { stroke: var(--rule); stroke-width: 1; } .line { fill: none; stroke-width: 2; } .spark .line { stroke-width: 1.2; }
.dashed { stroke-dasharray: 6 5; stroke-width: 1.5; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 6px 0 12px; padding: 0; list-style: none; font-size: 13.5px; }
.legend i { display: inline-block; width: 12px; height: 12px; margin-right: 6px; border-radius: 2px; vertical-align: -1px; }
)";

// The classes of the colours: of lines, of areas, of letters, of signs in a list.
std::string color_classes() {
    std::string css;
    for (int i = 0; i < kChartColors; ++i) {
        css += fmt::format(
            ".s{0} {{ stroke: var(--k{0}); }} .c{0} {{ fill: var(--k{0}); }} svg text.t{0} {{ fill: var(--k{0}); }} "
            ".legend .b{0} {{ background: var(--k{0}); }}\n",
            i);
    }
    return css + "</style>\n";
}

double share_of_limit(const SavedRun& run, const SavedRow& row) {
    const double limit = limit_tokens_per_s(run, row);
    return limit > 0 ? row.tokens_per_s / limit : 0;
}

std::string meter(double share) {
    if (share <= 0) return "<span class=\"quiet\">none</span>";
    return fmt::format("<span class=\"meter\"><i style=\"width:{:.0f}%\"></i></span>{:.0f} %",
                       100 * std::min(share, 1.0), 100 * share);
}

std::string heading(const SavedRun& run) {
    std::string text =
        fmt::format("<h1>{} on {}</h1>\n<p>{} ({}), {}</p>\n<p class=\"quiet\">The machine reads {:.1f} GB/s",
                    html_text(run.model), html_text(run.device), html_text(run.hardware), html_text(run.details),
                    html_text(run.program), run.read_bytes_per_s / 1e9);
    if (run.matrix_flops_per_s > 0)
        text += fmt::format(" and multiplies matrices at {:.1f} TFLOP/s", run.matrix_flops_per_s / 1e12);
    return text +
           ", measured in the same run. A limit is what no program could pass on it with these weights: the "
           "longer of reading all that is read once, and multiplying all that is multiplied.</p>\n";
}

std::string results_table(const SavedRun& run) {
    const bool has_energy =
        std::ranges::any_of(run.rows, [](const SavedRow& row) { return row.joules_per_token.has_value(); });
    std::string html =
        "<h2>Results</h2>\n<div class=\"wide\"><table><tr><th>#</th><th>work</th><th>tokens/s</th><th>ms</th><th>"
        "&plusmn; ms</th><th>share of the limit</th><th>GB/s</th><th>TFLOP/s</th>";
    html += has_energy ? "<th>J/token</th>" : "";
    html += "<th>each repetition</th></tr>\n";
    for (size_t i = 0; i < run.rows.size(); ++i) {
        const SavedRow& row = run.rows[i];
        const Summary times = summarize(row.samples_s);
        html += fmt::format(
            "<tr><td>{}</td><td>{}</td><td>{:.1f}</td><td>{:.3f}</td><td>{:.3f}</td><td>{}</td><td>{:.1f}</"
            "td><td>{:.2f}"
            "</td>{}<td>{}</td></tr>\n",
            i + 1, html_text(row.name()), row.tokens_per_s, row.seconds * 1e3, times.ci95 * 1e3,
            meter(share_of_limit(run, row)), row.bytes / row.seconds / 1e9, row.flops / row.seconds / 1e12,
            has_energy ? fmt::format("<td>{}</td>", row.joules_per_token ? format_rate(*row.joules_per_token) : "")
                       : "",
            sparkline(row.samples_s, fmt::format("{} repetitions, from 0", row.samples_s.size())));
    }
    html +=
        "</table></div>\n<p class=\"quiet\">Medians; &plusmn; is half the 95 % confidence interval of the mean without "
        "outliers.";
    if (std::ranges::any_of(run.rows, &SavedRow::fits_caches))
        html += " None: what is read fits the processor's caches, so that memory is no limit.";
    return html + "</p>\n";
}

// What memory allows from the smallest to the largest number of operations a byte, up to the matrix rate.
std::vector<std::pair<double, double>> roof(const SavedRun& run, double low, double high) {
    const double slope = run.read_bytes_per_s / 1e12;
    const double flat = run.matrix_flops_per_s / 1e12;
    if (flat <= 0) return {{low, low * slope}, {high, high * slope}};
    const double corner = flat / slope;
    if (corner >= high) return {{low, low * slope}, {high, high * slope}};
    if (corner <= low) return {{low, flat}, {high, flat}};
    return {{low, low * slope}, {corner, flat}, {high, flat}};
}

std::string roofline(const SavedRun& run) {
    Chart chart{.title = "Operations a second over operations for each byte read, below what the machine allows",
                .x = {.label = "operations for each byte that is read (FLOP/byte)", .is_log = true},
                .y = {.label = "TFLOP/s", .is_log = true},
                .series = {}};
    double low = 1e300;
    double high = 0;
    for (size_t i = 0; i < run.rows.size(); ++i) {
        const SavedRow& row = run.rows[i];
        if (row.bytes <= 0 || row.flops <= 0) continue;
        const double intensity = row.flops / row.bytes;
        low = std::min(low, intensity);
        high = std::max(high, intensity);
        chart.series.push_back({.label = std::to_string(i + 1),
                                .points = {{intensity, row.flops / row.seconds / 1e12}},
                                .color = row.is_prompt ? 1 : 0,
                                .dots_only = true});
    }
    if (chart.series.empty() || run.read_bytes_per_s <= 0) return {};
    chart.series.push_back({.label = "limit", .points = roof(run, low / 2, high * 2), .color = 7, .dashed = true});
    return "<h2>Roofline</h2>\n<p class=\"quiet\">Numbers are those of the table; blue decodes, orange reads prompts. "
           "The "
           "dashed line is the machine's limit: the rising part is memory, the level part the matrix units" +
           std::string(run.matrix_flops_per_s > 0 ? "" : " (not known here)") +
           ". What fits the caches may lie above it.</p>\n" + to_svg(chart);
}

// Those of rows that `wanted` takes, by length or by number of sequences.
struct Sweep {
    std::string x_label;
    std::function<bool(const SavedRow&)> wanted;
    std::function<int(const SavedRow&)> x;
    std::function<int(const SavedRow&)> group;
    std::function<std::string(int)> group_name;
};

Chart sweep_chart(const SavedRun& run, const Sweep& sweep) {
    Chart chart{.title = "Tokens a second over " + sweep.x_label,
                .x = {.label = sweep.x_label, .is_log = true},
                .y = {.label = "tokens/s"},
                .series = {}};
    std::map<int, std::vector<const SavedRow*>> groups;
    std::set<double> ticks;
    for (const SavedRow& row : run.rows) {
        if (!sweep.wanted(row)) continue;
        groups[sweep.group(row)].push_back(&row);
        ticks.insert(std::max(1, sweep.x(row)));
    }
    chart.x.ticks.assign(ticks.begin(), ticks.end());
    if (ticks.size() < 2) return {};
    int color = 0;
    for (auto& [group, rows] : groups) {
        std::ranges::sort(rows, {}, [&](const SavedRow* row) { return sweep.x(*row); });
        ChartSeries measured{.label = sweep.group_name(group), .points = {}, .color = color};
        ChartSeries limit{.label = "", .points = {}, .color = color, .dashed = true};
        for (const SavedRow* const row : rows) {
            const double x = std::max(1, sweep.x(*row));
            measured.points.emplace_back(x, row->tokens_per_s);
            if (const double most = limit_tokens_per_s(run, *row); most > 0) limit.points.emplace_back(x, most);
        }
        chart.series.push_back(std::move(measured));
        if (limit.points.size() > 1) chart.series.push_back(std::move(limit));
        color = (color + 1) % (kChartColors - 1);
    }
    return chart;
}

std::string sweep_section(const SavedRun& run, const char* title, const char* text, const Sweep& sweep) {
    const Chart chart = sweep_chart(run, sweep);
    if (chart.series.empty()) return {};
    return fmt::format("<h2>{}</h2>\n<p class=\"quiet\">{} Dashed: the limit of the line of that colour.</p>\n{}",
                       title, text, to_svg(chart));
}

std::string sweeps(const SavedRun& run) {
    const auto decodes = [](const SavedRow& row) { return !row.is_prompt; };
    const auto sequences = [](const SavedRow& row) { return row.sequences; };
    const auto length = [](const SavedRow& row) { return row.length; };
    const auto one = [](const SavedRow& /*row*/) { return 0; };
    std::string html = sweep_section(run, "Decode by batch", "Tokens a second of all sequences together.",
                                     {"sequences that decode together", decodes, sequences, length,
                                      [](int context) { return fmt::format("context {}", context); }});
    html += sweep_section(run, "Decode by context", "Tokens a second of all sequences together.",
                          {"positions that each sequence has behind it (tokens)", decodes, length, sequences,
                           [](int count) { return fmt::format("{} sequence{}", count, count == 1 ? "" : "s"); }});
    html += sweep_section(run, "Prompts by length", "Tokens a second that are read.",
                          {"length of the prompt (tokens)", [](const SavedRow& row) { return row.is_prompt; }, length,
                           one, [](int /*group*/) { return std::string("prompt"); }});
    return html;
}

// The operations that take most over all rows have a colour; the others share the last.
std::vector<std::string> named_stages(const SavedRun& run) {
    std::map<std::string, double> shares;
    for (const SavedRow& row : run.rows) {
        double total = 0;
        for (const SavedStage& stage : row.profile) total += stage.seconds;
        for (const SavedStage& stage : row.profile) shares[stage.name] += total > 0 ? stage.seconds / total : 0;
    }
    std::vector<std::string> names;
    for (const auto& [name, share] : shares) names.push_back(name);
    std::ranges::sort(names, [&](const std::string& a, const std::string& b) { return shares[a] > shares[b]; });
    if (names.size() >= kChartColors) names.resize(kChartColors - 1);
    return names;
}

Bar profile_bar(const SavedRow& row, const std::vector<std::string>& names) {
    Bar bar{.label = row.name(), .total = {}, .parts = {}};
    double total = 0;
    double others = 0;
    for (const SavedStage& stage : row.profile) {
        total += stage.seconds;
        if (std::ranges::find(names, stage.name) == names.end()) others += stage.seconds;
    }
    for (size_t i = 0; i < names.size(); ++i) {
        const auto found = std::ranges::find(row.profile, names[i], &SavedStage::name);
        if (found != row.profile.end()) bar.parts.push_back({names[i], found->seconds, static_cast<int>(i)});
    }
    if (others > 0) bar.parts.push_back({"others", others, kChartColors - 1});
    bar.total = fmt::format("{:.2f} ms", total * 1e3);
    return bar;
}

std::string time_by_op(const SavedRun& run) {
    const std::vector<std::string> names = named_stages(run);
    if (names.empty()) return {};
    std::vector<Bar> bars;
    bool has_others = false;
    for (const SavedRow& row : run.rows) {
        if (row.profile.empty()) continue;
        bars.push_back(profile_bar(row, names));
        has_others = has_others || bars.back().parts.back().color == kChartColors - 1;
    }
    std::string legend;
    for (size_t i = 0; i < names.size(); ++i)
        legend += fmt::format("<li><i class=\"b{}\"></i>{}</li>", i, html_text(names[i]));
    if (has_others) legend += fmt::format("<li><i class=\"b{}\"></i>others</li>", kChartColors - 1);
    return "<h2>Time by operation</h2>\n<p class=\"quiet\">Of one step, or of the last part of a prompt, with a clock "
           "read after "
           "each operation.</p>\n<ul class=\"legend\">" +
           legend + "</ul>\n" + stacked_bars("Share of the time of each operation", bars);
}

}  // namespace

double limit_tokens_per_s(const SavedRun& run, const SavedRow& row) {
    const double reading = run.read_bytes_per_s > 0 && !row.fits_caches ? row.bytes / run.read_bytes_per_s : 0;
    const double computing = run.matrix_flops_per_s > 0 ? row.flops / run.matrix_flops_per_s : 0;
    const double seconds = std::max(reading, computing);
    return seconds > 0 ? row.tokens_per_s * row.seconds / seconds : 0;
}

std::string html_report(const SavedRun& run) {
    return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
           "content=\"width=device-width, initial-scale=1\">\n<title>" +
           html_text(run.model) + " on " + html_text(run.hardware) + "</title>\n" + kStyle + color_classes() +
           "</head><body>\n" + heading(run) + results_table(run) + roofline(run) + sweeps(run) + time_by_op(run) +
           "</body></html>\n";
}

}  // namespace tandem::measure
