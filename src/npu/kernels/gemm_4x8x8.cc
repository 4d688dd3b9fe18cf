// The product of a core that multiplies 4 x 8 by 8 x 8.
#include "npu/kernels/gemm_blocks.h"

using Gemm = tandem::npu::kernels::GemmBlocks<4>;

extern "C" void gemm_begin_4x8x8(const int8_t* __restrict x, const int8_t* __restrict w, int32_t* __restrict y,
                                 int32_t* __restrict block) {
    Gemm::begin(x, w, y, block);
}

extern "C" void gemm_add_4x8x8(const int8_t* __restrict x, const int8_t* __restrict w, int32_t* __restrict y,
                               const int32_t* __restrict block) {
    Gemm::add(x, w, y, block);
}

extern "C" void gemm_end_4x8x8(int32_t* __restrict y, const int32_t* __restrict block) {
    Gemm::end(y, block);
}
