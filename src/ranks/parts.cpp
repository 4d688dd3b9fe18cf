#include "ranks/parts.h"

#include <algorithm>
#include <map>

#include "graph/ops.h"
#include "graph/segment.h"

namespace tandem::ranks {

namespace {

// How many values are made before each node and read by it or later.
std::vector<int> values_crossing(const graph::Program& program) {
    constexpr size_t kNever = SIZE_MAX;
    std::vector<size_t> made(program.values.size(), kNever);
    std::vector<size_t> read(program.values.size(), kNever);
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        made[static_cast<size_t>(program.nodes[n].output)] = n;
        for (const graph::ValueId input : program.nodes[n].inputs) read[static_cast<size_t>(input)] = n;
    }
    std::vector<int> change(program.nodes.size() + 1, 0);
    for (size_t id = 0; id < program.values.size(); ++id) {
        if (made[id] == kNever || read[id] == kNever) continue;
        ++change[made[id] + 1];
        --change[read[id] + 1];
    }
    for (size_t n = 1; n < change.size(); ++n) change[n] += change[n - 1];
    return change;
}

bool is_attention(const graph::Node& node) {
    return node.op.as<op::Attention>() != nullptr;
}

// The cache layers that are written before a node and read by it or later.
bool shares_cache(const graph::Program& program, size_t border) {
    std::vector<bool> written(program.caches.size(), false);
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        const graph::Node& node = program.nodes[n];
        if (const auto* write = node.op.as<op::KvWrite>(); write != nullptr && n < border)
            written[static_cast<size_t>(write->cache)] = true;
        const auto* attention = node.op.as<op::Attention>();
        if (attention != nullptr && n >= border && written[static_cast<size_t>(attention->cache)]) return true;
    }
    return false;
}

// Leaves only the cache layers that the nodes use, and numbers them anew; groups keep their numbers, as block tables
// are the same for all parts.
std::vector<int> keep_used_caches(graph::Program& program) {
    std::map<int, int> numbers;
    for (const graph::Node& node : program.nodes) {
        if (const auto* write = node.op.as<op::KvWrite>()) numbers[write->cache] = 0;
        if (const auto* attention = node.op.as<op::Attention>()) numbers[attention->cache] = 0;
    }
    std::vector<int> kept;
    std::vector<graph::CacheLayer> layers;
    for (auto& [cache, number] : numbers) {
        number = static_cast<int>(kept.size());
        kept.push_back(cache);
        layers.push_back(program.caches[static_cast<size_t>(cache)]);
    }
    program.caches = std::move(layers);
    for (graph::Node& node : program.nodes) {
        if (const auto* write = node.op.as<op::KvWrite>()) {
            op::KvWrite changed = *write;
            changed.cache = numbers[write->cache];
            node.op = changed;
        }
        if (const auto* attention = node.op.as<op::Attention>()) {
            op::Attention changed = *attention;
            changed.cache = numbers[attention->cache];
            node.op = changed;
        }
    }
    return kept;
}

// What a part is given by those before it, in the order of its inputs.
std::vector<std::string> taken(const graph::Program& program) {
    std::vector<std::string> names;
    for (const graph::Value& value : program.values) {
        if (value.kind == graph::Value::Kind::input && value.name != graph::kTokens &&
            value.name != graph::kPositions && value.name != graph::kOutputRows)
            names.push_back(value.name);
    }
    return names;
}

}  // namespace

// Between two attentions the last of the narrowest places: after the sum that ends a layer.
std::vector<size_t> layer_borders(const graph::Program& program) {
    const std::vector<int> crossing = values_crossing(program);
    std::vector<size_t> borders;
    size_t after = 0;  // the attention of the layer before
    size_t end = 0;
    for (size_t n = 0; n < program.nodes.size(); ++n) {
        if (program.nodes[n].op.as<op::Add>() != nullptr) end = n + 1;
        if (!is_attention(program.nodes[n])) continue;
        size_t narrowest = after + 1;
        for (size_t at = narrowest; at <= n; ++at) {
            if (crossing[at] <= crossing[narrowest]) narrowest = at;
        }
        borders.push_back(narrowest);
        after = n;
    }
    borders.push_back(std::max(end, after + 1));
    return borders;
}

Result<std::vector<Part>> cut_into_parts(const graph::Program& program, std::span<const int> cuts) {
    std::vector<std::string> wanted;
    for (const graph::NamedResult& result : program.results) wanted.push_back(result.name);
    const graph::Program kept = graph::keep_results(program, wanted);
    const std::vector<size_t> borders = layer_borders(kept);
    const int layers = static_cast<int>(borders.size()) - 1;
    std::vector<Part> parts(cuts.size() + 1);
    std::vector<int> part_of_node(kept.nodes.size(), static_cast<int>(cuts.size()));
    for (size_t p = cuts.size(); p-- > 0;) {
        const int cut = cuts[p];
        const int before = p > 0 ? cuts[p - 1] : 0;
        if (cut < before || cut > layers)
            return fail("a split before layer {}: layers are 0 to {}, and splits ascend", cut, layers - 1);
        const size_t border = borders[static_cast<size_t>(cut)];
        if (shares_cache(kept, border))
            return fail("a split before layer {}: layers before and after it share keys and values; choose another",
                        cut);
        std::fill_n(part_of_node.begin(), border, static_cast<int>(p));
    }
    for (size_t p = 0; p < parts.size(); ++p) {
        parts[p].first_layer = p > 0 ? cuts[p - 1] : 0;
        parts[p].end_layer = p < cuts.size() ? cuts[p] : layers;
    }
    for (graph::Segment& segment : graph::cut(kept, part_of_node)) {
        Part& part = parts[static_cast<size_t>(segment.device)];
        part.program = std::move(segment.program);
        part.caches = keep_used_caches(part.program);
        part.takes = taken(part.program);
    }
    return parts;
}

graph::Weights weights_of(const graph::Program& program, const graph::Weights& weights) {
    graph::Weights used;
    for (const graph::Value& value : program.values) {
        if (value.kind != graph::Value::Kind::weight) continue;
        if (const graph::WeightView* view = weights.find(value.name)) used.add(value.name, *view);
    }
    return used;
}

}  // namespace tandem::ranks
