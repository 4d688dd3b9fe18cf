// y = x / sqrt(mean(x^2) + eps) * weight for each row; row-major, cols a multiple of 16, eps as its bits.
#include "npu/kernels/vector_math.h"

using namespace tandem::npu::kernels;  // NOLINT(google-build-using-namespace): a kernel is a file of its own

extern "C" void rms_norm_f32(const float* __restrict x, const float* __restrict weight, float* __restrict y,
                             int32_t rows, int32_t cols, int32_t eps_bits) {
    set_modes();
    const float share = aie::inv(static_cast<float>(cols));
    for (int32_t row = 0; row < rows; ++row, x += cols, y += cols) {
        Sums squares = aie::zeros<accfloat, kLanes>();
        for (int32_t i = 0; i < cols; i += kStep) {
            const Split part = split(aie::load_v<kLanes>(x + i));
            squares = multiply_into(squares, part, part);
        }
        const float mean = aie::reduce_add(squares.to_vector<float>()) * share;
        const Split factor = split(aie::broadcast<float, kLanes>(aie::invsqrt(mean + float_of_bits(eps_bits))));
        for (int32_t i = 0; i < cols; i += kStep) {
            const Floats scaled = multiply(split(aie::load_v<kLanes>(x + i)), factor);
            aie::store_v(y + i, multiply(split(scaled), split(aie::load_v<kLanes>(weight + i))));
        }
    }
}
