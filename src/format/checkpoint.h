// A model as it lies on disk: a GGUF file with all its parts, or a Hugging Face directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"
#include "format/safetensors.h"
#include "format/tensor_record.h"

namespace tandem::format {

class Checkpoint {
  public:
    // A .gguf file (any part of a split one) or a directory with config.json and safetensors.
    static Result<Checkpoint> open(const std::filesystem::path& path);
    // A GGUF file in memory; `bytes` must outlive the result, `name` stands in messages.
    static Result<Checkpoint> from_gguf(std::span<const std::byte> bytes, std::string name);

    Checkpoint(Checkpoint&&) noexcept;
    Checkpoint& operator=(Checkpoint&&) noexcept;
    Checkpoint(const Checkpoint&) = delete;
    Checkpoint& operator=(const Checkpoint&) = delete;
    ~Checkpoint();

    // The file's or directory's own name, or the name given to from_gguf().
    const std::string& name() const { return name_; }
    // Empty for a model in memory.
    const std::filesystem::path& path() const { return path_; }

    const GgufFile* gguf() const { return gguf_ ? &*gguf_ : nullptr; }  // null for a Hugging Face directory
    const nlohmann::json* config() const { return config_.get(); }      // config.json, an object; null for GGUF

    std::span<const TensorRecord> tensors() const;
    const TensorRecord* find(std::string_view name) const;
    // Of types that are not known or not of use: they can be looked at, but a model that has one cannot be run.
    std::span<const ForeignTensor> foreign_tensors() const;
    // An error names the first foreign tensor.
    Status check_readable() const;
    uint64_t tensor_bytes() const;  // of all

  private:
    Checkpoint();
    Status open_directory();
    Status open_shards();
    Status index_shards();

    std::string name_;
    std::filesystem::path path_;
    std::optional<GgufFile> gguf_;
    std::unique_ptr<nlohmann::json> config_;
    std::vector<SafetensorsFile> shards_;
    std::vector<TensorRecord> shard_tensors_;  // of all shards, sorted by name
    std::vector<ForeignTensor> shard_foreign_;
};

}  // namespace tandem::format
