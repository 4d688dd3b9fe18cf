#include "npu/designs/library.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "npu/designs/trials.h"

namespace tandem::npu {
namespace {

constexpr std::string_view kGemm = "gemm_i8_";
constexpr std::string_view kGemmBias = "gemm_bias_i8_";
constexpr int64_t kMostOfShape = 1 << 28;  // the designs have limits of their own
constexpr std::string_view kAttention = "attention_i8_";

// "64x256x128": as many numbers as asked for, none of them beyond what any model has.
std::optional<std::vector<int64_t>> parse_shape(std::string_view text, size_t count) {
    std::vector<int64_t> numbers;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (true) {
        int64_t number = 0;
        const auto [next, error] = std::from_chars(at, end, number);
        if (error != std::errc() || number < 1 || number > kMostOfShape) return std::nullopt;
        numbers.push_back(number);
        at = next;
        if (at == end) break;
        if (*at++ != 'x') return std::nullopt;
    }
    if (numbers.size() != count) return std::nullopt;
    return numbers;
}

// "silu_glu_f32_4096": the numbers behind a prefix, if it is that one's.
std::optional<std::vector<int64_t>> shape_behind(std::string_view name, std::string_view prefix, size_t count) {
    if (!name.starts_with(prefix)) return std::nullopt;
    return parse_shape(name.substr(prefix.size()), count);
}

std::optional<GemmShape> gemm_shape(std::string_view name, const std::string& array) {
    for (const bool bias : {false, true}) {
        if (const auto shape = shape_behind(name, bias ? kGemmBias : kGemm, 3))
            return GemmShape{.m = (*shape)[0], .k = (*shape)[1], .n = (*shape)[2], .array = array, .bias = bias};
    }
    return std::nullopt;
}

std::optional<AttentionShape> attention_shape(std::string_view name, const std::string& array) {
    const auto shape = shape_behind(name, kAttention, 5);
    if (!shape) return std::nullopt;
    return AttentionShape{.tokens = (*shape)[0],
                          .heads = (*shape)[1],
                          .kv_heads = (*shape)[2],
                          .head_dim = (*shape)[3],
                          .keys = (*shape)[4],
                          .array = array};
}

struct RowFamilyNames {
    RowFamily family;
    std::string_view prefix;
    std::string_view pattern;  // behind it
    std::string_view what;
    std::vector<std::string_view> examples;  // behind it too

    size_t numbers() const { return 1 + static_cast<size_t>(std::count(pattern.begin(), pattern.end(), 'x')); }
};

const std::vector<RowFamilyNames>& row_families() {
    static const std::vector<RowFamilyNames> families{
        {RowFamily::rms_norm,
         "rms_norm_f32_",
         "ROWSxCOLS",
         "x / sqrt(mean(x^2) + eps) * weight for each row",
         {"32x256", "1024x5376"}},
        {RowFamily::softmax, "softmax_f32_", "ROWSxCOLS", "softmax of each row", {"32x256", "512x4096"}},
        {RowFamily::rope,
         "rope_f32_",
         "TOKENSxHEADSxHEADDIM",
         "turns the two halves of each head by its position",
         {"32x4x64", "1024x32x128"}},
        {RowFamily::add, "add_f32_", "COUNT", "sums of two vectors", {"65536", "5505024"}},
        {RowFamily::silu_glu, "silu_glu_f32_", "COUNT", "SiLU(gate) * up", {"65536", "22020096"}},
        {RowFamily::gelu_glu, "gelu_glu_f32_", "COUNT", "GELU(gate) * up, by tanh", {"65536", "22020096"}},
        {RowFamily::quantize,
         "quantize_f32_i8_",
         "ROWSxCOLS",
         "rows to int8 by their largest magnitude / 127",
         {"32x256", "1024x5376"}},
    };
    return families;
}

struct RowChoice {
    RowFamily family;
    std::vector<int64_t> shape;
};

std::optional<RowChoice> row_choice(std::string_view name) {
    for (const RowFamilyNames& names : row_families()) {
        if (auto shape = shape_behind(name, names.prefix, names.numbers())) return RowChoice{names.family, *shape};
    }
    return std::nullopt;
}

}  // namespace

std::vector<DesignFamily> design_families() {
    std::vector<DesignFamily> families{
        {.pattern = "gemm_i8_MxKxN",
         .what = "y = x w^T of int8 with a scale for each row, summed in int32, on the whole array",
         .examples = {"gemm_i8_64x256x256", "gemm_i8_512x2048x2048", "gemm_i8_1024x5376x21504",
                      "gemm_i8_1024x21504x5376"}},
        {.pattern = "gemm_bias_i8_MxKxN",
         .what = "the same and a bias for each column of y",
         .examples = {"gemm_bias_i8_64x256x256"}},
        {.pattern = "attention_i8_TOKENSxHEADSxKVHEADSxHEADDIMxKEYS",
         .what = "flash attention of a chunk of tokens over int8 keys and values, causal, on the whole array",
         .examples = {"attention_i8_32x8x4x64x64", "attention_i8_512x32x16x128x2048"}}};
    for (const RowFamilyNames& names : row_families()) {
        DesignFamily family{.pattern = fmt::format("{}{}", names.prefix, names.pattern),
                            .what = std::string(names.what),
                            .examples = {}};
        for (const std::string_view example : names.examples)
            family.examples.push_back(fmt::format("{}{}", names.prefix, example));
        families.push_back(std::move(family));
    }
    return families;
}

namespace {

Error no_such_design(const std::string& name) {
    for (const DesignFamily& family : design_families()) {
        const std::string prefix = family.pattern.substr(0, family.pattern.find_last_of('_') + 1);
        if (name.starts_with(prefix))
            return fail("there is no design '{}': {} is one such as {}, each number 1 to {}", name, family.pattern,
                        family.examples.front(), kMostOfShape);
    }
    return fail("there is no design '{}': `tandem npu list` names them", name);
}

}  // namespace

Result<Design> make_design(const std::string& name, const std::string& array) {
    if (const auto gemm = gemm_shape(name, array)) {
        const GemmLayout layout = TRY(gemm_layout(*gemm));
        return gemm_i8(layout);
    }
    if (const auto attention = attention_shape(name, array)) {
        const AttentionLayout layout = TRY(attention_layout(*attention));
        return attention_i8(layout);
    }
    if (const auto rows = row_choice(name)) {
        RowDesign made = TRY(row_family_design(rows->family, rows->shape, array));
        return std::move(made.design);
    }
    return no_such_design(name);
}

Result<Trial> make_trial(const std::string& name, const std::string& array, uint32_t seed) {
    if (const auto gemm = gemm_shape(name, array)) return gemm_trial(*gemm, seed);
    if (const auto attention = attention_shape(name, array)) return attention_trial(*attention, seed);
    if (const auto rows = row_choice(name)) return row_trial(rows->family, rows->shape, array, seed);
    return no_such_design(name);
}

}  // namespace tandem::npu
