// y = a + b
#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void add(const op::Add& /*op*/, const Args& args) {
    const float* a = args.in[0].f32();
    const float* b = args.in[1].f32();
    float* y = args.out.f32();
    for (int64_t i = 0; i < args.out.rows * args.out.cols; ++i) y[i] = a[i] + b[i];
}

const Registration<op::Add> kAddReference{add};

}  // namespace

}  // namespace tandem::cpu
