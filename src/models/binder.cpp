#include "models/binder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

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
bool is_aligned(const graph::WeightView& tensor) {
    const uintptr_t alignment = tensor.dtype == DType::f32 ? 4 : 2;
    return reinterpret_cast<uintptr_t>(tensor.data.data()) % alignment == 0;
}

std::vector<std::byte> as_f32(const TensorRecord& tensor, float offset = 0.0F) {
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    format::decode_row(tensor.dtype, tensor.data.data(), values.data(), tensor.elements());
    for (float& value : values) value += offset;
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
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

const format::ForeignTensor* Binder::find_bytes(int layer, std::string_view hf) const {
    const std::vector<std::string> names = hf_names(layer, hf);
    for (const format::ForeignTensor& tensor : checkpoint_->foreign_tensors()) {
        if (tensor.type == "u8" && std::ranges::find(names, tensor.name) != names.end()) return &tensor;
    }
    return nullptr;
}

graph::Tensor Binder::add(std::string canonical, graph::WeightView view) {
    graph::TensorType type{view.dtype, {}};
    for (const int64_t extent : view.shape) type.shape.push_back(graph::Dim::of(extent));
    if (weights_.find(canonical) == nullptr) parameters_ += static_cast<uint64_t>(view.elements());
    weights_.add(canonical, std::move(view));
    return graph_->weight(canonical, std::move(type));
}

graph::Tensor Binder::made(int layer, std::string_view gguf, DType dtype, std::vector<int64_t> shape,
                           std::vector<std::byte> bytes) {
    return own(gguf_name(layer, gguf), dtype, std::move(shape), std::move(bytes));
}

graph::Tensor Binder::own(std::string canonical, DType dtype, std::vector<int64_t> shape,
                          std::vector<std::byte> bytes) {
    weights_.add_owned(canonical, dtype, std::move(shape), std::move(bytes));
    graph::WeightView view = *weights_.find(canonical);
    parameters_ += static_cast<uint64_t>(view.elements());
    return add(std::move(canonical), std::move(view));
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
    graph::WeightView view{tensor.dtype,
                           {rows.count, cols},
                           tensor.data.subspan(static_cast<size_t>(rows.first) * bytes_of_row,
                                               static_cast<size_t>(rows.count) * bytes_of_row)};
    if (const graph::WeightView* const known = weights_.find(canonical)) view = *known;
    graph::Tensor weight;
    if (is_aligned(view)) {
        weight = add(std::move(canonical), std::move(view));
    } else {
        log::warn("tensor '{}' is not aligned in its file: it is copied", tensor.name);
        weight = own(std::move(canonical), view.dtype, view.shape, {view.data.begin(), view.data.end()});
    }
    read_factor(tensor, weight);
    return weight;
}

graph::Tensor Binder::row(int layer, const WeightName& name, int64_t cols) {
    const TensorRecord* const stored = find_tensor(*checkpoint_, layer, name);
    const bool is_vector = stored != nullptr && stored->shape.size() == 1;
    const TensorRecord* const tensor =
        find(layer, name, is_vector ? std::vector<int64_t>{cols} : std::vector<int64_t>{1, cols});
    if (tensor == nullptr) return {};
    return made(layer, name.gguf, DType::f32, {1, cols}, as_f32(*tensor));
}

graph::WeightView Binder::find_each(int layer, const WeightName& name, const std::vector<int64_t>& shape) {
    graph::WeightView view{.dtype = DType::f32, .shape = shape, .data = {}};
    std::string old_name(name.gguf);  // "ffn_gate_exps.weight", in old files "ffn_gate.3.weight"
    if (const size_t at = old_name.find("_exps"); at != std::string::npos) old_name.replace(at, 5, ".{}");
    for (int64_t e = 0; e < shape[0]; ++e) {
        const std::string gguf = fmt::format(fmt::runtime(old_name), e);
        const std::string hf = fmt::format(fmt::runtime(name.hf), e);
        const TensorRecord* tensor = find(layer, {gguf, hf}, {shape[1], shape[2]});
        if (tensor == nullptr) return {};
        if (e == 0) view.dtype = tensor->dtype;
        if (tensor->dtype != view.dtype) {
            reject(fmt::format("tensor '{}' is {}, the experts before it are {}: they must be of one type",
                               tensor->name, tandem::name(tensor->dtype), tandem::name(view.dtype)));
            return {};
        }
        view.parts.push_back(tensor->data);
    }
    return view;
}

graph::ExpertMatrix Binder::experts(int layer, const WeightName& name, const std::vector<int64_t>& shape) {
    const bool together = checkpoint_->gguf() != nullptr ? has(layer, name) : name.hf.find("{}") == std::string::npos;
    graph::WeightView view;
    if (together) {
        if (const TensorRecord* tensor = find(layer, name, shape)) view = {tensor->dtype, shape, tensor->data};
    } else {
        view = find_each(layer, name, shape);
    }
    if (!error_.empty()) return {};
    return {.weight = add(gguf_name(layer, name.gguf), std::move(view)),
            .count = shape[1],
            .scale = read_scale(layer, name.gguf, shape[0])};
}

// Of experts, beside their matrices in a GGUF file.
graph::Tensor Binder::read_scale(int layer, std::string_view gguf, int64_t experts) {
    const std::string name = std::string(gguf.substr(0, gguf.rfind('.'))) + ".scale";
    const WeightName both{name, ""};
    if (checkpoint_->gguf() == nullptr || !has(layer, both)) return {};
    const TensorRecord* const scale = find_tensor(*checkpoint_, layer, both);
    if (scale->elements() != 1) return vector(layer, both, experts);
    float factor = 0.0F;
    if (!is_quantized(scale->dtype)) format::decode_row(scale->dtype, scale->data.data(), &factor, 1);
    const std::vector<float> all(static_cast<size_t>(experts), factor);
    const auto bytes = std::as_bytes(std::span(all));
    return made(layer, name, DType::f32, {experts}, {bytes.begin(), bytes.end()});
}

void Binder::read_factor(const TensorRecord& matrix, graph::Tensor weight) {
    constexpr std::string_view kEnding = ".weight";
    if (checkpoint_->gguf() == nullptr || !matrix.name.ends_with(kEnding)) return;
    if (matrix.name.ends_with(".ffn_gate_inp.weight")) return;  // routers have none; Gemma 4 has a norm of that name
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

graph::Tensor Binder::floats(int layer, const WeightName& name, const std::vector<int64_t>& shape, float offset) {
    const TensorRecord* tensor = find(layer, name, shape);
    if (tensor == nullptr) return {};
    return made(layer, name.gguf, DType::f32, shape, as_f32(*tensor, offset));
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
