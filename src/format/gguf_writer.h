// Writes GGUF version 3 files, piece by piece, without holding the model in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "base/threads.h"
#include "format/gguf_value.h"

namespace tandem::format {

// Makes the bytes [first, first + out.size()) of a tensor. Several threads may call it at once.
using TensorFill = std::function<Status(uint64_t first, std::span<std::byte> out)>;

template <typename T>
inline constexpr GgufType kGgufTypeOf = GgufType::array;  // of a C++ type that is no scalar of GGUF
template <>
inline constexpr GgufType kGgufTypeOf<uint8_t> = GgufType::u8;
template <>
inline constexpr GgufType kGgufTypeOf<int8_t> = GgufType::i8;
template <>
inline constexpr GgufType kGgufTypeOf<uint16_t> = GgufType::u16;
template <>
inline constexpr GgufType kGgufTypeOf<int16_t> = GgufType::i16;
template <>
inline constexpr GgufType kGgufTypeOf<uint32_t> = GgufType::u32;
template <>
inline constexpr GgufType kGgufTypeOf<int32_t> = GgufType::i32;
template <>
inline constexpr GgufType kGgufTypeOf<float> = GgufType::f32;
template <>
inline constexpr GgufType kGgufTypeOf<bool> = GgufType::boolean;
template <>
inline constexpr GgufType kGgufTypeOf<uint64_t> = GgufType::u64;
template <>
inline constexpr GgufType kGgufTypeOf<int64_t> = GgufType::i64;
template <>
inline constexpr GgufType kGgufTypeOf<double> = GgufType::f64;

template <typename T>
concept GgufScalar = kGgufTypeOf<T>
!= GgufType::array;

class GgufWriter {
  public:
    // Setting a key again replaces its value and keeps its place. The C++ type is the type in the file.
    template <GgufScalar T>
    void set(std::string_view key, T value) {
        set_bytes(key, kGgufTypeOf<T>, std::as_bytes(std::span(&value, 1)));
    }
    template <GgufScalar T>
    void set(std::string_view key, std::span<const T> values) {
        set_array(key, kGgufTypeOf<T>, values.size(), std::as_bytes(values));
    }
    template <GgufScalar T>
    void set(std::string_view key, const std::vector<T>& values) {
        set(key, std::span<const T>(values));
    }
    void set(std::string_view key, std::string_view value);
    void set(std::string_view key, const char* value) { set(key, std::string_view(value)); }
    void set(std::string_view key, std::span<const std::string_view> values);
    void set(std::string_view key, const std::vector<std::string>& values);
    // A value as it is in another file, arrays of arrays too.
    void set(std::string_view key, const GgufValue& value);
    void remove(std::string_view key);

    struct Tensor {
        std::string name;
        DType dtype = DType::f32;
        std::vector<int64_t> shape;  // outermost first
        std::span<const std::byte> data =
            {};  // its bytes, which must outlive the writing; or, where there are none yet:
        TensorFill fill = {};
        uint64_t unit_bytes = 1;  // fill() is asked for whole units only
    };
    void add(Tensor tensor);
    // `data` must outlive the writing.
    void add(std::string name, DType dtype, std::vector<int64_t> shape, std::span<const std::byte> data);

    struct Options {
        ThreadPool* threads = nullptr;  // make and write pieces of tensors at once; null: the caller alone
        // Called as bytes of tensors are done, by one thread at a time; an error ends the writing.
        std::function<Status(uint64_t done, uint64_t total)> progress = {};
    };
    // The file appears whole or not at all.
    Status write(const std::filesystem::path& path, const Options& options) const;
    Status write(const std::filesystem::path& path) const { return write(path, Options()); }

    // The same in memory of `size_bytes()`; the head alone is for readers who do not look at weights.
    Result<uint64_t> size_bytes() const;
    Status write_head(std::span<std::byte> out) const;
    Status write(std::span<std::byte> out, const Options& options) const;
    Result<std::vector<std::byte>> to_bytes() const;

  private:
    struct Entry {
        std::string key;
        GgufType type = GgufType::u8;
        std::vector<std::byte> value = {};  // as in the file
    };

    void set_bytes(std::string_view key, GgufType type, std::span<const std::byte> value);
    void set_array(std::string_view key, GgufType type, uint64_t count, std::span<const std::byte> elements);
    // Some bytes of a tensor, and where they lie in the file.
    struct Piece {
        const Tensor* tensor;
        uint64_t first;
        uint64_t size_bytes;
        uint64_t offset;
    };
    struct Layout {
        std::vector<std::byte> head;
        std::vector<Piece> pieces;
        uint64_t size_bytes = 0;
    };

    Status check() const;
    Result<Layout> layout() const;
    static Status for_each(std::span<const Piece> pieces, const Options& options,
                           const std::function<Status(const Piece&)>& body);
    std::vector<std::byte> header(uint32_t align) const;
    Result<uint32_t> alignment() const;

    std::vector<Entry> entries_;
    std::map<std::string, size_t, std::less<>> place_;  // of a key in entries_
    std::vector<Tensor> tensors_;
};

}  // namespace tandem::format
