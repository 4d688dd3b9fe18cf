// c = 0; count is a multiple of 16.
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): what the compiler of the array has
#include <aie_api/aie.hpp>

extern "C" void zero_i32(int32_t* __restrict c, int32_t count) {
    const aie::vector<int32, 16> zeros = aie::zeros<int32, 16>();
    for (int32_t i = 0; i < count; i += 16) aie::store_v(c + i, zeros);
}
