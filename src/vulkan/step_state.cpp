#include "vulkan/step_state.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

namespace tandem::vulkan {

namespace {

// As in kernels/sample.comp.
struct GpuSampling {
    uint64_t seed;
    uint64_t draw;
    VkDeviceAddress allowed;  // 0: every token
    float temperature;
    uint32_t top_k;
    float top_p;
    float min_p;
    float repetition_penalty;
    float presence_penalty;
    float frequency_penalty;
    uint32_t first_adjustment;
    uint32_t adjustments;
    uint32_t unused;  // the array's stride is a multiple of 8
};
static_assert(sizeof(GpuSampling) == StepState::kSamplingBytes &&
              offsetof(GpuSampling, draw) == StepState::kDrawOffset);

struct GpuAdjustment {
    uint32_t token;
    float count;
    float bias;
    float saved;
};

// As in kernels/step.glsl.
struct GpuRowTile {
    uint32_t sequence;
    uint32_t first_row;
    uint32_t rows;
    uint32_t position;
};

// Tokens that penalties and biases may touch in one step, over all rows.
constexpr size_t kMaxAdjustments = size_t{1} << 18;

template <typename T>
void put(std::byte* to, const std::vector<T>& from) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
}

// Each token once, with how often it was seen and its bias.
std::map<int32_t, GpuAdjustment> adjustments_of(const device::SamplingRow& row) {
    std::map<int32_t, GpuAdjustment> by_token;
    if (row.params->penalizes()) {
        for (int32_t token : row.history) by_token[token].count += 1.0F;
    }
    for (const auto& [token, bias] : row.params->logit_bias) by_token[token].bias += bias;
    return by_token;
}

}  // namespace

Result<StepState::Part> StepState::part(uint64_t size_bytes) {
    const Buffer buffer = TRY(arena_.allocate(size_bytes));
    return Part{buffer.mapped, buffer.address};
}

Result<std::unique_ptr<StepState>> StepState::create(std::shared_ptr<Device> device, const StepLimits& limits) {
    std::unique_ptr<StepState> state(new StepState(std::move(device), limits));
    const auto tokens = static_cast<uint64_t>(limits.extents.tokens);
    const auto outputs = static_cast<uint64_t>(std::max<int64_t>(limits.extents.outputs, 1));
    state->header_ = TRY(state->part(5 * sizeof(uint32_t)));
    state->tokens_ = TRY(state->part(tokens * sizeof(int32_t)));
    state->positions_ = TRY(state->part(tokens * sizeof(int32_t)));
    state->sequence_of_row_ = TRY(state->part(tokens * sizeof(int32_t)));
    state->row_tiles_ = TRY(state->part(std::max(tokens / kMinTiledRows, uint64_t{1}) * sizeof(GpuRowTile)));
    state->single_rows_ = TRY(state->part(tokens * sizeof(uint32_t)));
    state->output_rows_ = TRY(state->part(outputs * sizeof(int32_t)));
    state->sampling_ = TRY(state->part(outputs * sizeof(GpuSampling)));
    state->adjustments_ = TRY(state->part(kMaxAdjustments * sizeof(GpuAdjustment)));
    Addresses& to = state->addresses_;
    for (int group = 0; group < limits.groups; ++group) {
        const auto g = static_cast<size_t>(group);
        state->blocks_[g] = TRY(state->part(tokens * static_cast<uint64_t>(limits.blocks) * sizeof(int32_t)));
        to.blocks[g] = state->blocks_[g].address;
    }
    to.header = state->header_.address;
    to.tokens = state->tokens_.address;
    to.positions = state->positions_.address;
    to.sequence_of_row = state->sequence_of_row_.address;
    to.row_tiles = state->row_tiles_.address;
    to.single_rows = state->single_rows_.address;
    to.output_rows = state->output_rows_.address;
    to.sampling = state->sampling_.address;
    to.adjustments = state->adjustments_.address;
    to.block_stride = static_cast<uint32_t>(limits.blocks);
    return state;
}

Status StepState::write(const device::Batch& batch, const graph::Extents& padded) {
    const auto [tiles, single_rows] = write_tiles(batch);
    const uint32_t header[] = {static_cast<uint32_t>(batch.tokens.size()),
                               static_cast<uint32_t>(batch.output_rows.size()), tiles, single_rows, 0};
    std::memcpy(header_.begin, header, sizeof(header));
    for (const Part& part : {tokens_, positions_, sequence_of_row_}) {
        std::memset(part.begin, 0, static_cast<size_t>(padded.tokens) * sizeof(int32_t));
    }
    std::memset(output_rows_.begin, 0, static_cast<size_t>(padded.outputs) * sizeof(int32_t));
    std::memset(sampling_.begin, 0, static_cast<size_t>(padded.outputs) * sizeof(GpuSampling));
    put(tokens_.begin, batch.tokens);
    put(positions_.begin, batch.positions);
    put(output_rows_.begin, batch.output_rows);
    auto* sequence_of_row = reinterpret_cast<int32_t*>(sequence_of_row_.begin);
    for (size_t s = 0; s < batch.sequences.size(); ++s) {
        const device::SequenceRows& sequence = batch.sequences[s];
        std::fill_n(sequence_of_row + sequence.first_row, sequence.rows, static_cast<int32_t>(s));
        for (int group = 0; group < limits_.groups; ++group) {
            const auto g = static_cast<size_t>(group);
            const auto table =
                sequence.blocks[g].first(std::min(sequence.blocks[g].size(), static_cast<size_t>(limits_.blocks)));
            std::memcpy(blocks_[g].begin + s * static_cast<size_t>(limits_.blocks) * sizeof(int32_t), table.data(),
                        table.size_bytes());
        }
    }
    TRY(write_sampling(batch));
    return place_allowed(batch);
}

// The tiles that see the most positions come first: those that start last should be short.
std::array<uint32_t, 2> StepState::write_tiles(const device::Batch& batch) const {
    std::vector<GpuRowTile> tiles;
    std::vector<uint32_t> single_rows;
    for (size_t s = 0; s < batch.sequences.size(); ++s) {
        const device::SequenceRows& sequence = batch.sequences[s];
        for (int row = 0; row < sequence.rows && sequence.rows < kMinTiledRows; ++row) {
            single_rows.push_back(static_cast<uint32_t>(sequence.first_row + row));
        }
        for (int row = 0; row < sequence.rows && sequence.rows >= kMinTiledRows; row += kTileRows) {
            tiles.push_back({.sequence = static_cast<uint32_t>(s),
                             .first_row = static_cast<uint32_t>(sequence.first_row + row),
                             .rows = static_cast<uint32_t>(std::min(sequence.rows - row, kTileRows)),
                             .position = static_cast<uint32_t>(sequence.past + row)});
        }
    }
    std::stable_sort(tiles.begin(), tiles.end(),
                     [](const GpuRowTile& a, const GpuRowTile& b) { return a.position > b.position; });
    put(row_tiles_.begin, tiles);
    put(single_rows_.begin, single_rows);
    return {static_cast<uint32_t>(tiles.size()), static_cast<uint32_t>(single_rows.size())};
}

Status StepState::write_sampling(const device::Batch& batch) const {
    auto* rows = reinterpret_cast<GpuSampling*>(sampling_.begin);
    auto* adjustments = reinterpret_cast<GpuAdjustment*>(adjustments_.begin);
    size_t used = 0;
    for (size_t i = 0; i < batch.sampling.size(); ++i) {
        const device::SamplingParams& params = *batch.sampling[i].params;
        const size_t first = used;
        for (const auto& [token, adjustment] : adjustments_of(batch.sampling[i])) {
            if (used == kMaxAdjustments)
                return fail("penalties and logit biases touch more than {} tokens in one step", kMaxAdjustments);
            adjustments[used++] = {static_cast<uint32_t>(token), adjustment.count, adjustment.bias, 0.0F};
        }
        rows[i] = {.seed = params.seed,
                   .draw = batch.sampling[i].draw,
                   .allowed = 0,
                   .temperature = params.temperature,
                   .top_k = static_cast<uint32_t>(std::max(params.top_k, 0)),
                   .top_p = params.top_p,
                   .min_p = params.min_p,
                   .repetition_penalty = params.repetition_penalty,
                   .presence_penalty = params.presence_penalty,
                   .frequency_penalty = params.frequency_penalty,
                   .first_adjustment = static_cast<uint32_t>(first),
                   .adjustments = static_cast<uint32_t>(used - first),
                   .unused = 0};
    }
    return Ok{};
}

Status StepState::place_allowed(const device::Batch& batch) {
    uint64_t bytes = 0;
    for (const device::SamplingRow& row : batch.sampling) bytes += row.allowed.size_bytes();
    if (bytes > allowed_bytes_) {
        const uint64_t wanted = std::bit_ceil(bytes);  // so that the parts given up are no more than the last
        allowed_ = TRY(part(wanted));
        allowed_bytes_ = wanted;
    }
    auto* rows = reinterpret_cast<GpuSampling*>(sampling_.begin);
    uint64_t at = 0;
    for (size_t i = 0; i < batch.sampling.size(); ++i) {
        const std::span<const uint32_t> allowed = batch.sampling[i].allowed;
        if (!allowed.empty()) rows[i].allowed = allowed_.address + at;
        at += allowed.size_bytes();
    }
    return Ok{};
}

void StepState::write_allowed(const device::Batch& batch) const {
    uint64_t at = 0;
    for (const device::SamplingRow& row : batch.sampling) {
        if (!row.allowed.empty()) std::memcpy(allowed_.begin + at, row.allowed.data(), row.allowed.size_bytes());
        at += row.allowed.size_bytes();
    }
}

}  // namespace tandem::vulkan
