// Wire: how a rank writes what it sends: numbers, texts, batches without what the other knows, rows in f16.
#pragma once

#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_reader.h"
#include "device/batch.h"

namespace tandem::ranks {

class Writer {
  public:
    template <typename T>
    requires std::is_arithmetic_v<T>
    void put(T value) { put_bytes(std::as_bytes(std::span(&value, 1))); }
    void put_bytes(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    void put_text(std::string_view text) {
        put(static_cast<uint32_t>(text.size()));
        put_bytes(std::as_bytes(std::span(text)));
    }
    template <typename T>
    void put_list(std::span<const T> list) {
        put(static_cast<uint32_t>(list.size()));
        put_bytes(std::as_bytes(list));
    }

    std::span<const std::byte> bytes() const { return bytes_; }

  private:
    std::vector<std::byte> bytes_;
};

std::string read_text(ByteReader& reader);

template <typename T>
std::vector<T> read_list(ByteReader& reader) {
    const auto count = reader.read<uint32_t>("a count");
    const auto bytes = reader.take(uint64_t{count} * sizeof(T), "a list");
    std::vector<T> list(bytes.size() / sizeof(T));
    if (!list.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
    return list;
}

// Lists that mostly go on as they were in the message before: block tables, tokens that penalties count.
class KnownLists {
  public:
    void begin() { next_ = 0; }
    void write(Writer& writer, std::span<const int32_t> list);
    // Valid until the next message.
    std::span<const int32_t> read(ByteReader& reader);

  private:
    std::vector<int32_t>& next();

    std::deque<std::vector<int32_t>> lists_;  // in the order of a message
    size_t next_ = 0;
};

// A step's rows, and for the last rank what is drawn. Tokens are for the first rank alone, which reads no message.
class BatchWriter {
  public:
    void write(Writer& writer, const device::Batch& batch, bool with_outputs);

  private:
    KnownLists lists_;
};

class BatchReader {
  public:
    // The batch points into this, until the next read.
    Status read(ByteReader& reader);
    device::Batch& batch() { return batch_; }

    // The masks that the writer's batch has, which come when they are known.
    bool wants_masks() const;
    Status set_masks(std::span<const std::byte> message);

  private:
    void read_sampling(ByteReader& reader);

    KnownLists lists_;
    device::Batch batch_;
    std::deque<device::SamplingParams> params_;
    std::vector<std::vector<uint32_t>> masks_;  // of each row; empty: none
};

void write_masks(Writer& writer, const device::Batch& batch);

// Rows of f32, as they are or in f16 times a power of two for each row, by which no row is too large for f16.
void write_rows(Writer& writer, std::span<const float> rows, int64_t cols, bool exact);
void read_rows(ByteReader& reader, std::span<float> rows, int64_t cols, bool exact);

}  // namespace tandem::ranks
