#include "npu/designs/library.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "npu/designs/trials.h"

namespace tandem::npu {
namespace {

constexpr std::string_view kGemm = "gemm_i8_";
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

// "gemm_i8_64x256x128": the numbers behind a prefix, if it is that one's.
std::optional<std::vector<int64_t>> shape_behind(std::string_view name, std::string_view prefix, size_t count) {
    if (!name.starts_with(prefix)) return std::nullopt;
    return parse_shape(name.substr(prefix.size()), count);
}

std::optional<GemmShape> gemm_shape(std::string_view name, const std::string& array) {
    const auto shape = shape_behind(name, kGemm, 3);
    if (!shape) return std::nullopt;
    return GemmShape{.m = (*shape)[0], .k = (*shape)[1], .n = (*shape)[2], .array = array};
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

}  // namespace

std::vector<DesignFamily> design_families() {
    return {{.pattern = "gemm_i8_MxKxN",
             .what = "y = x w^T + bias of int8 with a scale for each row, summed in int32, on the whole array",
             .examples = {"gemm_i8_64x256x256", "gemm_i8_512x2048x2048", "gemm_i8_1024x5376x21504",
                          "gemm_i8_1024x21504x5376"}},
            {.pattern = "attention_i8_TOKENSxHEADSxKVHEADSxHEADDIMxKEYS",
             .what = "flash attention of a chunk of tokens over int8 keys and values, causal, on the whole array",
             .examples = {"attention_i8_32x8x4x64x64", "attention_i8_512x32x16x128x2048",
                          "attention_i8_512x8x4x256x2048"}}};
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
    return no_such_design(name);
}

Result<Trial> make_trial(const std::string& name, const std::string& array, uint32_t seed) {
    if (const auto gemm = gemm_shape(name, array)) return gemm_trial(*gemm, seed);
    if (const auto attention = attention_shape(name, array)) return attention_trial(*attention, seed);
    return no_such_design(name);
}

}  // namespace tandem::npu
