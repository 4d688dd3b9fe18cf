// y[r][o] = sum over i of x[r][i] * weight[o][i], plus bias[o]
#include <vector>

#include "cpu/kernel.h"
#include "format/quant.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

// The sum is taken in double, so that another order of summation differs by its own rounding only.
float dot(const float* a, const float* b, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += double{a[i]} * b[i];
    return static_cast<float>(sum);
}

void linear(const op::Linear& /*op*/, const Args& args) {
    const Input& weight = args.in[0];
    const Input& x = args.in[1];
    const float* bias = args.in.size() > 2 ? args.in[2].f32() : nullptr;
    std::vector<float> w(static_cast<size_t>(weight.cols));
    for (int64_t o = 0; o < weight.rows; ++o) {
        format::decode_row(weight.dtype, weight.row(o), w.data(), weight.cols);
        for (int64_t r = 0; r < x.rows; ++r) {
            args.out.f32(r)[o] = dot(x.f32(r), w.data(), weight.cols) + (bias != nullptr ? bias[o] : 0.0F);
        }
    }
}

const Registration<op::Linear> kLinearReference{linear};

}  // namespace

}  // namespace tandem::cpu
