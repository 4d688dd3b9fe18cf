#include "ranks/wire.h"

#include <algorithm>
#include <cmath>

#include "base/float16.h"

namespace tandem::ranks {

std::string read_text(ByteReader& reader) {
    const auto count = reader.read<uint32_t>("a text's length");
    const auto bytes = reader.take(count, "a text");
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// ---- Lists

std::vector<int32_t>& KnownLists::next() {
    if (next_ == lists_.size()) lists_.emplace_back();
    return lists_[next_++];
}

void KnownLists::write(Writer& writer, std::span<const int32_t> list) {
    std::vector<int32_t>& known = next();
    const auto common =
        static_cast<size_t>(std::mismatch(known.begin(), known.end(), list.begin(), list.end()).first - known.begin());
    writer.put(static_cast<uint32_t>(common));
    writer.put_list(list.subspan(common));
    known.resize(common);
    known.insert(known.end(), list.begin() + static_cast<std::ptrdiff_t>(common), list.end());
}

std::span<const int32_t> KnownLists::read(ByteReader& reader) {
    std::vector<int32_t>& known = next();
    const size_t common = reader.read<uint32_t>("what a list begins with");
    if (common > known.size()) {
        reader.set_error(Error{"a list goes on from what was never sent"});
        return {};
    }
    const std::vector<int32_t> rest = read_list<int32_t>(reader);
    known.resize(common);
    known.insert(known.end(), rest.begin(), rest.end());
    return known;
}

// ---- Batches

void BatchWriter::write(Writer& writer, const device::Batch& batch, bool with_outputs) {
    lists_.begin();
    writer.put(batch.steps);
    writer.put(static_cast<uint32_t>(batch.sequences.size()));
    for (const device::SequenceRows& sequence : batch.sequences) {
        writer.put(sequence.rows);
        writer.put(sequence.past);
        for (const std::span<const int32_t> blocks : sequence.blocks) lists_.write(writer, blocks);
    }
    writer.put_list(with_outputs ? std::span(batch.output_rows) : std::span<const int32_t>());
    if (!with_outputs) return writer.put(uint32_t{0});
    writer.put(static_cast<uint32_t>(batch.sampling.size()));
    for (const device::SamplingRow& row : batch.sampling) {
        const device::SamplingParams& params = *row.params;
        for (const float value : {params.temperature, params.top_p, params.min_p, params.repetition_penalty,
                                  params.presence_penalty, params.frequency_penalty})
            writer.put(value);
        writer.put(static_cast<int32_t>(params.top_k));
        writer.put(params.seed);
        writer.put(static_cast<uint32_t>(params.logit_bias.size()));
        for (const auto& [token, bias] : params.logit_bias) {
            writer.put(token);
            writer.put(bias);
        }
        lists_.write(writer, row.history);
        writer.put(row.draw);
        writer.put(static_cast<uint32_t>(row.allowed.size()));
    }
}

Status BatchReader::read(ByteReader& reader) {
    lists_.begin();
    batch_ = {};
    batch_.steps = reader.read<int32_t>("steps");
    const auto sequences = reader.read<uint32_t>("sequences");
    for (uint32_t s = 0; s < sequences && reader.ok(); ++s) {
        device::SequenceRows rows;
        rows.first_row = static_cast<int32_t>(batch_.positions.size());
        rows.rows = reader.read<int32_t>("rows of a sequence");
        rows.past = reader.read<int32_t>("positions before");
        for (std::span<const int32_t>& blocks : rows.blocks) blocks = lists_.read(reader);
        if (!reader.ok()) break;
        for (int32_t r = 0; r < rows.rows; ++r) batch_.positions.push_back(rows.past + r);
        batch_.sequences.push_back(rows);
    }
    batch_.tokens.assign(batch_.positions.size(), 0);
    batch_.output_rows = read_list<int32_t>(reader);
    read_sampling(reader);
    return reader.status();
}

void BatchReader::read_sampling(ByteReader& reader) {
    params_.clear();
    masks_.clear();
    const auto rows = reader.read<uint32_t>("rows to draw");
    for (uint32_t i = 0; i < rows && reader.ok(); ++i) {
        device::SamplingParams& params = params_.emplace_back();
        for (float* value : {&params.temperature, &params.top_p, &params.min_p, &params.repetition_penalty,
                             &params.presence_penalty, &params.frequency_penalty})
            *value = reader.read<float>("sampling");
        params.top_k = reader.read<int32_t>("top_k");
        params.seed = reader.read<uint64_t>("a seed");
        const auto biases = reader.read<uint32_t>("biases");
        for (uint32_t b = 0; b < biases && reader.ok(); ++b) {
            const auto token = reader.read<int32_t>("a biased token");
            params.logit_bias.emplace_back(token, reader.read<float>("a bias"));
        }
        device::SamplingRow row{.params = &params, .history = lists_.read(reader)};
        row.draw = reader.read<uint64_t>("a draw");
        const auto words = reader.read<uint32_t>("a mask");
        if (words > reader.remaining() + (1U << 20)) return reader.set_error(Error{"a mask of too many words"});
        row.allowed = masks_.emplace_back(words);
        batch_.sampling.push_back(row);
    }
    for (size_t i = 0; i < batch_.sampling.size(); ++i) batch_.sampling[i].allowed = masks_[i];
}

bool BatchReader::wants_masks() const {
    return batch_.limits_draws();
}

Status BatchReader::set_masks(std::span<const std::byte> message) {
    ByteReader reader(message);
    for (std::vector<uint32_t>& mask : masks_) {
        const auto bytes = reader.take(mask.size() * sizeof(uint32_t), "masks");
        if (!bytes.empty()) std::memcpy(mask.data(), bytes.data(), bytes.size());
    }
    return reader.status();
}

void write_masks(Writer& writer, const device::Batch& batch) {
    for (const device::SamplingRow& row : batch.sampling) writer.put_bytes(std::as_bytes(row.allowed));
}

// ---- Rows

void write_rows(Writer& writer, std::span<const float> rows, int64_t cols, bool exact) {
    if (exact) return writer.put_bytes(std::as_bytes(rows));
    constexpr float kMost = 32768.0F;
    std::vector<uint16_t> halves(static_cast<size_t>(cols));
    for (size_t at = 0; at < rows.size(); at += static_cast<size_t>(cols)) {
        const auto row = rows.subspan(at, static_cast<size_t>(cols));
        float largest = 0;
        for (const float value : row) largest = std::max(largest, std::abs(value));
        int exponent = 0;
        if (largest > kMost && std::isfinite(largest)) exponent = std::ilogb(largest / kMost) + 1;
        const float factor = std::ldexp(1.0F, -exponent);
        std::transform(row.begin(), row.end(), halves.begin(), [&](float value) { return f32_to_f16(value * factor); });
        writer.put(static_cast<int32_t>(exponent));
        writer.put_bytes(std::as_bytes(std::span(halves)));
    }
}

void read_rows(ByteReader& reader, std::span<float> rows, int64_t cols, bool exact) {
    if (exact) {
        const auto bytes = reader.take(rows.size_bytes(), "rows");
        if (!bytes.empty()) std::memcpy(rows.data(), bytes.data(), bytes.size());
        return;
    }
    for (size_t at = 0; at < rows.size() && reader.ok(); at += static_cast<size_t>(cols)) {
        const float factor = std::ldexp(1.0F, reader.read<int32_t>("a row's power"));
        const auto bytes = reader.take(static_cast<uint64_t>(cols) * sizeof(uint16_t), "a row");
        for (size_t i = 0; i < bytes.size() / sizeof(uint16_t); ++i) {
            uint16_t half = 0;
            std::memcpy(&half, bytes.data() + i * sizeof(half), sizeof(half));
            rows[at + i] = f16_to_f32(half) * factor;
        }
    }
}

}  // namespace tandem::ranks
