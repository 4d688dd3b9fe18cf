// y = factor * x + bias
#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void scale(const op::Scale& op, const Args& args) {
    const float* bias = args.in.size() > 1 ? args.in[1].f32() : nullptr;
    for (int64_t r = 0; r < args.out.rows; ++r) {
        const float* x = args.in[0].f32(r);
        float* y = args.out.f32(r);
        for (int64_t c = 0; c < args.out.cols; ++c) y[c] = op.factor * x[c] + (bias != nullptr ? bias[c] : 0.0F);
    }
}

const Registration<op::Scale> kScaleReference{scale};

}  // namespace

}  // namespace tandem::cpu
