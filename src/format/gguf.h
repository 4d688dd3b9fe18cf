// GGUF model files, versions 2 and 3: metadata and tensors as views over the mapped bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "format/gguf_value.h"
#include "format/tensor_record.h"

namespace tandem::format {

struct GgufEntry {
    std::string_view key;
    GgufValue value;
};

class GgufFile {
  public:
    // Maps the file; given one member of a split set (name-0000i-of-0000n.gguf), all of them.
    static Result<GgufFile> open(const std::filesystem::path& path);
    // `bytes` must outlive the result; `name` stands in messages.
    static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name);

    GgufFile(GgufFile&&) noexcept = default;
    GgufFile& operator=(GgufFile&&) noexcept = default;
    GgufFile(const GgufFile&) = delete;
    GgufFile& operator=(const GgufFile&) = delete;
    ~GgufFile() = default;

    const std::string& name() const { return name_; }
    uint32_t version() const { return version_; }
    uint32_t alignment() const { return alignment_; }
    size_t file_bytes() const { return file_bytes_; }  // of all parts
    size_t parts() const { return parts_; }

    // In the order of the file; those of the first part when it is split.
    std::span<const GgufEntry> metadata() const { return metadata_; }
    const GgufValue* find(std::string_view key) const;

    // Nothing when the key is missing or of another kind.
    std::optional<int64_t> get_int(std::string_view key) const;
    std::optional<double> get_float(std::string_view key) const;
    std::optional<bool> get_bool(std::string_view key) const;
    std::optional<std::string_view> get_string(std::string_view key) const;
    std::optional<std::vector<int64_t>> get_ints(std::string_view key) const;
    std::optional<std::vector<float>> get_floats(std::string_view key) const;
    std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const;

    // In the order of the file; no two have the same name or share a byte.
    std::span<const TensorRecord> tensors() const { return tensors_; }
    const TensorRecord* find_tensor(std::string_view name) const;

    // Those that are not among tensors(), since their type is not known or not of use.
    std::span<const ForeignTensor> foreign_tensors() const { return foreign_tensors_; }

  private:
    GgufFile() = default;
    static Result<GgufFile> open_split(const std::filesystem::path& path);
    Status parse_part(std::span<const std::byte> bytes);
    void append(GgufFile part);
    Status check_split();

    std::string name_;
    uint32_t version_ = 0;
    uint32_t alignment_ = 0;
    size_t file_bytes_ = 0;
    size_t parts_ = 1;
    std::vector<MappedFile> files_;
    std::vector<GgufEntry> metadata_;
    std::vector<TensorRecord> tensors_;
    std::vector<ForeignTensor> foreign_tensors_;
    std::vector<uint32_t> keys_by_name_;  // sorted: no input can make the look-up slow
    std::vector<uint32_t> tensors_by_name_;
};

}  // namespace tandem::format
