// y = activation(gate) * up; clamped: g * sigmoid(1.702 * g) * (1 + u) with g = min(gate, 7), u = up within -7 .. 7
#include <algorithm>
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

float clamped(float gate, float up) {
    constexpr float kLimit = 7.0F;
    const float g = std::min(gate, kLimit);
    return g / (1.0F + std::exp(-1.702F * g)) * (1.0F + std::clamp(up, -kLimit, kLimit));
}

float gated(op::Activation activation, float gate, float up) {
    switch (activation) {
        case op::Activation::silu:
            return silu(gate) * up;
        case op::Activation::gelu_tanh:
            return gelu_tanh(gate) * up;
        case op::Activation::gelu_erf:
            return gelu_erf(gate) * up;
        case op::Activation::clamped:
            return clamped(gate, up);
    }
    return up;
}

void glu(const op::Glu& op, const Args& args) {
    const float* gate = args.in[0].f32();
    const float* up = args.in[1].f32();
    float* y = args.out.f32();
    for (int64_t i = 0; i < args.out.rows * args.out.cols; ++i) y[i] = gated(op.activation, gate[i], up[i]);
}

const Registration<op::Glu> kGluReference{glu};

}  // namespace

}  // namespace tandem::cpu
