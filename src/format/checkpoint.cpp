#include "format/checkpoint.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/file.h"
#include "format/diagnose.h"
#include "format/json.h"

namespace tandem::format {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxConfigBytes = size_t{16} << 20;
constexpr size_t kMaxIndexBytes = size_t{100} << 20;
constexpr size_t kMaxShards = 10'000;

Result<Json> read_json_object(const std::filesystem::path& path, size_t limit_bytes) {
    const std::string text = TRY(read_text_file(path, limit_bytes));
    Json parsed = TRY(parse_json(text, path.string(), kFileJson));
    if (!parsed.is_object()) return fail("{}: a JSON object was expected", path.string());
    return parsed;
}

// The tensors that the index expects in each shard.
using Shards = std::map<std::string, std::vector<std::string>>;

Result<Shards> read_index(const std::filesystem::path& path) {
    const Json index = TRY(read_json_object(path, kMaxIndexBytes));
    const auto map = index.find("weight_map");
    if (map == index.end() || !map->is_object()) return fail("{}: has no weight_map object", path.string());
    Shards shards;
    for (const auto& [tensor, shard] : map->items()) {
        if (!shard.is_string()) return fail("{}: weight_map {} is not a file name", path.string(), quote(tensor));
        const auto& file = shard.get_ref<const std::string&>();
        const bool plain = file.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
        if (!plain || file.starts_with('.') || !file.ends_with(".safetensors")) {
            return fail("{}: weight_map {} names {}, which is not a safetensors file of this directory", path.string(),
                        quote(tensor), quote(file));
        }
        shards[file].push_back(tensor);
        if (shards.size() > kMaxShards) return fail("{}: more than {} shards", path.string(), kMaxShards);
    }
    if (shards.empty()) return fail("{}: weight_map is empty", path.string());
    return shards;
}

bool is_there(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

// The name to show: what comes last in the path, "/models/gemma/" too.
std::string display_name(const std::filesystem::path& path) {
    const std::filesystem::path clean = path.lexically_normal();
    return (clean.has_filename() ? clean : clean.parent_path()).filename().string();
}

}  // namespace

Checkpoint::Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (status.type() == std::filesystem::file_type::not_found)
        return fail("{}: no such file or directory: give a .gguf file or a Hugging Face directory", path.string());
    if (error) return fail("{}: cannot open: {}", path.string(), error.message());
    Checkpoint checkpoint;
    checkpoint.path_ = path;
    checkpoint.name_ = display_name(path);
    if (std::filesystem::is_directory(status)) {
        TRY(checkpoint.open_directory());
        return checkpoint;
    }
    if (path.extension() == ".safetensors")
        return fail("{}: give the directory that holds it and config.json, not the file", path.string());
    checkpoint.gguf_ = TRY(GgufFile::open(path));
    return checkpoint;
}

Result<Checkpoint> Checkpoint::from_gguf(std::span<const std::byte> bytes, std::string name) {
    Checkpoint checkpoint;
    checkpoint.gguf_ = TRY(GgufFile::parse(bytes, name));
    checkpoint.name_ = std::move(name);
    return checkpoint;
}

Status Checkpoint::open_directory() {
    if (!is_there(path_ / "config.json")) {
        return fail("{}: a directory without config.json: give a Hugging Face directory or a .gguf file in it",
                    path_.string());
    }
    config_ = std::make_unique<Json>(TRY(read_json_object(path_ / "config.json", kMaxConfigBytes)));
    TRY(open_shards());
    return index_shards();
}

Status Checkpoint::open_shards() {
    const std::filesystem::path single = path_ / "model.safetensors";
    const std::filesystem::path index = path_ / "model.safetensors.index.json";
    if (is_there(single)) {
        shards_.push_back(TRY(SafetensorsFile::open(single)));
        return Ok{};
    }
    if (!is_there(index)) {
        return fail("{}: has neither model.safetensors nor model.safetensors.index.json: get the safetensors weights",
                    path_.string());
    }
    for (const auto& [file, tensors] : TRY(read_index(index))) {
        SafetensorsFile shard = TRY(SafetensorsFile::open(path_ / file));
        for (const std::string& tensor : tensors) {
            if (!shard.contains(tensor))
                return fail("{}: has no tensor {}, which model.safetensors.index.json expects in it", shard.name(),
                            quote(tensor));
        }
        shards_.push_back(std::move(shard));
    }
    return Ok{};
}

Status Checkpoint::index_shards() {
    for (const SafetensorsFile& shard : shards_) {
        shard_tensors_.insert(shard_tensors_.end(), shard.tensors().begin(), shard.tensors().end());
        shard_foreign_.insert(shard_foreign_.end(), shard.foreign_tensors().begin(), shard.foreign_tensors().end());
    }
    std::sort(shard_tensors_.begin(), shard_tensors_.end(),
              [](const TensorRecord& a, const TensorRecord& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(shard_tensors_.begin(), shard_tensors_.end(),
                                          [](const auto& a, const auto& b) { return a.name == b.name; });
    if (twice != shard_tensors_.end())
        return fail("{}: tensor {} is in two shards", path_.string(), quote(twice->name));
    return Ok{};
}

std::span<const TensorRecord> Checkpoint::tensors() const {
    return gguf_ ? gguf_->tensors() : std::span<const TensorRecord>(shard_tensors_);
}

const TensorRecord* Checkpoint::find(std::string_view name) const {
    if (gguf_) return gguf_->find_tensor(name);
    const auto at = std::lower_bound(shard_tensors_.begin(), shard_tensors_.end(), name,
                                     [](const TensorRecord& t, std::string_view wanted) { return t.name < wanted; });
    return at == shard_tensors_.end() || at->name != name ? nullptr : &*at;
}

std::span<const ForeignTensor> Checkpoint::foreign_tensors() const {
    return gguf_ ? gguf_->foreign_tensors() : std::span<const ForeignTensor>(shard_foreign_);
}

Status Checkpoint::check_readable() const {
    if (foreign_tensors().empty()) return Ok{};
    return fail("{}: {}", name_, cannot_read(foreign_tensors().front()).message);
}

uint64_t Checkpoint::tensor_bytes() const {
    uint64_t total = 0;
    for (const ForeignTensor& tensor : foreign_tensors()) total += tensor.data.size();
    for (const TensorRecord& tensor : tensors()) total += tensor.data.size();
    return total;
}

}  // namespace tandem::format
