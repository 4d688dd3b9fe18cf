// y = activation(gate) * up. activation 0: SiLU, 1: GELU by tanh, 2: GELU by erf. count is a multiple of 16.
#include "npu/kernels/vector_math.h"

using namespace tandem::npu::kernels;  // NOLINT(google-build-using-namespace): a kernel is a file of its own

namespace {

Floats same(float value) {
    return aie::broadcast<float, kLanes>(value);
}

Floats product(const Floats& a, const Floats& b) {
    return multiply(halve(a), halve(b));
}
Floats product(const Floats& a, float b) {
    return product(a, same(b));
}

// x / (1 + 2^-y)
Floats gated(const Floats& x, const Floats& y) {
    return product(x, aie::inv(add(exp2(subtract(same(0.0F), y)), same(1.0F))));
}

constexpr float kLog2E = 1.44269504F;

Floats silu(const Floats& x) {
    return gated(x, product(x, kLog2E));
}

// 0.5 (1 + tanh(u)) is 1 / (1 + e^-2u); u = sqrt(2 / pi) (x + 0.044715 x^3)
Floats gelu_tanh(const Floats& x) {
    const Floats inner = add(product(product(x, x), 0.044715F), same(1.0F));
    return gated(x, product(product(x, inner), 2.0F * 0.797884561F * kLog2E));
}

// 0.5 (1 + erf(x / sqrt(2))) = 1 - tail for x >= 0 and tail below, where tail = t p(t) e^(-x^2 / 2) / 2 and
// t = 1 / (1 + c |x|): Abramowitz and Stegun 7.1.26, which is off by less than 1.5e-7.
Floats gelu_erf(const Floats& x) {
    constexpr float kSeries[] = {1.061405429F, -1.453152027F, 1.421413741F, -0.284496736F, 0.254829592F};
    const Floats size = magnitude_bits(x).cast_to<float>();
    const Floats t = aie::inv(add(product(size, 0.3275911F * 0.707106781F), same(1.0F)));
    Floats sum = same(kSeries[0]);
    for (int i = 1; i < 5; ++i) sum = add(product(sum, t), same(kSeries[i]));
    const Floats bell = exp2(product(product(x, x), -0.5F * kLog2E));
    const Floats tail = product(product(product(sum, t), bell), 0.5F);
    return product(x, aie::select(subtract(same(1.0F), tail), tail, aie::lt(x, 0.0F)));
}

}  // namespace

extern "C" void glu_f32(const float* __restrict gate, const float* __restrict up, float* __restrict y, int32_t count,
                        int32_t activation) {
    set_modes();
    for (int32_t i = 0; i < count; i += kStep) {
        const Floats x = aie::load_v<kLanes>(gate + i);
        const Floats active = activation == 0 ? silu(x) : activation == 1 ? gelu_tanh(x) : gelu_erf(x);
        aie::store_v(y + i, product(active, aie::load_v<kLanes>(up + i)));
    }
}
