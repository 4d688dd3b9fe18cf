#include "models/binder.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/log.h"
#include "format/quant.h"

namespace tandem::models {

namespace {

using format::TensorRecord;

std::string gguf_name(int layer, std::string_view name) {
    return layer == kNoLayer ? std::string(name) : fmt::format("blk.{}.{}", layer, name);
}

// transformers puts the decoder under "model."; models that also see or hear nest it deeper, differently by version.
constexpr std::string_view kPrefixes[] = {"model.", "model.language_model.", "language_model.model.", ""};
constexpr std::string_view kHeadPrefixes[] = {"", "language_model.", "model.language_model.", "model."};

std::vector<std::string> hf_names(int layer, std::string_view name) {
    std::vector<std::string> names;
    for (const std::string_view prefix : name.starts_with("lm_head") ? kHeadPrefixes : kPrefixes) {
        names.push_back(layer == kNoLayer ? fmt::format("{}{}", prefix, name)
                                          : fmt::format("{}layers.{}.{}", prefix, layer, name));
    }
    return names;
}

std::string to_string(const std::vector<int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Kernels read whole numbers of a type; a file may put them anywhere.
bool is_aligned(const TensorRecord& tensor) {
    const uintptr_t alignment = tensor.dtype == DType::f32 ? 4 : 2;
    return reinterpret_cast<uintptr_t>(tensor.data.data()) % alignment == 0;
}

}  // namespace

std::string_view whole_name(std::string_view name) {
    return name.substr(0, name.find('['));
}

const TensorRecord* find_tensor(const format::Checkpoint& checkpoint, int layer, const WeightName& name) {
    if (checkpoint.gguf() != nullptr) return checkpoint.find(gguf_name(layer, name.gguf));
    for (const std::string& candidate : hf_names(layer, name.hf)) {
        if (const TensorRecord* found = checkpoint.find(candidate)) return found;
    }
    return nullptr;
}

void Binder::reject(std::string problem) {
    if (error_.empty()) error_ = fmt::format("{}: {}", checkpoint_->name(), problem);
}

Status Binder::status() const {
    if (error_.empty()) return Ok{};
    return Error{error_};
}

const TensorRecord* Binder::find(int layer, const WeightName& name, const std::vector<int64_t>& shape) {
    if (!error_.empty()) return nullptr;
    const TensorRecord* tensor = find_tensor(*checkpoint_, layer, name);
    if (tensor == nullptr) {
        const bool gguf = checkpoint_->gguf() != nullptr;
        reject(fmt::format("tensor '{}' of shape {} is missing: the model is incomplete",
                           gguf ? gguf_name(layer, name.gguf) : hf_names(layer, name.hf).front(), to_string(shape)));
        return nullptr;
    }
    if (tensor->shape != shape) {
        reject(fmt::format("tensor '{}' has the shape {} but the configuration asks for {}", tensor->name,
                           to_string(tensor->shape), to_string(shape)));
        return nullptr;
    }
    if (tensor->dtype == DType::i32) {
        reject(fmt::format("tensor '{}' is of type i32, expected a type of weights", tensor->name));
        return nullptr;
    }
    return tensor;
}

graph::Tensor Binder::matrix(int layer, const WeightName& name, int64_t rows, int64_t cols) {
    const TensorRecord* tensor = find(layer, name, {rows, cols});
    return tensor == nullptr ? graph::Tensor{} : bind(gguf_name(layer, name.gguf), *tensor, {0, rows, rows});
}

graph::Tensor Binder::rows(int layer, const WeightName& name, const Rows& rows, int64_t cols) {
    const TensorRecord* tensor = find(layer, name, {rows.all, cols});
    if (tensor == nullptr) return {};
    return bind(fmt::format("{}[{}:{}]", gguf_name(layer, name.gguf), rows.first, rows.first + rows.count), *tensor,
                rows);
}

graph::Tensor Binder::bind(std::string canonical, const TensorRecord& tensor, const Rows& rows) {
    const int64_t cols = tensor.shape[1];
    const size_t bytes_of_row = row_bytes(tensor.dtype, cols);
    const auto data = tensor.data.subspan(static_cast<size_t>(rows.first) * bytes_of_row,
                                          static_cast<size_t>(rows.count) * bytes_of_row);
    if (weights_.find(canonical) == nullptr) parameters_ += static_cast<uint64_t>(rows.count * cols);
    if (is_aligned(tensor)) {
        weights_.add(canonical, {tensor.dtype, {rows.count, cols}, data});
    } else {
        log::warn("tensor '{}' is not aligned in its file: it is copied", tensor.name);
        weights_.add_owned(canonical, tensor.dtype, {rows.count, cols}, {data.begin(), data.end()});
    }
    const graph::Tensor weight =
        graph_->weight(std::move(canonical), graph::matrix_type(tensor.dtype, graph::Dim::of(rows.count), cols));
    read_factor(tensor, weight);
    return weight;
}

void Binder::read_factor(const TensorRecord& matrix, graph::Tensor weight) {
    constexpr std::string_view kEnding = ".weight";
    if (checkpoint_->gguf() == nullptr || !matrix.name.ends_with(kEnding)) return;
    const std::string name = matrix.name.substr(0, matrix.name.size() - kEnding.size()) + ".scale";
    const TensorRecord* scale = checkpoint_->find(name);
    if (scale == nullptr) return;
    float factor = 0.0F;
    if (scale->elements() == 1 && !is_quantized(scale->dtype))
        format::decode_row(scale->dtype, scale->data.data(), &factor, 1);
    if (!std::isfinite(factor) || factor == 0.0F) {
        reject(fmt::format("tensor '{}' of shape {} is no factor for '{}', expected one finite number other than 0",
                           name, to_string(scale->shape), matrix.name));
        return;
    }
    graph_->set_factor(weight, factor);
}

graph::Tensor Binder::embedding(int64_t vocab, int64_t dim) {
    return matrix(kNoLayer, kEmbedding, vocab, dim);
}

graph::Tensor Binder::output(int64_t vocab, int64_t dim, bool tied) {
    const WeightName name{"output.weight", "lm_head.weight"};
    const bool shared = checkpoint_->gguf() != nullptr ? !has(kNoLayer, name) : tied;
    return shared ? embedding(vocab, dim) : matrix(kNoLayer, name, vocab, dim);
}

graph::Tensor Binder::vector(int layer, const WeightName& name, int64_t count, float offset) {
    const TensorRecord* tensor = find(layer, name, {count});
    if (tensor == nullptr) return {};
    std::vector<float> values(static_cast<size_t>(count));
    format::decode_row(tensor->dtype, tensor->data.data(), values.data(), count);
    for (float& value : values) value += offset;
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    std::string canonical = gguf_name(layer, name.gguf);
    parameters_ += values.size();
    weights_.add_owned(canonical, DType::f32, {count}, std::move(bytes));
    return graph_->weight(std::move(canonical), graph::vector_type(DType::f32, count));
}

float Binder::scalar(int layer, const WeightName& name) {
    const TensorRecord* tensor = find(layer, name, {1});
    float value = 0.0F;
    if (tensor == nullptr) return value;
    format::decode_row(tensor->dtype, tensor->data.data(), &value, 1);
    ++parameters_;
    return value;
}

}  // namespace tandem::models
