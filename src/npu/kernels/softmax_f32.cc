// y = softmax(x) for each row; row-major, cols a multiple of 16.
#include "npu/kernels/vector_math.h"

using namespace tandem::npu::kernels;  // NOLINT(google-build-using-namespace): a kernel is a file of its own

extern "C" void softmax_f32(const float* __restrict x, float* __restrict y, int32_t rows, int32_t cols) {
    set_modes();
    const Pair log2e = halve(aie::broadcast<float, kLanes>(1.44269504F));
    for (int32_t row = 0; row < rows; ++row, x += cols, y += cols) {
        Floats most = aie::load_v<kLanes>(x);
        for (int32_t i = kStep; i < cols; i += kStep) most = aie::max(most, aie::load_v<kLanes>(x + i));
        const Floats largest = aie::broadcast<float, kLanes>(aie::reduce_max(most));
        Sums sum = aie::zeros<accfloat, kLanes>();
        for (int32_t i = 0; i < cols; i += kStep) {
            const Floats power = exp2(multiply(halve(subtract(aie::load_v<kLanes>(x + i), largest)), log2e));
            sum = aie::add(sum, power);
            aie::store_v(y + i, power);
        }
        const float factor = aie::inv(aie::reduce_add(sum.to_vector<float>()));
        const Pair factors = halve(aie::broadcast<float, kLanes>(factor));
        for (int32_t i = 0; i < cols; i += kStep) {
            aie::store_v(y + i, multiply(halve(aie::load_v<kLanes>(y + i)), factors));
        }
    }
}
