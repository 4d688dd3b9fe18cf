// y = (1 + growth * ln(1 + floor(position / every))) * x
#include <cmath>

#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void scale_by_position(const op::ScaleByPosition& op, const Args& args) {
    const int32_t* positions = args.in[1].i32();
    for (int64_t r = 0; r < args.out.rows; ++r) {
        const float* x = args.in[0].f32(r);
        float* y = args.out.f32(r);
        const auto factor = static_cast<float>(1.0 + op.growth * std::log(1.0 + positions[r] / op.every));
        for (int64_t c = 0; c < args.out.cols; ++c) y[c] = factor * x[c];
    }
}

const Registration<op::ScaleByPosition> kScaleByPositionReference{scale_by_position};

}  // namespace

}  // namespace tandem::cpu
