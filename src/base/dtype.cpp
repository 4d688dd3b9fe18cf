#include "base/dtype.h"

#include <array>
#include <cctype>

namespace tandem {

namespace {

// In the order of the enum.
constexpr std::array<DTypeInfo, std::size(kAllDTypes)> kInfo = {{
    {"f32", 1, 4},
    {"f16", 1, 2},
    {"bf16", 1, 2},
    {"i32", 1, 4},
    {"q8_0", 32, 34},    // f16 scale, 32 int8
    {"q4_0", 32, 18},    // f16 scale, 32 x 4 bit
    {"q4_1", 32, 20},    // f16 scale, f16 minimum, 32 x 4 bit
    {"q5_0", 32, 22},    // f16 scale, 32 high bits, 32 x 4 bit
    {"q5_1", 32, 24},    // f16 scale, f16 minimum, 32 high bits, 32 x 4 bit
    {"q4_k", 256, 144},  // 2 x f16, 8 x (6 bit scale, 6 bit minimum), 256 x 4 bit
    {"q5_k", 256, 176},  // as q4_k, and 256 high bits
    {"q6_k", 256, 210},  // 256 x (4 + 2) bit, 16 int8 scales, f16
}};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
        if (std::tolower(static_cast<unsigned char>(a[i])) != std::tolower(static_cast<unsigned char>(b[i])))
            return false;
    }
    return true;
}

}  // namespace

const DTypeInfo& info(DType dtype) {
    return kInfo[static_cast<size_t>(dtype)];
}

std::optional<DType> parse_dtype(std::string_view name) {
    for (DType dtype : kAllDTypes) {
        if (equal_ignoring_case(name, info(dtype).name)) return dtype;
    }
    return std::nullopt;
}

}  // namespace tandem
