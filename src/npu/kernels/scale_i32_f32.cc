// y = c * row_scale * col_scale, c and y T(4,8) of [m][n]: what an int8 product stands for. m is a multiple of 4,
// n of 8. With a bias, which comes behind the scales of the columns, that is added.
#include "npu/kernels/vector_math.h"

using namespace tandem::npu::kernels;  // NOLINT(google-build-using-namespace): a kernel is a file of its own

namespace {

template <bool kBias>
inline void scale(const int32_t* __restrict c, const float* __restrict row_scale, const float* __restrict col_scale,
                  float* __restrict y, int32_t m, int32_t n) {
    set_modes();
    for (int32_t j = 0; j < n / 8; ++j) {
        const aie::vector<float, 8> cols = aie::load_v<8>(col_scale + j * 8);
        const Split col = split(aie::concat(cols, cols));
        Sums start = aie::zeros<accfloat, kLanes>();
        if constexpr (kBias) {
            const aie::vector<float, 8> bias = aie::load_v<8>(col_scale + n + j * 8);
            start = Sums(aie::concat(bias, bias));
        }
        for (int32_t i = 0; i < m; i += 2) {  // two rows of a block are one vector
            const int32_t at = ((i / 4) * (n / 8) + j) * 32 + i % 4 * 8;
            const Split scales = split(multiply(split(two_rows(row_scale[i], row_scale[i + 1])), col));
            const Split sums = split(aie::to_float<float>(aie::load_v<kLanes>(c + at)));
            aie::store_v(y + at, multiply_into(start, sums, scales).to_vector<float>());
        }
    }
}

}  // namespace

extern "C" void scale_i32_f32(const int32_t* __restrict c, const float* __restrict row_scale,
                              const float* __restrict col_scale, float* __restrict y, int32_t m, int32_t n) {
    scale<false>(c, row_scale, col_scale, y, m, n);
}

extern "C" void scale_bias_i32_f32(const int32_t* __restrict c, const float* __restrict row_scale,
                                   const float* __restrict col_scale, float* __restrict y, int32_t m, int32_t n) {
    scale<true>(c, row_scale, col_scale, y, m, n);
}
