#include "golden/model_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "format/checkpoint.h"
#include "format/quant.h"

namespace tandem::golden {

using nlohmann::json;

namespace {

std::string safetensors_type(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return "F32";
        case DType::f16:
            return "F16";
        case DType::bf16:
            return "BF16";
        default:
            ADD_FAILURE() << "no safetensors type for " << name(dtype);
            return "";
    }
}

void write_safetensors(const std::map<std::string, HfModel::Tensor>& tensors, const std::filesystem::path& path) {
    json header = json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
        const size_t begin = data.size();
        data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
        header[name] = {{"dtype", tensor.is_bytes ? "U8" : safetensors_type(tensor.dtype)},
                        {"shape", tensor.shape},
                        {"data_offsets", {begin, data.size()}}};
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t size = text.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&size), sizeof(size));
    file << text << data;
    ASSERT_TRUE(file.good());
}

}  // namespace

void HfModel::add_random(const std::string& name, std::vector<int64_t> shape, uint32_t seed) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::mt19937 random(seed);
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random() % 2001) / 10000.0F - 0.1F);
    const auto bytes = std::as_bytes(std::span<const float>(values));
    tensors[name] = {DType::f32, std::move(shape), {bytes.begin(), bytes.end()}};
}

void HfModel::convert(const std::string& name, DType dtype) {
    Tensor& tensor = tensors.at(name);
    const auto count = static_cast<int64_t>(tensor.bytes.size() / row_bytes(tensor.dtype, 1));
    std::vector<float> values(static_cast<size_t>(count));
    format::decode_row(tensor.dtype, tensor.bytes.data(), values.data(), count);
    tensor.dtype = dtype;
    tensor.bytes.resize(row_bytes(dtype, count));
    format::encode_row(dtype, values.data(), tensor.bytes.data(), count);
}

void HfModel::rename_prefix(const std::string& from, const std::string& to) {
    std::map<std::string, Tensor> renamed;
    for (auto& [name, tensor] : tensors) {
        const bool matches = name.starts_with(from);
        renamed[matches ? to + name.substr(from.size()) : name] = std::move(tensor);
    }
    tensors = std::move(renamed);
}

std::filesystem::path golden_dir(const std::string& name) {
    return std::filesystem::path(TANDEM_TEST_DATA) / "models" / name;
}

HfModel read_hf(const std::filesystem::path& dir) {
    auto checkpoint = format::Checkpoint::open(dir);
    if (!checkpoint) {
        ADD_FAILURE() << checkpoint.error().message;
        return {};
    }
    HfModel model{.config = *checkpoint->config(), .tensors = {}};
    for (const format::TensorRecord& tensor : checkpoint->tensors()) {
        model.tensors[tensor.name] = {tensor.dtype, tensor.shape, {tensor.data.begin(), tensor.data.end()}};
    }
    return model;
}

void write_config(const json& config, const std::filesystem::path& dir) {
    std::ofstream(dir / "config.json") << config.dump(2);
}

void write_hf(const HfModel& model, const std::filesystem::path& dir, int shards) {
    std::filesystem::create_directories(dir);
    write_config(model.config, dir);
    if (shards == 1) {
        write_safetensors(model.tensors, dir / "model.safetensors");
        return;
    }
    json map = json::object();
    std::vector<std::map<std::string, HfModel::Tensor>> parts(static_cast<size_t>(shards));
    size_t number = 0;
    for (const auto& [name, tensor] : model.tensors) parts[number++ % parts.size()][name] = tensor;
    for (size_t i = 0; i < parts.size(); ++i) {
        const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards);
        for (const auto& [name, tensor] : parts[i]) map[name] = file;
        write_safetensors(parts[i], dir / file);
    }
    std::ofstream(dir / "model.safetensors.index.json") << json{{"metadata", json::object()}, {"weight_map", map}};
}

TempDir::TempDir() {
    std::string pattern = (std::filesystem::path(testing::TempDir()) / "tandem-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
}

TempDir::~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace tandem::golden
