#include "base/dtype.h"

#include <array>
#include <cctype>

namespace tandem {

namespace {

constexpr std::array<DTypeInfo, std::size(kAllDTypes)> kInfo = {{
#define TANDEM_DTYPE(name, gguf, file_type, block, bytes, spare, quants, scales, high, deltas) \
    {#name, gguf, file_type, block, bytes, DType::spare, {quants, scales, high, deltas}},
#include "base/dtypes.inc"
#undef TANDEM_DTYPE
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
