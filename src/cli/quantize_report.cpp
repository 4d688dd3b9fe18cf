#include "cli/quantize_report.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "cli/text_output.h"

namespace tandem::cli {

namespace {

// "1 matrix", "3 matrices".
std::string matrices(size_t count) {
    return fmt::format("{} {}", count, count == 1 ? "matrix" : "matrices");
}

struct Totals {
    uint64_t tensors = 0;
    uint64_t elements = 0;
    uint64_t size_bytes = 0;

    void add(const models::PlannedTensor& tensor) {
        ++tensors;
        elements += tensor.elements;
        size_bytes += tensor.size_bytes;
    }
    std::vector<std::string> row(std::string_view label) const {
        return {std::string(label), fmt::format("{}", tensors), format_count(elements), format_bytes(size_bytes)};
    }
};

}  // namespace

std::string plan_tables(const models::ExportPlan& plan) {
    Table tensors({"TENSOR", "SHAPE", "NOW", "TYPE", "SIZE"}, {4});
    std::map<DType, Totals> by_type;
    Totals all;
    for (const models::PlannedTensor& tensor : plan.tensors) {
        tensors.add({escape_short(tensor.name, 80), fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
                     std::string(name(tensor.from)), std::string(name(tensor.type.stored)),
                     format_bytes(tensor.size_bytes)});
        by_type[tensor.type.stored].add(tensor);
        all.add(tensor);
    }
    Table types({"TYPE", "TENSORS", "PARAMETERS", "SIZE"}, {1, 2, 3});
    for (const auto& [type, totals] : by_type) types.add(totals.row(name(type)));
    types.add(all.row("all"));
    return fmt::format("{}\n{}\n{:.2f} bits per weight\n", tensors.to_string(), types.to_string(),
                       plan.bits_per_weight());
}

std::string unsuited_notice(const models::ExportPlan& plan) {
    struct Group {
        size_t count = 0;
        std::set<int64_t> cols;
    };
    std::map<std::pair<DType, DType>, Group> groups;  // by what was wanted and what they get
    for (const models::PlannedTensor& tensor : plan.tensors) {
        if (tensor.type.wanted == tensor.type.stored) continue;
        Group& group = groups[{tensor.type.wanted, tensor.type.stored}];
        ++group.count;
        group.cols.insert(tensor.shape.back());
    }
    std::string parts;
    for (const auto& [types, group] : groups) {
        parts += fmt::format("{}{} of {} columns as {} (no multiple of {}, a block of {})", parts.empty() ? "" : ", ",
                             matrices(group.count), fmt::join(group.cols, " or "), name(types.second),
                             info(types.first).block, name(types.first));
    }
    if (parts.empty()) return parts;
    return fmt::format("[another type where rows are no whole blocks: {}; {:.2f} bits per weight in all]", parts,
                       plan.bits_per_weight());
}

std::string importance_notice(const models::ExportPlan& plan, bool has_imatrix) {
    constexpr double kFewBits = 3.1;
    size_t few = 0;
    size_t unmeasured = 0;
    std::string_view first;
    for (const models::PlannedTensor& tensor : plan.tensors) {
        const DType type = tensor.type.stored;
        if (!is_quantized(type) || type == tensor.from || tensor.has_importance) continue;
        const bool ternary = type == DType::tq1_0 || type == DType::tq2_0;  // nothing is lost that training knew
        if (info(type).bits_per_element() < kFewBits && !ternary) ++few;
        if (unmeasured++ == 0) first = tensor.name;
    }
    if (!has_imatrix) {
        if (few == 0) return {};
        return fmt::format(
            "[{} of about 3 bits or fewer, which are meant for use with an importance matrix: see `tandem eval "
            "--imatrix`]",
            matrices(few));
    }
    if (unmeasured == 0) return {};
    return fmt::format("[the importance matrix has nothing on {}{}: all columns matter alike there]",
                       unmeasured == 1 ? "" : matrices(unmeasured) + ", such as ", escape_short(first, 80));
}

}  // namespace tandem::cli
