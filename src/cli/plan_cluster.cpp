#include "cli/plan_cluster.h"

#include <algorithm>

#include "base/file.h"
#include "cli/plan_chart.h"
#include "cli/text_output.h"
#include "plan/micro_batch.h"

namespace tandem::cli {

namespace {

// Each number of machines by itself: those that do not hold the model are left out.
Result<ClusterLine> line_of(const graph::Program& program, const ClusterQuestion& question, const plan::Link& link,
                            int sequences) {
    engine::MemoryShape shape = question.shape;
    shape.sequences = std::max(1, sequences);
    shape.rows = std::max(plan::kMicroRows, shape.sequences);
    shape.context = std::max(shape.context, sequences == 0 ? question.prompt : 0);
    const uint64_t work_bytes = engine::memory_need(program, shape).work_bytes;
    const device::CacheShape cache = engine::cache_need(program, shape);
    // A server reads prompts with the split that it has for answers.
    const int balanced_for = sequences > 0 ? sequences : *std::ranges::max_element(question.batches);
    ClusterLine line{.link = std::string(link.name), .sequences = sequences, .points = {}};
    for (int machines = 1; machines <= question.most_machines; ++machines) {
        const Result<plan::Cluster> cluster = plan::Cluster::plan({.program = program,
                                                                   .machines = machines,
                                                                   .speeds = question.speeds,
                                                                   .memory_bytes = question.room_bytes,
                                                                   .work_bytes = work_bytes,
                                                                   .cache = cache,
                                                                   .sequences = balanced_for,
                                                                   .link = link});
        if (!cluster) continue;
        ClusterPoint point{.machines = machines, .forecast = {}};
        for (const plan::SplitStage& stage : cluster->stages()) {
            point.most_layers = std::max(point.most_layers, stage.end_layer - stage.first_layer);
            point.most_bytes = std::max(point.most_bytes, stage.bytes);
        }
        point.forecast =
            sequences > 0 ? cluster->decode(sequences, question.shape.context) : cluster->prompt(question.prompt);
        line.points.push_back(std::move(point));
    }
    return line;
}

void judge(ClusterLine& line) {
    for (ClusterPoint& point : line.points) {
        const ClusterPoint& fewest = line.points.front();
        const double of_one = fewest.forecast.tokens_per_s() / fewest.machines;
        point.efficiency = point.forecast.tokens_per_s() / (of_one * point.machines);
        if (&point == &fewest) continue;
        const ClusterPoint& before = *(&point - 1);
        const double gain = point.forecast.tokens_per_s() - before.forecast.tokens_per_s();
        point.pays = before.pays && gain >= 0.5 * of_one * (point.machines - before.machines);
    }
}

std::string work_of(const ClusterQuestion& question, const ClusterLine& line) {
    if (line.sequences == 0) return fmt::format("prompt of {}", question.prompt);
    return fmt::format("{} sequence{}", line.sequences, line.sequences == 1 ? "" : "s");
}

std::string link_table(const ClusterQuestion& question, const std::vector<ClusterLine>& lines,
                       const std::string& link) {
    Table table({"WORK", "MACHINES", "LAYERS", "MEMORY OF ONE", "GROUPS", "TOKENS/S", "EACH", "BUBBLE", "ON THE WIRE",
                 "EFFICIENCY", "PAYS"},
                {1, 2, 3, 4, 5, 6, 7, 8, 9});
    for (const ClusterLine& line : lines) {
        if (line.link != link) continue;
        for (const ClusterPoint& point : line.points) {
            const plan::ClusterForecast& forecast = point.forecast;
            const double wire = forecast.wire_bytes / forecast.tokens;
            table.add({work_of(question, line), std::to_string(point.machines), std::to_string(point.most_layers),
                       format_bytes(point.most_bytes), std::to_string(forecast.micro_batches),
                       format_rate(forecast.tokens_per_s()),
                       line.sequences > 1 ? format_rate(forecast.tokens_per_s() / line.sequences) : "",
                       fmt::format("{:.0f} %", 100 * forecast.bubble()),
                       point.machines == 1 ? "-" : format_bytes(static_cast<uint64_t>(wire)),
                       fmt::format("{:.0f} %", 100 * point.efficiency), point.pays ? "yes" : "no"});
        }
        if (line.points.empty())
            table.add({work_of(question, line), fmt::format("{} hold it not", question.most_machines), "", "", "", "",
                       "", "", "", "", ""});
    }
    return table.to_string();
}

// ---- The picture

constexpr int kChartWidth = 300;
constexpr int kChartTop = 60;
constexpr int kChartBottom = 280;
constexpr int kChartLeft = 50;
constexpr const char* kLineColors[] = {"#64748b", "#0d9488", "#7c3aed", "#f59e0b", "#0369a1"};

struct Axes {
    int left = 0;
    int machines = 1;
    double most = 1;

    double x(int number) const {
        return left + (machines > 1 ? (number - 1.0) * (kChartWidth - kChartLeft - 30) / (machines - 1) : 0.0);
    }
    double y(double rate) const { return kChartBottom - rate / most * (kChartBottom - kChartTop); }
};

std::string curve(const Axes& axes, const ClusterLine& line, const char* color) {
    std::string text = fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"", color);
    std::string marks;
    for (const ClusterPoint& point : line.points) {
        const double rate = point.forecast.tokens_per_s();
        text += fmt::format("{:.1f},{:.1f} ", axes.x(point.machines), axes.y(rate));
        marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\" stroke=\"{}\"/>\n",
                             axes.x(point.machines), axes.y(rate), point.pays ? color : "white", color);
    }
    if (line.points.empty()) return {};
    const ClusterPoint& last = line.points.back();
    return text + "\"/>\n" + marks +
           fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{} at once: {}</text>\n",
                       axes.x(last.machines), axes.y(last.forecast.tokens_per_s()) - 8, line.sequences,
                       format_rate(last.forecast.tokens_per_s()));
}

std::string frame(const Axes& axes, const std::string& link) {
    std::string text = fmt::format(
        "<text x=\"{}\" y=\"52\" font-weight=\"bold\">{}</text>\n"
        "<line x1=\"{}\" y1=\"{}\" x2=\"{:.1f}\" y2=\"{}\" stroke=\"#94a3b8\"/>\n",
        axes.left, link, axes.left - 10, kChartBottom, axes.x(axes.machines) + 10, kChartBottom);
    for (int number = 1; number <= axes.machines; ++number) {
        if (axes.machines > 8 && number % 2 == 0) continue;
        text += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", axes.x(number),
                            kChartBottom + 18, number);
    }
    return text;
}

}  // namespace

int ClusterLine::pays_up_to() const {
    int machines = 0;
    for (const ClusterPoint& point : points) {
        if (point.pays) machines = point.machines;
    }
    return machines;
}

Result<std::vector<ClusterLine>> plan_clusters(const graph::Program& program, const ClusterQuestion& question) {
    std::vector<ClusterLine> lines;
    for (const std::string& name : question.links) {
        const plan::Link& link = *TRY(plan::find_link(name));
        std::vector<int> works = question.batches;
        works.push_back(0);
        for (const int sequences : works) {
            lines.push_back(TRY(line_of(program, question, link, sequences)));
            judge(lines.back());
        }
    }
    return lines;
}

std::string to_text(const ClusterQuestion& question, const std::vector<ClusterLine>& lines) {
    std::string text;
    for (const std::string& name : question.links) {
        const plan::Link& link = **plan::find_link(name);
        text += fmt::format("Up to {} such machines over {} ({} MB/s, a hop of {} us; neither was measured here):\n",
                            question.most_machines, link.title, link.mb_per_s.value, link.hop_us.value) +
                link_table(question, lines, name) + "\n";
    }
    return text +
           "Each machine has some of the layers, and all sequences pass through all (serve --hosts). ON THE WIRE: for "
           "a "
           "token,\nover the link that carries most. EFFICIENCY: against the fewest machines that hold it, machine by "
           "machine. PAYS: the\nlast machine adds at least half of what one of the fewest brings. A model that fits "
           "one "
           "machine is served better by\ncopies (docs/scale.md): they have 100 %.\n";
}

Status write_cluster_chart(const std::string& path, const std::string& title, const std::vector<ClusterLine>& lines) {
    std::vector<std::string> links;
    Axes axes;
    for (const ClusterLine& line : lines) {
        if (std::ranges::find(links, line.link) == links.end()) links.push_back(line.link);
        for (const ClusterPoint& point : line.points) {
            axes.machines = std::max(axes.machines, point.machines);
            if (line.sequences > 0) axes.most = std::max(axes.most, point.forecast.tokens_per_s());
        }
    }
    const int width = static_cast<int>(links.size()) * kChartWidth + 20;
    std::string svg = svg_begin(width, kChartBottom + 60, title + ": tokens/s by machines, predicted, not measured");
    for (size_t i = 0; i < links.size(); ++i) {
        axes.left = static_cast<int>(i) * kChartWidth + kChartLeft;
        svg += frame(axes, links[i]);
        size_t color = 0;
        for (const ClusterLine& line : lines) {
            if (line.link == links[i] && line.sequences > 0)
                svg += curve(axes, line, kLineColors[color++ % std::size(kLineColors)]);
        }
    }
    svg += fmt::format("<text x=\"20\" y=\"{}\">machines; a hollow mark: the last one does not pay</text>\n</svg>\n",
                       kChartBottom + 45);
    return write_file(path, svg);
}

}  // namespace tandem::cli
