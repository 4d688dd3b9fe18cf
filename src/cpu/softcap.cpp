// y = cap * tanh(x / cap)
#include <cmath>

#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void softcap(const op::Softcap& op, const Args& args) {
    const float* x = args.in[0].f32();
    float* y = args.out.f32();
    for (int64_t i = 0; i < args.out.rows * args.out.cols; ++i) y[i] = op.cap * std::tanh(x[i] / op.cap);
}

const Registration<op::Softcap> kSoftcapReference{softcap};

}  // namespace

}  // namespace tandem::cpu
