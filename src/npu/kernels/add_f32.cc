// y = a + b; count is a multiple of 16. y may be a or b.
#include "npu/kernels/vector_math.h"

using namespace tandem::npu::kernels;  // NOLINT(google-build-using-namespace): a kernel is a file of its own

extern "C" void add_f32(const float* a, const float* b, float* y, int32_t count) {
    for (int32_t i = 0; i < count; i += kStep) {
        aie::store_v(y + i, add(aie::load_v<kLanes>(a + i), aie::load_v<kLanes>(b + i)));
    }
}
