// y = activation(gate) * up
#include <cmath>
#include <numbers>

#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

float silu(float x) {
    return x / (1.0F + std::exp(-x));
}

float gelu_tanh(float x) {
    constexpr auto kSqrt2OverPi = static_cast<float>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    return 0.5F * x * (1.0F + std::tanh(kSqrt2OverPi * (x + 0.044715F * x * x * x)));
}

float gelu_erf(float x) {
    return 0.5F * x * (1.0F + std::erf(x / std::numbers::sqrt2_v<float>));
}

float activate(op::Activation activation, float x) {
    switch (activation) {
        case op::Activation::silu:
            return silu(x);
        case op::Activation::gelu_tanh:
            return gelu_tanh(x);
        case op::Activation::gelu_erf:
            return gelu_erf(x);
    }
    return x;
}

void glu(const op::Glu& op, const Args& args) {
    const float* gate = args.in[0].f32();
    const float* up = args.in[1].f32();
    float* y = args.out.f32();
    for (int64_t i = 0; i < args.out.rows * args.out.cols; ++i) y[i] = activate(op.activation, gate[i]) * up[i];
}

const Registration<op::Glu> kGluReference{glu};

}  // namespace

}  // namespace tandem::cpu
