// Turns the pairs of every head of one token: (a, b) -> (a cos - b sin, a sin + b cos). cos_sin holds the cosines of
// all pairs and then the sines. layout 0: element i pairs with i + head_dim / 2; 1: 2i with 2i + 1. head_dim is a
// multiple of 32.
#include "npu/kernels/vector_math.h"

using namespace tandem::npu::kernels;  // NOLINT(google-build-using-namespace): a kernel is a file of its own

namespace {

struct Turned {
    Floats a, b;
};

Turned turn(const Floats& a, const Floats& b, const float* __restrict cosines, const float* __restrict sines) {
    const Split cos = split(aie::load_v<kLanes>(cosines));
    const Split sin = split(aie::load_v<kLanes>(sines));
    const Split first = split(a);
    const Split second = split(b);
    return {subtract(multiply(first, cos), multiply(second, sin)),
            multiply_into(Sums(multiply(first, sin)), second, cos).to_vector<float>()};
}

}  // namespace

extern "C" void rope_f32(const float* __restrict x, const float* __restrict cos_sin, float* __restrict y, int32_t heads,
                         int32_t head_dim, int32_t layout) {
    set_modes();
    const int32_t pairs = head_dim / 2;
    for (int32_t head = 0; head < heads; ++head, x += head_dim, y += head_dim) {
        for (int32_t i = 0; i < pairs; i += kStep) {
            if (layout == 0) {
                const Turned turned = turn(aie::load_v<kLanes>(x + i), aie::load_v<kLanes>(x + pairs + i), cos_sin + i,
                                           cos_sin + pairs + i);
                aie::store_v(y + i, turned.a);
                aie::store_v(y + pairs + i, turned.b);
            } else {
                const aie::vector<float, 2 * kLanes> both = aie::load_v<2 * kLanes>(x + 2 * i);
                const Turned turned =
                    turn(aie::filter_even(both), aie::filter_odd(both), cos_sin + i, cos_sin + pairs + i);
                const auto zipped = aie::interleave_zip(turned.a, turned.b, 1);
                aie::store_v(y + 2 * i, zipped.first);
                aie::store_v(y + 2 * i + kStep, zipped.second);
            }
        }
    }
}
