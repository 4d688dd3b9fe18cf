// Turns pair i of every head by the angle position * inv_freq[i]:
//   (a, b) -> magnitude * (a cos - b sin, a sin + b cos)
#include <algorithm>
#include <cmath>

#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void turn_head(const op::Rope& op, int32_t position, const float* x, float* y) {
    const auto pairs = static_cast<int64_t>(op.inv_freq.size());
    std::copy_n(x, op.head_dim, y);
    for (int64_t i = 0; i < pairs; ++i) {
        const int64_t a = op.layout == op::RopeLayout::half ? i : 2 * i;
        const int64_t b = op.layout == op::RopeLayout::half ? i + pairs : 2 * i + 1;
        // In double: at position 100000 the rounding of an f32 angle alone would be 0.004.
        const double angle = static_cast<double>(position) * op.inv_freq[static_cast<size_t>(i)];
        const auto cos = static_cast<float>(std::cos(angle)) * op.magnitude;
        const auto sin = static_cast<float>(std::sin(angle)) * op.magnitude;
        y[a] = x[a] * cos - x[b] * sin;
        y[b] = x[a] * sin + x[b] * cos;
    }
}

void rope(const op::Rope& op, const Args& args) {
    const Input& x = args.in[0];
    const int32_t* positions = args.in[1].i32();
    for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t head = 0; head < x.cols; head += op.head_dim) {
            turn_head(op, positions[r], x.f32(r) + head, args.out.f32(r) + head);
        }
    }
}

const Registration<op::Rope> kRopeReference{rope};

}  // namespace

}  // namespace tandem::cpu
