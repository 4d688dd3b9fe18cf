#include "models/interleaved_experts.h"

#include <fmt/format.h>

#include <cstring>
#include <span>

#include "format/quant.h"

namespace tandem::models {

namespace {

using format::TensorRecord;

// Which of the rows of a matrix: every `step`th from `first` on.
struct RowChoice {
    int64_t first = 0;
    int64_t step = 1;
};

// A matrix [rows, cols] of every expert.
struct Shape {
    int64_t experts, rows, cols;

    std::vector<int64_t> dims() const { return {experts, rows, cols}; }
};

std::vector<std::byte> to_bytes(std::span<const float> values) {
    const auto bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
}

// [experts, cols, all rows] -> [experts, rows, cols], the numbers as they are
std::vector<std::byte> exchange(const TensorRecord& tensor, const Shape& shape, RowChoice choice) {
    const auto each = static_cast<size_t>(info(tensor.dtype).block_bytes);
    const int64_t all_rows = shape.rows * choice.step;
    std::vector<std::byte> out(static_cast<size_t>(shape.experts * shape.rows * shape.cols) * each);
    std::byte* to = out.data();
    for (int64_t e = 0; e < shape.experts; ++e) {
        for (int64_t r = 0; r < shape.rows; ++r) {
            for (int64_t c = 0; c < shape.cols; ++c, to += each) {
                const int64_t from = (e * shape.cols + c) * all_rows + choice.first + r * choice.step;
                std::memcpy(to, tensor.data.data() + static_cast<size_t>(from) * each, each);
            }
        }
    }
    return out;
}

// Blocks of 32: the scale's byte, then 16 bytes with element j in the low and j + 16 in the high nibble of byte j. In
// the checkpoint byte j has elements 2j and 2j + 1.
void put_block(const std::byte* codes, std::byte scale, std::byte* to) {
    const auto code = [&](int i) { return std::to_integer<unsigned>(codes[i / 2]) >> (i % 2 * 4) & 15U; };
    to[0] = scale;
    for (int j = 0; j < 16; ++j) to[1 + j] = static_cast<std::byte>(code(j) | code(j + 16) << 4);
}

struct CodesAndScales {
    std::span<const std::byte> codes;   // [experts, all rows, cols / 32, 16]
    std::span<const std::byte> scales;  // [experts, all rows, cols / 32]
};

std::vector<std::byte> join(const CodesAndScales& from, const Shape& shape, RowChoice choice) {
    constexpr int64_t kBlockBytes = 17;
    const int64_t blocks = shape.cols / 32;
    std::vector<std::byte> out(static_cast<size_t>(shape.experts * shape.rows * blocks * kBlockBytes));
    std::byte* to = out.data();
    for (int64_t e = 0; e < shape.experts; ++e) {
        for (int64_t r = 0; r < shape.rows; ++r) {
            const int64_t row = e * shape.rows * choice.step + choice.first + r * choice.step;
            for (int64_t b = 0; b < blocks; ++b, to += kBlockBytes) {
                const auto at = static_cast<size_t>(row * blocks + b);
                put_block(from.codes.data() + at * 16, from.scales[at], to);
            }
        }
    }
    return out;
}

// [experts, all rows] -> [experts, rows]
std::vector<std::byte> choose(const TensorRecord& tensor, int64_t experts, int64_t rows, RowChoice choice) {
    std::vector<float> all(static_cast<size_t>(tensor.elements()));
    format::decode_row(tensor.dtype, tensor.data.data(), all.data(), tensor.elements());
    std::vector<float> chosen;
    for (int64_t e = 0; e < experts; ++e) {
        for (int64_t r = 0; r < rows; ++r)
            chosen.push_back(all[static_cast<size_t>((e * rows + r) * choice.step + choice.first)]);
    }
    return to_bytes(chosen);
}

class Reader {
  public:
    Reader(Binder& binder, int layer) : b_(binder), layer_(layer) {}

    graph::ExpertMatrix read(std::string_view gguf, std::string_view hf, const Shape& shape, RowChoice choice) {
        const std::string name = fmt::format("mlp.experts.{}", hf);
        const std::string weight = fmt::format("{}.weight", gguf);
        graph::ExpertMatrix made;
        made.count = shape.rows;
        if (const format::ForeignTensor* const blocks = b_.find_bytes(layer_, name + "_blocks")) {
            const int64_t all_rows = shape.rows * choice.step;
            const format::ForeignTensor* const scales = b_.find_bytes(layer_, name + "_scales");
            if (blocks->shape != std::vector<int64_t>{shape.experts, all_rows, shape.cols / 32, 16} ||
                scales == nullptr || scales->shape != std::vector<int64_t>{shape.experts, all_rows, shape.cols / 32}) {
                b_.reject(
                    fmt::format("tensors '{}_blocks' and '{}_scales' of layer {} are not those of {} matrices of "
                                "{} x {} in MXFP4, as the configuration asks for",
                                name, name, layer_, shape.experts, all_rows, shape.cols));
                return {};
            }
            made.weight =
                b_.made(layer_, weight, DType::mxfp4, shape.dims(), join({blocks->data, scales->data}, shape, choice));
        } else {
            const TensorRecord* const numbers =
                b_.find(layer_, {"", name}, {shape.experts, shape.cols, shape.rows * choice.step});
            if (numbers == nullptr) return {};
            made.weight = b_.made(layer_, weight, numbers->dtype, shape.dims(), exchange(*numbers, shape, choice));
        }
        const TensorRecord* const bias =
            b_.find(layer_, {"", name + "_bias"}, {shape.experts, shape.rows * choice.step});
        if (bias == nullptr) return {};
        made.bias = b_.made(layer_, fmt::format("{}.bias", gguf), DType::f32, {shape.experts, shape.rows},
                            choose(*bias, shape.experts, shape.rows, choice));
        return made;
    }

  private:
    Binder& b_;
    int layer_;
};

}  // namespace

void bind_interleaved_experts(Binder& b, int layer, const ExpertConfig& cfg, int dim, ExpertLayer& to) {
    Reader reader(b, layer);
    const Shape wide{cfg.count, cfg.ffn_dim, dim};
    to.gate = reader.read("ffn_gate_exps", "gate_up_proj", wide, {.first = 0, .step = 2});
    to.up = reader.read("ffn_up_exps", "gate_up_proj", wide, {.first = 1, .step = 2});
    to.down = reader.read("ffn_down_exps", "down_proj", {cfg.count, dim, cfg.ffn_dim}, {});
}

}  // namespace tandem::models
