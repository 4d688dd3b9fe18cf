// Safetensors files: a JSON header that names slices of the bytes behind it.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "format/tensor_record.h"

namespace tandem::format {

class SafetensorsFile {
  public:
    static Result<SafetensorsFile> open(const std::filesystem::path& path);
    // `bytes` must outlive the result; `name` stands in messages.
    static Result<SafetensorsFile> parse(std::span<const std::byte> bytes, std::string name);

    const std::string& name() const { return name_; }

    // The header's __metadata__, sorted by key.
    std::span<const std::pair<std::string, std::string>> metadata() const { return metadata_; }

    // Sorted by name; together with the foreign ones they cover the data exactly, as the format demands.
    std::span<const TensorRecord> tensors() const { return tensors_; }
    const TensorRecord* find_tensor(std::string_view name) const;

    // Those that are not among tensors(), since their type is not known or not of use.
    std::span<const ForeignTensor> foreign_tensors() const { return foreign_tensors_; }

    // Whether it is one of either.
    bool contains(std::string_view name) const;

  private:
    SafetensorsFile() = default;

    std::string name_;
    std::optional<MappedFile> file_;
    std::vector<std::pair<std::string, std::string>> metadata_;
    std::vector<TensorRecord> tensors_;
    std::vector<ForeignTensor> foreign_tensors_;
};

}  // namespace tandem::format
