#include "graph/segment.h"

#include <fmt/format.h>

#include <map>
#include <numeric>

#include "base/check.h"
#include "graph/ops.h"

namespace tandem::graph {

namespace {

constexpr size_t kNowhere = SIZE_MAX;

// The node that makes each value, and the last that reads it.
struct Spans {
    std::vector<size_t> made;
    std::vector<size_t> last_read;

    explicit Spans(const Program& program)
        : made(program.values.size(), kNowhere), last_read(program.values.size(), kNowhere) {
        for (size_t n = 0; n < program.nodes.size(); ++n) {
            const Node& node = program.nodes[n];
            made[static_cast<size_t>(node.output)] = n;
            for (ValueId input : node.inputs) last_read[static_cast<size_t>(input)] = n;
        }
    }
};

// Copies what the nodes [first, last) of a Program use.
class SegmentBuilder {
  public:
    SegmentBuilder(const Program& program, const Spans& spans, size_t first, size_t last)
        : program_(program), spans_(spans), first_(first), last_(last) {}

    Program build() {
        built_.caches = program_.caches;
        for (size_t n = first_; n < last_; ++n) {
            const Node& node = program_.nodes[n];
            Node copy{node.op, {}, 0};
            for (ValueId input : node.inputs) copy.inputs.push_back(value(input));
            copy.output = value(node.output);
            built_.nodes.push_back(std::move(copy));
        }
        for (size_t n = first_; n < last_; ++n) add_results(program_.nodes[n].output);
        return std::move(built_);
    }

  private:
    bool made_here(ValueId id) const {
        const size_t made = spans_.made[static_cast<size_t>(id)];
        return made != kNowhere && made >= first_ && made < last_;
    }

    ValueId value(ValueId id) {
        const auto known = ids_.find(id);
        if (known != ids_.end()) return known->second;
        Value copy = program_.value(id);
        if (copy.kind == Value::Kind::computed && !made_here(id)) {
            copy.kind = Value::Kind::input;
            copy.name = crossing_name(id);
        }
        built_.values.push_back(std::move(copy));
        return ids_[id] = static_cast<ValueId>(built_.values.size()) - 1;
    }

    void add_results(ValueId id) {
        const size_t read = spans_.last_read[static_cast<size_t>(id)];
        if (read != kNowhere && read >= last_) built_.results.push_back({crossing_name(id), ids_.at(id)});
        for (const NamedResult& result : program_.results) {
            if (result.value == id) built_.results.push_back({result.name, ids_.at(id)});
        }
    }

    const Program& program_;
    const Spans& spans_;
    size_t first_;
    size_t last_;
    Program built_;
    std::map<ValueId, ValueId> ids_;
};

}  // namespace

std::string crossing_name(ValueId id) {
    return fmt::format("%{}", id);
}

std::vector<Segment> cut(const Program& program, std::span<const int> device_of_node) {
    CHECK(device_of_node.size() == program.nodes.size(), "every node needs a device");
    const Spans spans(program);
    std::vector<Segment> segments;
    for (size_t first = 0; first < program.nodes.size();) {
        size_t last = first + 1;
        while (last < program.nodes.size() && device_of_node[last] == device_of_node[first]) ++last;
        segments.push_back({device_of_node[first], SegmentBuilder(program, spans, first, last).build()});
        first = last;
    }
    return segments;
}

std::vector<int> take_caches(Program& segment) {
    std::map<int, int> taken;  // by their numbers in the whole
    for (const Node& node : segment.nodes) {
        if (const auto* write = node.op.as<op::KvWrite>()) taken[write->cache] = 0;
        if (const auto* attention = node.op.as<op::Attention>()) taken[attention->cache] = 0;
    }
    std::vector<int> numbers;
    std::vector<CacheLayer> layers;
    for (auto& [whole, own] : taken) {
        own = static_cast<int>(numbers.size());
        numbers.push_back(whole);
        layers.push_back(segment.caches[static_cast<size_t>(whole)]);
    }
    const auto renumber = [&](auto op) {
        op.cache = taken.at(op.cache);
        return Op(std::move(op));
    };
    for (Node& node : segment.nodes) {
        if (const auto* write = node.op.as<op::KvWrite>())
            node.op = renumber(*write);
        else if (const auto* attention = node.op.as<op::Attention>())
            node.op = renumber(*attention);
    }
    segment.caches = std::move(layers);
    return numbers;
}

std::vector<int> crossing_counts(const Program& program) {
    const Spans spans(program);
    std::vector<int> counts(program.nodes.size() + 1, 0);  // first the differences to the node before
    for (size_t id = 0; id < program.values.size(); ++id) {
        if (spans.made[id] == kNowhere || spans.last_read[id] == kNowhere) continue;
        counts[spans.made[id] + 1] += 1;
        counts[spans.last_read[id] + 1] -= 1;
    }
    std::partial_sum(counts.begin(), counts.end(), counts.begin());
    counts.pop_back();
    return counts;
}

}  // namespace tandem::graph
