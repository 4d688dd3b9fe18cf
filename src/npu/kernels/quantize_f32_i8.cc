// Floats as int8 with a scale for each row: the largest magnitude becomes 127, halves go to even. A row of zeros has
// the scale zero. Row-major; cols is a multiple of 16.
#include "npu/kernels/vector_math.h"

using namespace tandem::npu::kernels;  // NOLINT(google-build-using-namespace): a kernel is a file of its own

namespace {

// The scale of `cols` floats that become int8.
float quantize_row(const float* __restrict x, int8_t* __restrict q, int32_t cols) {
    Ints largest = aie::zeros<int32, kLanes>();
    for (int32_t i = 0; i < cols; i += kStep) {
        largest = aie::max(largest, magnitude_bits(aie::load_v<kLanes>(x + i)));
    }
    const float magnitude = float_of_bits(aie::reduce_max(largest));
    const float factor = magnitude > 0.0F ? 127.0F * aie::inv(magnitude) : 0.0F;
    const Split factors = split(aie::broadcast<float, kLanes>(factor));
    for (int32_t i = 0; i < cols; i += kStep) {
        const Floats scaled = multiply(split(aie::load_v<kLanes>(x + i)), factors);
        const aie::accum<acc32, kLanes> rounded(aie::to_fixed<int32>(scaled));
        aie::store_v(q + i, rounded.to_vector<int8>());
    }
    return magnitude * (1.0F / 127.0F);
}

}  // namespace

extern "C" void quantize_f32_i8(const float* __restrict x, int8_t* __restrict q, float* __restrict scale, int32_t rows,
                                int32_t cols) {
    set_modes();
    for (int32_t row = 0; row < rows; ++row) scale[row] = quantize_row(x + row * cols, q + row * cols, cols);
}

// The blocks of 32 of the int8 cache.
extern "C" void quantize_blocks_f32_i8(const float* __restrict x, int8_t* __restrict q, float* __restrict scale,
                                       int32_t blocks) {
    quantize_f32_i8(x, q, scale, blocks, 32);
}
