#include "format/gguf_value.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace tandem::format {

namespace {

// Real files nest at most twice; the bound keeps the recursion below small.
constexpr int kMaxArrayDepth = 8;

struct TypeInfo {
    std::string_view name;
    size_t bytes;
};

constexpr std::array<TypeInfo, kGgufTypes> kTypes = {{
    {"u8", 1},
    {"i8", 1},
    {"u16", 2},
    {"i16", 2},
    {"u32", 4},
    {"i32", 4},
    {"f32", 4},
    {"bool", 1},
    {"string", 0},
    {"array", 0},
    {"u64", 8},
    {"i64", 8},
    {"f64", 8},
}};

template <typename T>
T load(std::span<const std::byte> bytes) {
    CHECK(bytes.size() == sizeof(T));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
}

// The least that one element takes, to refuse a count before anything is done `count` times.
size_t least_bytes(GgufType type) {
    if (type == GgufType::string) return sizeof(uint64_t);
    if (type == GgufType::array) return sizeof(uint32_t) + sizeof(uint64_t);
    return scalar_bytes(type);
}

void skip_value(ByteReader& reader, GgufType type, std::string_view field, int depth);

void skip_array(ByteReader& reader, std::string_view field, int depth) {
    if (depth > kMaxArrayDepth) {
        reader.set_error(fail("{} nests arrays deeper than {} at offset {}", field, kMaxArrayDepth, reader.offset()));
        return;
    }
    const size_t offset = reader.offset();
    const auto type = reader.read<uint32_t>(field);
    const auto count = reader.read<uint64_t>(field);
    if (!reader.ok()) return;
    if (type >= kGgufTypes) {
        reader.set_error(fail("{} has elements of unknown type {} at offset {}", field, type, offset));
        return;
    }
    const auto element = static_cast<GgufType>(type);
    if (count > reader.remaining() / least_bytes(element)) {
        reader.set_ended(fail("{} has {} elements of type {} at offset {} but only {} bytes are left", field, count,
                              name(element), offset, reader.remaining()));
        return;
    }
    if (const size_t size = scalar_bytes(element); size > 0) {
        reader.take(count * size, field);
        return;
    }
    for (uint64_t i = 0; i < count && reader.ok(); ++i) skip_value(reader, element, field, depth + 1);
}

void skip_value(ByteReader& reader, GgufType type, std::string_view field, int depth) {
    if (type == GgufType::array) return skip_array(reader, field, depth);
    reader.take(type == GgufType::string ? reader.read<uint64_t>(field) : scalar_bytes(type), field);
}

}  // namespace

std::string_view name(GgufType type) {
    return kTypes[static_cast<size_t>(type)].name;
}

size_t scalar_bytes(GgufType type) {
    return kTypes[static_cast<size_t>(type)].bytes;
}

std::optional<int64_t> GgufValue::as_int() const {
    switch (type) {
        case GgufType::u8:
            return load<uint8_t>(bytes);
        case GgufType::i8:
            return load<int8_t>(bytes);
        case GgufType::u16:
            return load<uint16_t>(bytes);
        case GgufType::i16:
            return load<int16_t>(bytes);
        case GgufType::u32:
            return load<uint32_t>(bytes);
        case GgufType::i32:
            return load<int32_t>(bytes);
        case GgufType::i64:
            return load<int64_t>(bytes);
        case GgufType::u64: {
            const auto value = load<uint64_t>(bytes);
            if (value > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
            return static_cast<int64_t>(value);
        }
        default:
            return std::nullopt;
    }
}

std::optional<double> GgufValue::as_float() const {
    if (type == GgufType::f32) return static_cast<double>(load<float>(bytes));
    if (type == GgufType::f64) return load<double>(bytes);
    if (type == GgufType::u64) return static_cast<double>(load<uint64_t>(bytes));
    if (const auto value = as_int()) return static_cast<double>(*value);
    return std::nullopt;
}

std::optional<bool> GgufValue::as_bool() const {
    if (type != GgufType::boolean) return std::nullopt;
    return load<uint8_t>(bytes) != 0;
}

std::optional<std::string_view> GgufValue::as_string() const {
    if (type != GgufType::string) return std::nullopt;
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<GgufArray> GgufValue::as_array() const {
    if (type != GgufType::array) return std::nullopt;
    ByteReader reader(bytes);
    GgufArray array;
    array.type = static_cast<GgufType>(reader.read<uint32_t>("array"));
    array.count = reader.read<uint64_t>("array");
    CHECK(reader.ok() && static_cast<uint32_t>(array.type) < kGgufTypes);
    array.bytes = bytes.subspan(reader.offset());
    return array;
}

GgufArray::Iterator::Iterator(GgufType type, uint64_t left, std::span<const std::byte> bytes)
    : type_(type), left_(left), reader_(bytes) {
    decode();
}

GgufArray::Iterator& GgufArray::Iterator::operator++() {
    --left_;
    decode();
    return *this;
}

void GgufArray::Iterator::decode() {
    if (left_ == 0) return;
    value_ = read_gguf_value(reader_, type_, "array");
    CHECK(reader_.ok(), "the elements were checked when the file was read");
}

GgufValue read_gguf_value(ByteReader& reader, GgufType type, std::string_view field) {
    if (type == GgufType::string) return {type, reader.take(reader.read<uint64_t>(field), field)};
    if (type != GgufType::array) return {type, reader.take(scalar_bytes(type), field)};
    ByteReader start = reader;
    skip_array(reader, field, 1);
    if (!reader.ok()) return {};
    return {type, start.take(reader.offset() - start.offset(), field)};
}

Result<uint32_t> gguf_alignment(const GgufValue* value) {
    constexpr uint32_t kDefault = 32;
    constexpr uint32_t kMost = 1 << 20;
    if (value == nullptr) return kDefault;
    if (value->type != GgufType::u32)
        return fail("general.alignment is of type {}, u32 was expected", name(value->type));
    const auto alignment = load<uint32_t>(value->bytes);
    if (alignment < 8 || alignment > kMost || !std::has_single_bit(alignment))
        return fail("general.alignment is {}, a power of two from 8 to {} was expected", alignment, kMost);
    return alignment;
}

}  // namespace tandem::format
