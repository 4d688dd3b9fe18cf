// The metadata values of a GGUF file: typed views over its bytes, decoded when they are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include "base/byte_reader.h"

namespace tandem::format {

// The numbers are those of the file.
enum class GgufType : uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    string = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
};
inline constexpr uint32_t kGgufTypes = 13;

std::string_view name(GgufType type);

// Bytes of one value of a fixed size; 0 for strings and arrays.
size_t scalar_bytes(GgufType type);

struct GgufArray;

// One value. Those of a GgufFile have been checked: strings and arrays are whole, types are known.
struct GgufValue {
    GgufType type = GgufType::u8;
    std::span<const std::byte> bytes;  // a scalar, the characters of a string, or an array from its element type on

    std::optional<int64_t> as_int() const;              // any integer type, when it fits
    std::optional<double> as_float() const;             // any number
    std::optional<bool> as_bool() const;                // boolean only
    std::optional<std::string_view> as_string() const;  // any bytes: UTF-8 is not promised
    std::optional<GgufArray> as_array() const;
};

// for (GgufValue v : array) ...
struct GgufArray {
    GgufType type = GgufType::u8;
    uint64_t count = 0;
    std::span<const std::byte> bytes;  // the elements, as in the file

    class Iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = GgufValue;
        using difference_type = std::ptrdiff_t;
        using pointer = const GgufValue*;
        using reference = const GgufValue&;

        Iterator(GgufType type, uint64_t left, std::span<const std::byte> bytes);
        const GgufValue& operator*() const { return value_; }
        const GgufValue* operator->() const { return &value_; }
        Iterator& operator++();
        bool operator==(const Iterator& other) const { return left_ == other.left_; }

      private:
        void decode();

        GgufType type_;
        uint64_t left_;
        ByteReader reader_;
        GgufValue value_;
    };

    Iterator begin() const { return {type, count, bytes}; }
    Iterator end() const { return {type, 0, {}}; }
};

// The value of `type` that starts at the reader's position; the reader keeps the error when there is none. `field`
// names it in the error.
GgufValue read_gguf_value(ByteReader& reader, GgufType type, std::string_view field);

inline constexpr size_t kMaxGgufKey = 65535;

// The alignment of tensors that the value of general.alignment asks for; the default when there is none.
Result<uint32_t> gguf_alignment(const GgufValue* value);

}  // namespace tandem::format
