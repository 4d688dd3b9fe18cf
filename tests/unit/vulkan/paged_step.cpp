#include "unit/vulkan/paged_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/float16.h"
#include "format/quant.h"

namespace tandem::vulkan {

std::vector<uint16_t> to_f16(const std::vector<float>& values) {
    std::vector<uint16_t> bits;
    bits.reserve(values.size());
    for (float value : values) bits.push_back(f32_to_f16(value));
    return bits;
}

std::vector<float> from_f16(const std::vector<uint16_t>& values) {
    std::vector<float> floats;
    floats.reserve(values.size());
    for (uint16_t bits : values) floats.push_back(f16_to_f32(bits));
    return floats;
}

PagedStep::PagedStep(PagedShape shape) : shape_(std::move(shape)) {
    int blocks = 1;  // one that nobody uses
    for (const PagedSequence& sequence : shape_.sequences) {
        const int count = (sequence.past + sequence.rows + shape_.block_tokens - 1) / shape_.block_tokens;
        tables_.emplace_back(static_cast<size_t>(count));
        blocks += count;
    }
    std::vector<int32_t> order(static_cast<size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    for (std::vector<int32_t>& table : tables_) {
        for (int32_t& block : table) {
            block = order.back();
            order.pop_back();
        }
    }
    cache_ = DeviceCache::create(
                 gpu().queue(),
                 {.layers = {{.kv_heads = shape_.kv_heads, .head_dim = shape_.head_dim, .window = 0, .group = 0}},
                  .dtype = shape_.cache,
                  .block_tokens = shape_.block_tokens,
                  .blocks = {blocks}})
                 .value();
    write_step();
}

void PagedStep::write_step() {
    device::Batch batch;
    for (size_t s = 0; s < tables_.size(); ++s) {
        const PagedSequence& sequence = shape_.sequences[s];
        device::SequenceRows rows{.first_row = static_cast<int32_t>(batch.tokens.size()),
                                  .rows = sequence.rows,
                                  .past = sequence.past,
                                  .blocks = {tables_[s]}};
        batch.sequences.push_back(rows);
        for (int r = 0; r < sequence.rows; ++r) {
            batch.tokens.push_back(0);
            batch.positions.push_back(sequence.past + r);
            sequence_of_row_.push_back(static_cast<int>(s));
        }
    }
    positions_.assign(batch.positions.begin(), batch.positions.end());
    const graph::Extents extents{.tokens = static_cast<int64_t>(bucket_rows()), .outputs = 1};
    state_ = StepState::create(gpu().device(), {.extents = extents, .groups = 1, .blocks = cache_->shape().blocks[0]})
                 .value();
    const Status written = state_->write(batch, extents);
    EXPECT_TRUE(written) << written.error().message;
}

size_t PagedStep::element(int sequence, int position, int kv_head) const {
    const int tokens = shape_.block_tokens;
    const int block = tables_[static_cast<size_t>(sequence)][static_cast<size_t>(position / tokens)];
    const int slot = (block * shape_.kv_heads + kv_head) * tokens + position % tokens;
    return static_cast<size_t>(slot) * static_cast<size_t>(shape_.head_dim);
}

std::vector<float> PagedStep::uniform(size_t count) {
    std::uniform_int_distribution<int> steps(-1024, 1023);
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(steps(random_)) / 1024.0F;
    return values;
}

void PagedStep::fill() {
    const DeviceCache::Layer& layer = cache_->layer(0);
    const int tokens = cache_->shape().blocks[0] * shape_.block_tokens;
    const auto count =
        static_cast<size_t>(tokens) * static_cast<size_t>(shape_.kv_heads) * static_cast<size_t>(shape_.head_dim);
    keys_.assign(count, std::numeric_limits<float>::quiet_NaN());
    values_ = keys_;
    const auto head_dim = static_cast<size_t>(shape_.head_dim);
    for (size_t s = 0; s < tables_.size(); ++s) {
        for (int position = 0; position < shape_.sequences[s].past + shape_.sequences[s].rows; ++position) {
            for (int head = 0; head < shape_.kv_heads; ++head) {
                const auto at = static_cast<std::ptrdiff_t>(element(static_cast<int>(s), position, head));
                const std::vector<float> key = uniform(head_dim), value = uniform(head_dim);
                std::copy(key.begin(), key.end(), keys_.begin() + at);
                std::copy(value.begin(), value.end(), values_.begin() + at);
            }
        }
    }
    const Buffer keys = gpu().upload(encode(keys_)), values = gpu().upload(encode(values_));
    gpu().run([&](Recorder& recorder) -> Status {
        recorder.copy(keys, layer.keys, keys.size_bytes);
        recorder.copy(values, layer.values, values.size_bytes);
        return Ok{};
    });
}

void PagedStep::download() {
    const DeviceCache::Layer& layer = cache_->layer(0);
    const Buffer keys = gpu().buffer(layer.keys.size_bytes), values = gpu().buffer(layer.values.size_bytes);
    gpu().run([&](Recorder& recorder) -> Status {
        recorder.copy(layer.keys, keys, keys.size_bytes);
        recorder.copy(layer.values, values, values.size_bytes);
        return Ok{};
    });
    keys_ = decode(gpu().read<std::byte>(keys));
    values_ = decode(gpu().read<std::byte>(values));
}

// The values become what the bytes hold.
std::vector<std::byte> PagedStep::encode(std::vector<float>& values) const {
    if (shape_.cache == DType::f16) {
        const std::vector<uint16_t> halves = to_f16(values);
        const auto bytes = std::as_bytes(std::span(halves));
        return {bytes.begin(), bytes.end()};
    }
    std::vector<std::byte> bytes(row_bytes(DType::q8_0, std::ssize(values)));
    const auto per_head = static_cast<size_t>(shape_.block_tokens) * static_cast<size_t>(shape_.head_dim);
    for (size_t at = 0; at < values.size(); at += 32) {
        format::BlockQ8_0 block;
        format::encode_row(DType::q8_0, &values[at], reinterpret_cast<std::byte*>(&block), 32);
        if (std::isnan(values[at])) block.d = 0x7e00;
        std::byte* head = bytes.data() + at / per_head * (per_head / 16 * 17);
        std::memcpy(head + at % per_head, block.qs, 32);
        std::memcpy(head + per_head + at % per_head / 16, &block.d, 2);
    }
    values = decode(bytes);
    return bytes;
}

std::vector<float> PagedStep::decode(const std::vector<std::byte>& bytes) const {
    if (shape_.cache == DType::f16) {
        std::vector<uint16_t> halves(bytes.size() / sizeof(uint16_t));
        std::memcpy(halves.data(), bytes.data(), bytes.size());
        return from_f16(halves);
    }
    std::vector<float> values(bytes.size() / 34 * 32);
    const auto per_head = static_cast<size_t>(shape_.block_tokens) * static_cast<size_t>(shape_.head_dim);
    for (size_t at = 0; at < values.size(); at += 32) {
        format::BlockQ8_0 block;
        const std::byte* head = bytes.data() + at / per_head * (per_head / 16 * 17);
        std::memcpy(block.qs, head + at % per_head, 32);
        std::memcpy(&block.d, head + per_head + at % per_head / 16, 2);
        format::decode_row(DType::q8_0, reinterpret_cast<const std::byte*>(&block), &values[at], 32);
    }
    return values;
}

}  // namespace tandem::vulkan
