#include "npu/designs/quantize_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::npu {

float quantize_row(std::span<const float> values, std::span<int8_t> row) {
    float largest = 0;
    bool finite = true;
    for (const float value : values) {
        largest = std::max(largest, std::abs(value));
        finite = finite && std::isfinite(value);
    }
    if (!finite) {
        std::fill(row.begin(), row.end(), int8_t{0});
        return std::numeric_limits<float>::quiet_NaN();
    }
    const float inverse = largest > 0 ? 127.0F / largest : 0.0F;
    for (size_t i = 0; i < values.size(); ++i) row[i] = static_cast<int8_t>(std::nearbyint(values[i] * inverse));
    return largest / 127.0F;
}

}  // namespace tandem::npu
