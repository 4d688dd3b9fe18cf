#include "plan/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "plan/micro_batch.h"
#include "plan/pipeline.h"

namespace tandem::plan {

namespace {

constexpr const char* kByRate = "94 % of the line's rate, as TCP has it on 1 GbE";
constexpr const char* kHop = "TCP on Ethernet takes others 70 to 100 us; a rank that waits rests up to 200 us";

constexpr Link kLinks[] = {
    {.name = "1gbe",
     .title = "Ethernet, 1 Gbit/s",
     .mb_per_s = {118, Origin::published, "what TCP has of it"},
     .hop_us = {200, Origin::reckoned, kHop}},
    {.name = "2.5gbe",
     .title = "Ethernet, 2.5 Gbit/s",
     .mb_per_s = {295, Origin::reckoned, kByRate},
     .hop_us = {200, Origin::reckoned, kHop}},
    {.name = "10gbe",
     .title = "Ethernet, 10 Gbit/s",
     .mb_per_s = {1180, Origin::reckoned, kByRate},
     .hop_us = {180, Origin::reckoned, kHop}},
    {.name = "usb4",
     .title = "USB4 from machine to machine, thunderbolt-net",
     .mb_per_s = {1100, Origin::published, "about 9 Gbit/s, as others measured it"},
     .hop_us = {300, Origin::reckoned, "its interrupts are held back by 128 us; Thunderbolt takes others 300 us"}}};

// Positions that a step of a sequence draws before the engine looks again: a rank's Executable says 16.
constexpr int kRounds = 16;
// Rows of a prompt that the engine gives ranks at once, and of one micro-batch at least, as for GPUs.
constexpr int kLeastRows = 256;
constexpr int kStepRows = 8 * kLeastRows;

graph::StepShape drawing(int sequences, int context, DType kv_dtype) {
    graph::StepShape step{.extents = {.tokens = sequences, .outputs = sequences}, .kv_dtype = kv_dtype};
    step.sequences.assign(static_cast<size_t>(sequences), {.past = context, .rows = 1});
    return step;
}

graph::StepShape reading(int past, int rows, int outputs, DType kv_dtype) {
    graph::StepShape step{.extents = {.tokens = rows, .outputs = outputs}, .kv_dtype = kv_dtype};
    step.sequences.push_back({.past = past, .rows = rows});
    return step;
}

// In f16, with a power of two for each value of a row.
double handed_over_bytes(const graph::Program& taker) {
    double bytes = 0;
    for (const graph::Value& value : taker.values) {
        const bool given =
            value.name == graph::kTokens || value.name == graph::kPositions || value.name == graph::kOutputRows;
        if (value.kind != graph::Value::Kind::input || given) continue;
        bytes += static_cast<double>(value.type.cols() * sizeof(uint16_t) + sizeof(int32_t));
    }
    return bytes;
}

}  // namespace

std::span<const Link> known_links() {
    return kLinks;
}

Result<const Link*> find_link(std::string_view name) {
    const auto* const found = std::ranges::find(kLinks, name, &Link::name);
    if (found != std::end(kLinks)) return found;
    std::string names;
    for (const Link& link : kLinks) names += fmt::format("{}{}", names.empty() ? "" : ", ", link.name);
    return fail("--link {}: there is no such link; there are {}", name, names);
}

SplitDevice forecast_device(const Parts& parts, const Speeds& speeds, DType kv_dtype, int sequences) {
    constexpr int kPromptRows = 512;
    SplitDevice device;
    for (size_t i = 0; i < parts.programs.size(); ++i) {
        const graph::Program& part = parts.programs[i];
        const PartSeconds seconds{.decode = forecast_step(part, drawing(sequences, 0, kv_dtype), speeds).seconds,
                                  .prompt = forecast_step(part, reading(0, kPromptRows, 1, kv_dtype), speeds).seconds};
        if (i == 0) {
            device.first = seconds;
        } else if (i + 1 == parts.programs.size()) {
            device.last = seconds;
        } else {
            device.layers.push_back(seconds);
        }
    }
    return device;
}

double ClusterForecast::bubble() const {
    const double busy = std::accumulate(busy_s.begin(), busy_s.end(), 0.0);
    return 1 - busy / (static_cast<double>(busy_s.size()) * seconds);
}

Result<Cluster> Cluster::plan(const ClusterShape& shape) {
    const graph::Program drawn = graph::keep_results(shape.program, {"next"});
    const Parts parts = TRY(parts_of(drawn));
    SplitDevice machine =
        forecast_device(parts, shape.speeds, shape.cache.dtype, group_rows(shape.sequences, shape.machines));
    machine.name = "each machine";
    machine.memory_bytes = shape.memory_bytes;
    machine.work_bytes = shape.work_bytes;
    Cluster cluster;
    cluster.stages_ = TRY(split_layers(part_bytes(parts, shape.cache),
                                       std::vector<SplitDevice>(static_cast<size_t>(shape.machines), machine),
                                       {.micro_batches = shape.machines, .all_devices = true}));
    for (graph::Segment& segment : cut_at(drawn, parts, cluster.stages_)) {
        if (!cluster.programs_.empty()) cluster.row_bytes_.push_back(handed_over_bytes(segment.program));
        cluster.programs_.push_back(std::move(segment.program));
    }
    cluster.row_bytes_.push_back(sizeof(int32_t));  // what was drawn
    cluster.speeds_ = shape.speeds;
    cluster.link_ = shape.link;
    cluster.kv_dtype_ = shape.cache.dtype;
    return cluster;
}

// The wire behind each machine is a device of its own, that carries one message at a time.
ClusterForecast Cluster::run(const std::vector<Piece>& pieces, int rounds) const {
    const size_t machines = programs_.size();
    std::vector<int> places(machines > 1 ? 2 * machines : 1);
    std::iota(places.begin(), places.end(), 0);
    std::vector<std::vector<double>> seconds(pieces.size());  // of each piece at each place
    ClusterForecast forecast{.micro_batches = static_cast<int>(pieces.size()), .busy_s = {}};
    for (size_t p = 0; p < pieces.size(); ++p) {
        for (size_t machine = 0; machine < machines; ++machine) {
            seconds[p].push_back(forecast_step(programs_[machine], pieces[p].shape, speeds_).seconds);
            if (machines == 1) continue;
            const bool back = machine + 1 == machines;
            const auto rows =
                static_cast<double>(back ? pieces[p].shape.extents.outputs : pieces[p].shape.extents.tokens);
            seconds[p].push_back(link_.hop_us.value * 1e-6 + rows * row_bytes_[machine] / (link_.mb_per_s.value * 1e6));
        }
    }
    PipelineOrder order({.micro_batches = static_cast<int>(pieces.size()),
                         .device_of_segment = places,
                         .slots = static_cast<int>(pieces.size()),
                         .rounds = rounds});
    const PipelineTime time = simulate_pipeline(order, [&](Task task) {
        return seconds[static_cast<size_t>(task.micro_batch)][static_cast<size_t>(task.segment)];
    });
    forecast.seconds = time.seconds / rounds;
    for (size_t machine = 0; machine < machines; ++machine)
        forecast.busy_s.push_back(time.busy[machines > 1 ? 2 * machine : machine] / rounds);
    const double rows = std::accumulate(pieces.begin(), pieces.end(), 0.0,
                                        [](double sum, const Piece& piece) { return sum + piece.rows; });
    if (machines > 1) forecast.wire_bytes = rows * *std::ranges::max_element(row_bytes_);
    return forecast;
}

ClusterForecast Cluster::decode_in(int sequences, int context, int rows) const {
    std::vector<Piece> groups;
    for (int first = 0; first < sequences; first += rows) {
        const int now = std::min(rows, sequences - first);
        groups.push_back({.shape = drawing(now, context, kv_dtype_), .rows = now});
    }
    ClusterForecast forecast = run(groups, kRounds);
    forecast.tokens = sequences;
    return forecast;
}

ClusterForecast Cluster::decode(int sequences, int context) const {
    ClusterForecast together = decode_in(sequences, context, sequences);
    const int rows = group_rows(sequences, static_cast<int>(programs_.size()));
    if (rows == sequences) return together;
    ClusterForecast grouped = decode_in(sequences, context, rows);
    return grouped.seconds < together.seconds ? grouped : together;
}

ClusterForecast Cluster::prompt(int tokens) const {
    const auto machines = static_cast<int>(programs_.size());
    ClusterForecast whole{.busy_s = std::vector<double>(programs_.size())};
    for (int past = 0; past < tokens; past += kStepRows) {
        const int rows = std::min(kStepRows, tokens - past);
        const int each = machines == 1 ? rows : prompt_rows(rows, machines, kLeastRows);
        std::vector<Piece> pieces;
        for (int first = 0; first < rows; first += each) {
            const int now = std::min(each, rows - first);
            const int outputs = past + first + now == tokens ? 1 : 0;
            pieces.push_back({.shape = reading(past + first, now, outputs, kv_dtype_), .rows = now});
        }
        const ClusterForecast step = run(pieces, 1);
        whole.seconds += step.seconds;
        whole.wire_bytes += step.wire_bytes;
        whole.micro_batches = std::max(whole.micro_batches, step.micro_batches);
        for (size_t i = 0; i < step.busy_s.size(); ++i) whole.busy_s[i] += step.busy_s[i];
    }
    whole.tokens = tokens;
    return whole;
}

}  // namespace tandem::plan
