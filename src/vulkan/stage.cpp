#include "vulkan/stage.h"

#include <algorithm>
#include <bit>

namespace tandem::vulkan {

namespace {

constexpr int64_t kRowStep = 64;

}  // namespace

int64_t bucket_rows(int64_t rows, int64_t limit) {
    if (rows == 0) return 0;
    const int64_t rounded = rows <= kRowStep ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)))
                                             : (rows + kRowStep - 1) / kRowStep * kRowStep;
    return std::min(rounded, limit);
}

std::vector<int64_t> all_bucket_rows(int64_t limit) {
    std::vector<int64_t> all;
    for (int64_t rows = 1; rows <= limit; rows = all.back() + 1) all.push_back(bucket_rows(rows, limit));
    return all;
}

bool StagedProgram::skips(const Stage& stage, const Bucket& bucket) const {
    if (stage.needless && stage.needless(bucket)) return true;
    const graph::Dim rows = values[static_cast<size_t>(stage.writes.front())].rows;
    return rows.kind == graph::Dim::Kind::outputs && bucket.extents.outputs == 0;
}

std::vector<NamedWeight> parts_of(const StageWeight& weight, const graph::Weights& weights) {
    std::vector<NamedWeight> parts;
    for (const std::string& part : weight.names) parts.push_back({part, weights.find(part)});
    return parts;
}

}  // namespace tandem::vulkan
