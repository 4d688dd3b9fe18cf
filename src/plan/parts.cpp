#include "plan/parts.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "device/host_memory.h"
#include "graph/ops.h"
#include "plan/placement.h"
#include "plan/work.h"

namespace tandem::plan {

namespace {

int cache_of(const graph::Node& node) {
    if (const auto* write = node.op.as<op::KvWrite>()) return write->cache;
    if (const auto* attention = node.op.as<op::Attention>()) return attention->cache;
    return -1;
}

// Per layer: whether it uses keys and values of a layer before it.
std::vector<bool> tied_layers(const graph::Program& program, const std::vector<int>& layer_of_node, int layers) {
    std::map<int, std::pair<int, int>> users;  // of each cache layer: the first and the last layer
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        const int cache = cache_of(program.nodes[n]);
        if (cache < 0) continue;
        const auto [found, is_new] = users.try_emplace(cache, layer_of_node[n], layer_of_node[n]);
        if (!is_new) found->second.second = layer_of_node[n];
    }
    std::vector<bool> tied(static_cast<size_t>(layers), false);
    for (const auto& [cache, range] : users) {
        for (int layer = range.first + 1; layer <= range.second; ++layer) tied[static_cast<size_t>(layer)] = true;
    }
    return tied;
}

std::set<std::string> weights_in(const graph::Program& program) {
    std::set<std::string> names;
    for (const graph::Value& value : program.values) {
        if (value.kind == graph::Value::Kind::weight) names.insert(value.name);
    }
    return names;
}

uint64_t weight_bytes(const graph::Program& program, const std::set<std::string>& names) {
    uint64_t bytes = 0;
    for (const graph::Value& value : program.values) {
        if (value.kind == graph::Value::Kind::weight && names.contains(value.name)) bytes += value.type.size_bytes({});
    }
    return bytes;
}

uint64_t cache_bytes(const graph::Program& program, const device::CacheShape& cache) {
    graph::Program own = program;
    device::CacheShape shape = cache;
    shape.layers.clear();
    for (const int number : graph::take_caches(own)) shape.layers.push_back(cache.layers[static_cast<size_t>(number)]);
    return shape.size_bytes();
}

// A sequence of `rows` rows after `past` positions, of which the last is an output.
device::Batch batch_of(int rows, int past, std::span<const int32_t> blocks, const device::SamplingParams& greedy) {
    device::Batch batch;
    batch.tokens.resize(static_cast<size_t>(rows));
    batch.positions.resize(static_cast<size_t>(rows));
    std::iota(batch.positions.begin(), batch.positions.end(), past);
    device::SequenceRows sequence{.first_row = 0, .rows = rows, .past = past, .blocks = {}};
    sequence.blocks.fill(blocks);
    batch.sequences.push_back(sequence);
    batch.output_rows = {rows - 1};
    batch.sampling = {{.params = &greedy, .history = {}}};
    return batch;
}

// The fastest of a few runs: what disturbs only makes them slower.
Result<double> seconds_of(device::Executable& executable, const device::Batch& batch) {
    constexpr int kWarmUp = 1;
    constexpr int kRuns = 3;
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kWarmUp + kRuns; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        TRY(device::run(executable, batch));
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        if (i >= kWarmUp) best = std::min(best, took.count());
    }
    return best;
}

// Memory for whatever comes into a part and goes out of it.
struct Ends {
    device::HostBuffer memory;
    std::vector<device::SharedValue> shared;
    std::vector<std::string> results;
};

Result<Ends> make_ends(const graph::Program& program, const graph::Extents& limits) {
    Ends ends;
    std::vector<std::pair<std::string, uint64_t>> sizes;
    const auto add = [&](const std::string& name, graph::ValueId id) {
        sizes.emplace_back(name, device::HostBuffer::whole_pages(program.value(id).type.size_bytes(limits)));
    };
    for (size_t id = 0; id < program.values.size(); ++id) {
        const graph::Value& value = program.values[id];
        const bool given =
            value.name == graph::kTokens || value.name == graph::kPositions || value.name == graph::kOutputRows;
        if (value.kind == graph::Value::Kind::input && !given) add(value.name, static_cast<graph::ValueId>(id));
    }
    for (const graph::NamedResult& result : program.results) {
        add(result.name, result.value);
        ends.results.push_back(result.name);
    }
    uint64_t total = 0;
    for (const auto& [name, bytes] : sizes) total += bytes;
    ends.memory = TRY(device::HostBuffer::allocate(total, "the measurement of a layer", "choose --split by hand"));
    std::fill(ends.memory.bytes().begin(), ends.memory.bytes().end(), std::byte{0});
    std::span<std::byte> rest = ends.memory.pages();
    for (const auto& [name, bytes] : sizes) {
        ends.shared.push_back({name, rest.first(bytes)});
        rest = rest.subspan(bytes);
    }
    return ends;
}

Result<PartSeconds> measure(const graph::Program& part, device::Backend& device, const graph::Weights& weights,
                            const device::CacheShape& cache, int rows) {
    graph::Program program = part;
    const int blocks = (rows + 1 + cache.block_tokens - 1) / cache.block_tokens;
    device::CacheShape shape = cache;
    shape.layers.clear();
    for (const int number : graph::take_caches(program))
        shape.layers.push_back(cache.layers[static_cast<size_t>(number)]);
    std::fill(shape.blocks.begin(), shape.blocks.end(), blocks);
    const graph::Extents limits{.tokens = rows, .outputs = 1};
    const Ends ends = TRY(make_ends(program, limits));
    const std::shared_ptr<device::KvCache> own = TRY(device.make_cache(shape));
    const std::unique_ptr<device::Executable> executable =
        TRY(device.compile(program, weights, own, {.limits = limits, .results = ends.results, .shared = ends.shared}));
    std::vector<int32_t> table(static_cast<size_t>(blocks));
    std::iota(table.begin(), table.end(), 0);
    const device::SamplingParams greedy;
    const double decode = TRY(seconds_of(*executable, batch_of(1, rows, table, greedy)));
    const double prompt = TRY(seconds_of(*executable, batch_of(rows, 0, table, greedy)));
    return PartSeconds{.decode = decode, .prompt = prompt};
}

double ratio(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

}  // namespace

Result<Parts> parts_of(const graph::Program& program) {
    const std::vector<size_t> starts = layer_starts(program);
    Parts parts;
    parts.layers = static_cast<int>(starts.size()) - 1;
    if (parts.layers < 1) return fail("a model without attention has no layers to split");
    std::vector<int> layer_of_node(program.nodes.size());  // -1: before the first
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        layer_of_node[n] = static_cast<int>(std::upper_bound(starts.begin(), starts.end(), n) - starts.begin()) - 1;
    }
    const std::vector<bool> tied = tied_layers(program, layer_of_node, parts.layers);
    for (int layer = 0; layer < parts.layers; ++layer) {
        if (!tied[static_cast<size_t>(layer)]) parts.units.push_back(layer);
    }
    for (const int layer : layer_of_node) {
        const auto unit = std::upper_bound(parts.units.begin(), parts.units.end(), layer) - parts.units.begin();
        parts.part_of_node.push_back(static_cast<int>(layer == parts.layers ? unit + 1 : unit));
    }
    parts.programs.resize(parts.units.size() + 2);
    for (graph::Segment& segment : graph::cut(program, parts.part_of_node))
        parts.programs[static_cast<size_t>(segment.device)] = std::move(segment.program);
    return parts;
}

PartBytes part_bytes(const Parts& parts, const device::CacheShape& cache) {
    PartBytes bytes;
    for (size_t i = 0; i < parts.programs.size(); ++i) {
        const graph::Program& program = parts.programs[i];
        const uint64_t needed = weight_bytes(program, weights_in(program)) + cache_bytes(program, cache);
        if (i == 0) {
            bytes.first = needed;
        } else if (i + 1 == parts.programs.size()) {
            bytes.last = needed;
        } else {
            bytes.layers.push_back(needed);
        }
    }
    const std::set<std::string> first = weights_in(parts.programs.front());
    std::set<std::string> both;
    for (const std::string& name : weights_in(parts.programs.back())) {
        if (first.contains(name)) both.insert(name);
    }
    bytes.shared = weight_bytes(parts.programs.front(), both);
    return bytes;
}

Result<std::vector<int>> units_at(const Parts& parts, const std::vector<int>& layer_cuts) {
    std::vector<int> cuts;
    for (const int layer : layer_cuts) {
        const auto unit = std::lower_bound(parts.units.begin(), parts.units.end(), layer);
        const bool is_end = layer == parts.layers;
        if (!is_end && (unit == parts.units.end() || *unit != layer)) {
            return fail(
                "--split: layer {} uses keys and values of a layer before it, so it stays with those from {} on", layer,
                *std::prev(unit));
        }
        cuts.push_back(static_cast<int>(unit - parts.units.begin()));
    }
    return cuts;
}

std::vector<graph::Segment> cut_at(const graph::Program& program, const Parts& parts,
                                   const std::vector<SplitStage>& stages) {
    std::vector<int> devices;
    devices.reserve(parts.part_of_node.size());
    for (const int part : parts.part_of_node) {
        const int unit = std::clamp(part - 1, 0, static_cast<int>(parts.units.size()) - 1);
        const auto stage =
            std::find_if(stages.begin(), stages.end(), [&](const SplitStage& each) { return unit < each.end_layer; });
        devices.push_back(stage->device);
    }
    return graph::cut(program, devices);
}

// A step of one row reads, and a prompt multiplies; the last part does both for the one row that is an output.
Result<PartTimes> measure_parts(const Parts& parts, device::Backend& device, const graph::Weights& weights,
                                const device::CacheShape& cache, int rows) {
    const device::SamplingParams greedy;
    const device::Batch one = batch_of(1, rows, {}, greedy);
    const device::Batch many = batch_of(rows, 0, {}, greedy);
    const size_t middle = 1 + parts.units.size() / 2;
    const PartSeconds took = TRY(measure(parts.programs[middle], device, weights, cache, rows));
    const double bytes = work_of(parts.programs[middle], one, cache.dtype).bytes;
    const double flops = work_of(parts.programs[middle], many, cache.dtype).flops;
    PartTimes times;
    for (size_t i = 1; i + 1 < parts.programs.size(); ++i) {
        times.units.push_back(
            {.decode = took.decode * ratio(work_of(parts.programs[i], one, cache.dtype).bytes, bytes),
             .prompt = took.prompt * ratio(work_of(parts.programs[i], many, cache.dtype).flops, flops)});
    }
    const double last = took.decode * ratio(work_of(parts.programs.back(), one, cache.dtype).bytes, bytes);
    times.last = {.decode = last, .prompt = last};
    return times;
}

}  // namespace tandem::plan
