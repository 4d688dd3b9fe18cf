// y[i] = x[i] / sqrt(mean(x^2) + eps) * weight[i], over each group of `width` elements of a row; the weight may be left
// out
#include <cmath>

#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void rms_norm(const op::RmsNorm& op, const Args& args) {
    const float* x = args.in[0].f32();
    const float* weight = args.in.size() > 1 ? args.in[1].f32() : nullptr;
    float* y = args.out.f32();
    const int64_t width = args.in.size() > 1 ? args.in[1].cols : op.width;
    const int64_t groups = args.out.rows * args.out.cols / width;
    for (int64_t g = 0; g < groups; ++g, x += width, y += width) {
        double squares = 0.0;
        for (int64_t i = 0; i < width; ++i) squares += double{x[i]} * x[i];
        const auto scale = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(width) + op.eps));
        for (int64_t i = 0; i < width; ++i) y[i] = x[i] * scale * (weight != nullptr ? weight[i] : 1.0F);
    }
}

const Registration<op::RmsNorm> kRmsNormReference{rms_norm};

}  // namespace

}  // namespace tandem::cpu
