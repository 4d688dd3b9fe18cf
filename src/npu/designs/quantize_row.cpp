#include "npu/designs/quantize_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>

namespace tandem::npu {

namespace {

// The compiler makes vector code of loops over so many elements.
constexpr size_t kLanes = 16;

constexpr int32_t kMagnitude = 0x7fffffff;  // all but the sign: ordered as the numbers are
constexpr int32_t kInfinite = 0x7f800000;   // and above: no numbers

// Next to this number floats are whole: adding it rounds half to even, and leaves the integer in the last bits.
constexpr float kWhole = 12582912.0F;

int32_t largest_magnitude(std::span<const float> values) {
    std::array<int32_t, kLanes> lanes{};
    size_t i = 0;
    for (; i + kLanes <= values.size(); i += kLanes) {
        for (size_t lane = 0; lane < kLanes; ++lane)
            lanes[lane] = std::max(lanes[lane], std::bit_cast<int32_t>(values[i + lane]) & kMagnitude);
    }
    int32_t largest = *std::max_element(lanes.begin(), lanes.end());
    for (; i < values.size(); ++i) largest = std::max(largest, std::bit_cast<int32_t>(values[i]) & kMagnitude);
    return largest;
}

// Of kLanes numbers below 128.
void round_lanes(const float* values, float inverse, int8_t* row) {
    std::array<int32_t, kLanes> whole;
    for (size_t lane = 0; lane < kLanes; ++lane)
        whole[lane] = std::bit_cast<int32_t>(values[lane] * inverse + kWhole) - std::bit_cast<int32_t>(kWhole);
    std::array<int8_t, kLanes> bytes;
    for (size_t lane = 0; lane < kLanes; ++lane) bytes[lane] = static_cast<int8_t>(whole[lane]);
    std::memcpy(row, bytes.data(), kLanes);
}

}  // namespace

float quantize_row(std::span<const float> values, std::span<int8_t> row) {
    const int32_t magnitude = largest_magnitude(values);
    if (magnitude >= kInfinite) {
        std::fill(row.begin(), row.end(), int8_t{0});
        return std::numeric_limits<float>::quiet_NaN();
    }
    const float largest = std::bit_cast<float>(magnitude);
    const float inverse = largest > 0 ? 127.0F / largest : 0.0F;
    size_t i = 0;
    for (; i + kLanes <= values.size(); i += kLanes) round_lanes(values.data() + i, inverse, row.data() + i);
    if (i == values.size()) return largest / 127.0F;
    std::array<float, kLanes> last{};
    std::array<int8_t, kLanes> last_row;
    std::copy(values.begin() + static_cast<std::ptrdiff_t>(i), values.end(), last.begin());
    round_lanes(last.data(), inverse, last_row.data());
    std::copy_n(last_row.begin(), values.size() - i, row.begin() + static_cast<std::ptrdiff_t>(i));
    return largest / 127.0F;
}

}  // namespace tandem::npu
