#include "graph/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tandem::graph {

namespace {

std::string operand(const Program& program, ValueId id) {
    const Value& value = program.value(id);
    return value.kind == Value::Kind::computed ? fmt::format("%{}", id) : value.name;
}

}  // namespace

int Program::cache_groups() const {
    int groups = 0;
    for (const CacheLayer& layer : caches) groups = std::max(groups, layer.group + 1);
    return groups;
}

std::string to_string(const Program& program) {
    std::string text;
    for (const Node& node : program.nodes) {
        text += fmt::format("%{} = {}(", node.output, node.op.name());
        for (size_t i = 0; i < node.inputs.size(); ++i) {
            text += (i > 0 ? ", " : "") + operand(program, node.inputs[i]);
        }
        const std::string attributes = node.op.describe();
        text += fmt::format("){}{} : {}\n", attributes.empty() ? "" : " ", attributes,
                            to_string(program.value(node.output).type));
    }
    for (const NamedResult& result : program.results) text += fmt::format("{} = %{}\n", result.name, result.value);
    return text;
}

Program keep_results(const Program& program, const std::vector<std::string>& names) {
    Program kept = program;
    kept.results.clear();
    for (const std::string& name : names) {
        const auto found = std::find_if(program.results.begin(), program.results.end(),
                                        [&](const NamedResult& result) { return result.name == name; });
        CHECK(found != program.results.end(), "a result was asked for that the Program does not have");
        kept.results.push_back(*found);
    }

    std::vector<bool> needed(program.values.size(), false);
    for (const NamedResult& result : kept.results) needed[static_cast<size_t>(result.value)] = true;
    for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node) {
        if (!needed[static_cast<size_t>(node->output)]) continue;
        for (ValueId input : node->inputs) needed[static_cast<size_t>(input)] = true;
    }
    std::erase_if(kept.nodes, [&](const Node& node) { return !needed[static_cast<size_t>(node.output)]; });
    return kept;
}

}  // namespace tandem::graph
