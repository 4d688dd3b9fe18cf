// Reads little-endian fields from a span of bytes; the first failure sticks, with its offset and field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace tandem {

// After a failure every read gives zero or nothing, so a parser reads on and asks for status() where it matters.
class ByteReader {
  public:
    explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <typename T>
    requires std::is_arithmetic_v<T> T read(std::string_view field) {
        T value{};
        const auto raw = take(sizeof(T), field);
        if (raw.size() == sizeof(T)) std::memcpy(&value, raw.data(), sizeof(T));
        return value;
    }

    // The next `count` bytes, or nothing when fewer are left.
    std::span<const std::byte> take(uint64_t count, std::string_view field) {
        if (failed_) return {};
        if (count > remaining()) {
            set_ended(fail("{} needs {} bytes at offset {} but only {} are left", field, count, offset_, remaining()));
            return {};
        }
        const auto taken = bytes_.subspan(offset_, static_cast<size_t>(count));
        offset_ += static_cast<size_t>(count);
        return taken;
    }

    // Keeps the first error only.
    void set_error(Error error) {
        if (failed_) return;
        failed_ = true;
        error_ = std::move(error);
    }

    // The same for an error that more bytes would have prevented.
    void set_ended(Error error) {
        ended_ = ended_ || !failed_;
        set_error(std::move(error));
    }

    bool ok() const { return !failed_; }
    bool ended() const { return ended_; }  // it failed because the bytes came to their end
    Status status() const { return failed_ ? Status(error_) : Status(Ok{}); }
    size_t offset() const { return offset_; }
    size_t remaining() const { return bytes_.size() - offset_; }

  private:
    std::span<const std::byte> bytes_;
    size_t offset_ = 0;
    bool failed_ = false;
    bool ended_ = false;
    Error error_;
};

}  // namespace tandem
