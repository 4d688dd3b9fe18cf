#include "format/codebooks.h"

#include "vulkan/planes.h"

namespace tandem::vulkan {

namespace {

// Points of `count` levels of `bits` bits as words of four bytes.
template <size_t N, typename Level>
std::vector<uint32_t> spread(const std::array<uint16_t, N>& points, int count, int bits, const Level& level) {
    std::vector<uint32_t> words;
    words.reserve(N * static_cast<size_t>(count / 4));
    for (const uint16_t point : points) {
        for (int i = 0; i < count; i += 4) {
            uint32_t word = 0;
            for (int j = 0; j < 4; ++j) {
                const uint32_t of = static_cast<uint32_t>(point) >> (bits * (i + j)) & ((1U << bits) - 1U);
                word |= static_cast<uint32_t>(level(of)) << (8 * j);
            }
            words.push_back(word);
        }
    }
    return words;
}

}  // namespace

bool is_looked_up(DType dtype) {
    return dtype == DType::iq4_nl || dtype == DType::iq4_xs || dtype == DType::mxfp4 || dtype == DType::nvfp4 ||
           !code_book(dtype).empty();
}

std::vector<uint32_t> code_book(DType dtype) {
    const auto iq2 = [](uint32_t level) { return format::kIq2Levels[level]; };
    const auto iq1 = [](uint32_t level) { return 8 * level + 1; };  // 8 * (element + shift) + 9, less or more 1
    switch (dtype) {
        case DType::iq2_xxs:
            return spread(format::kIq2XxsGrid, 8, 2, iq2);
        case DType::iq2_xs:
            return spread(format::kIq2XsGrid, 8, 2, iq2);
        case DType::iq2_s:
            return spread(format::kIq2SGrid, 8, 2, iq2);
        case DType::iq3_xxs:
            return spread(format::kIq3XxsGrid, 4, 3, [](uint32_t level) { return format::kIq3XxsLevels[level]; });
        case DType::iq3_s:
            return spread(format::kIq3SGrid, 4, 3, [](uint32_t level) { return format::kIq3SLevels[level]; });
        case DType::iq1_s:
        case DType::iq1_m:
            return spread(format::kIq1Grid, 8, 2, iq1);
        default:
            return {};
    }
}

}  // namespace tandem::vulkan
