// c += a b in int8 with sums in int32: a is T(4,8) of [m][k], b is T(8,8) of [k][n], c is T(4,8) of [m][n].
// m is a multiple of 8, k of 8, n of 16: two by two blocks are in registers, so that each load serves two products.
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): what the compiler of the array has
#include <aie_api/aie.hpp>

extern "C" void matmul_i8(const int8_t* __restrict a, const int8_t* __restrict b, int32_t* __restrict c, int32_t m,
                          int32_t k, int32_t n) {
    using Block = aie::mmul<4, 8, 8, int8, int8, acc32>;
    const int32_t inner = k / 8;
    const int32_t cols = n / 8;
    for (int32_t i = 0; i < m / 4; i += 2) {
        int32_t* __restrict upper = c + i * cols * 32;
        int32_t* __restrict lower = upper + cols * 32;
        for (int32_t j = 0; j < cols; j += 2) {
            const int8_t* __restrict a0 = a + i * inner * 32;
            const int8_t* __restrict a1 = a0 + inner * 32;
            const int8_t* __restrict b0 = b + j * 64;
            Block c00(aie::load_v<32>(upper));
            Block c01(aie::load_v<32>(upper + 32));
            Block c10(aie::load_v<32>(lower));
            Block c11(aie::load_v<32>(lower + 32));
            for (int32_t p = 0; p < inner; ++p) {
                const aie::vector<int8, 32> left0 = aie::load_v<32>(a0);
                const aie::vector<int8, 32> left1 = aie::load_v<32>(a1);
                const aie::vector<int8, 64> right0 = aie::load_v<64>(b0);
                const aie::vector<int8, 64> right1 = aie::load_v<64>(b0 + 64);
                a0 += 32;
                a1 += 32;
                b0 += cols * 64;
                c00.mac(left0, right0);
                c01.mac(left0, right1);
                c10.mac(left1, right0);
                c11.mac(left1, right1);
            }
            aie::store_v(upper, c00.to_vector<int32>());
            aie::store_v(upper + 32, c01.to_vector<int32>());
            aie::store_v(lower, c10.to_vector<int32>());
            aie::store_v(lower + 32, c11.to_vector<int32>());
            upper += 64;
            lower += 64;
        }
    }
}
