// y = c / 2^shift, to the nearest (halves to even) and within the limits of int8; count is a multiple of 32.
#include "npu/kernels/vector_math.h"

extern "C" void requantize_i32_i8(const int32_t* __restrict c, int8_t* __restrict y, int32_t count, int32_t shift) {
    tandem::npu::kernels::set_modes();
    for (int32_t i = 0; i < count; i += 32) {
        const aie::accum<acc32, 32> sums(aie::load_v<32>(c + i));
        aie::store_v(y + i, sums.to_vector<int8>(shift));
    }
}
