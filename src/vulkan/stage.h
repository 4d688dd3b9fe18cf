// Stages: a Program as the GPU runs it, fused ops over values that lie in one arena.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/program.h"
#include "vulkan/activations.h"
#include "vulkan/cache.h"
#include "vulkan/recorder.h"
#include "vulkan/step_state.h"
#include "vulkan/tuning.h"
#include "vulkan/weights.h"

namespace tandem::vulkan {

// Few rows: powers of two. Many: multiples of 64, so that a long prompt pays for little that is not there.
int64_t bucket_rows(int64_t rows, int64_t limit);
// All that bucket_rows() gives for 1 to `limit` rows.
std::vector<int64_t> all_bucket_rows(int64_t limit);

// The rows a command buffer is recorded for.
struct Bucket {
    graph::Extents extents;
    bool one_row_each = false;  // every sequence brings a single row

    // The tokens drawn are all that the next step needs.
    bool can_repeat() const { return one_row_each && extents.outputs == extents.tokens; }

    auto key() const { return std::tuple(extents.tokens, extents.outputs, one_row_each); }
};

using ValueIndex = int;
using WeightIndex = int;
inline constexpr int kNone = -1;

// Something that stages make and read.
struct StageValue {
    graph::Dim rows;
    uint32_t cols = 0;
    // Bytes that `rows` rows take. Not monotonic: few rows may be kept in several partial sums.
    std::function<uint64_t(uint32_t rows)> size_bytes;
    bool zeroed = false;  // begins as zeros and keeps its bytes from step to step
};

// Matrices of one type laid one after another, or a single vector.
struct StageWeight {
    std::vector<std::string> names;
    DType dtype = DType::f32;
    uint32_t rows = 0;
    uint32_t cols = 0;
    bool bounded = false;  // gate and up of a GLU, of which it is to be known how large the products get
};

// What recording a stage is given.
struct StageArgs {
    const Bucket& bucket;
    const StepState::Addresses& step;
    const DeviceCache* cache = nullptr;
    const Capabilities& capabilities;
    const Tuning& tuning;
    std::function<Access(ValueIndex)> value;  // with the bytes of this bucket
    std::function<DeviceWeight(WeightIndex)> weight;
    // Numbers that a stage itself carries, put on the device once.
    std::function<Result<VkDeviceAddress>(std::span<const std::byte>)> constant;
};

struct Stage {
    std::string name;  // for reports of where the time goes
    std::vector<ValueIndex> reads;
    std::vector<ValueIndex> writes;
    std::function<Status(Recorder&, const StageArgs&)> record;
    uint64_t weight_bytes = 0;                         // of the matrix that it reads
    std::function<bool(const Bucket&)> needless = {};  // where a later stage does its work; none: nowhere
};

struct StagedProgram {
    struct Input {
        std::string name;
        ValueIndex value;
    };
    std::vector<StageValue> values;
    std::vector<Input> inputs;  // of the Program, without those of every step
    std::vector<StageWeight> weights;
    std::vector<Stage> stages;
    std::vector<ValueIndex> results;  // of the Program, in its order

    // Nobody wants a row of what the stage makes, or another makes it.
    bool skips(const Stage& stage, const Bucket& bucket) const;
};

// Whether the dispatches of a step wait for each other by themselves (Recorder::begin_chain).
inline bool is_chained(const Tuning& tuning, const Bucket& bucket) {
    return bucket.one_row_each && bucket.extents.tokens <= tuning.chained_rows;
}

std::vector<NamedWeight> parts_of(const StageWeight& weight, const graph::Weights& weights);

}  // namespace tandem::vulkan
