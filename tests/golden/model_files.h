// Tiny models on disk: the golden ones, and variations of them that a test writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace tandem::golden {

// A model in the Hugging Face layout, in memory.
struct HfModel {
    struct Tensor {
        DType dtype = DType::f32;
        std::vector<int64_t> shape;
        std::vector<std::byte> bytes;
        bool is_bytes = false;  // of type U8, whatever `dtype` says
    };

    nlohmann::json config;
    std::map<std::string, Tensor> tensors;

    // Adds a tensor of small numbers that depend on `seed` only.
    void add_random(const std::string& name, std::vector<int64_t> shape, uint32_t seed);
    void convert(const std::string& name, DType dtype);
    void rename_prefix(const std::string& from, const std::string& to);
};

std::filesystem::path golden_dir(const std::string& name);

HfModel read_hf(const std::filesystem::path& dir);
// In `shards` files with an index when there is more than one.
void write_hf(const HfModel& model, const std::filesystem::path& dir, int shards = 1);

void write_config(const nlohmann::json& config, const std::filesystem::path& dir);

// A directory of its own for a test, removed with it.
class TempDir {
  public:
    TempDir();
    ~TempDir();
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;

    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace tandem::golden
