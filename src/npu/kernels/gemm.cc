// y = x w^T in int8 with sums in int32, then times the scales of rows and columns, plus a bias: one block of a core.
// x is T(kTile,8) of [64][112], w is T(8,8) of [112][64], y is T(kTile,8) of [64][64]; kTile is 4 where the cores
// multiply 4 x 8 by 8 x 8, and 8 where they multiply 8 x 8 by 8 x 8: each kind of core has its own, the host both.
#include "npu/kernels/gemm_header.h"
#include "npu/kernels/loops.h"
#include "npu/kernels/vector_math.h"

using namespace tandem::npu;           // NOLINT(google-build-using-namespace): a kernel is a file of its own
using namespace tandem::npu::kernels;  // NOLINT(google-build-using-namespace)

namespace {

void copy_floats(const float* __restrict from, float* __restrict to, int32_t count) {
    LOOP_AT_LEAST(4)
    for (int32_t i = 0; i < count; i += kStep) aie::store_v(to + i, aie::load_v<kLanes>(from + i));
}

template <unsigned kTile>
struct Gemm {
    static constexpr int32_t kRowsOfTile = kTile;
    static constexpr int32_t kInnerTiles = kGemmInner / 8;
    static constexpr int32_t kColumnTiles = kGemmColumns / 8;
    static constexpr int32_t kTileOfX = kRowsOfTile * 8;
    static constexpr int32_t kTileOfY = kRowsOfTile * 8;
    static constexpr int32_t kTileOfW = 64;
    using Product = aie::mmul<kTile, 8, 8, int8, int8, acc32>;

    // y += x w of one object each. Two by two tiles are in registers, so that each load serves two products.
    static void add(const int8_t* __restrict x, const int8_t* __restrict w, int32_t* __restrict y,
                    const int32_t* __restrict block) {
        const int32_t rows = reinterpret_cast<const GemmBlock*>(block)->header.rows;
        for (int32_t i = 0; i < rows; i += 2 * kRowsOfTile) {
            const int8_t* __restrict left = x + i * kGemmInner;
            int32_t* __restrict upper = y + i * kGemmColumns;
            int32_t* __restrict lower = upper + kRowsOfTile * kGemmColumns;
            for (int32_t j = 0; j < kColumnTiles; j += 2, upper += 2 * kTileOfY, lower += 2 * kTileOfY)
                add_tiles(left, w + j * kTileOfW, upper, lower);
        }
    }

    // In place: sums become floats.
    static void end(int32_t* __restrict y, const int32_t* __restrict block) {
        set_modes();
        const auto* kept = reinterpret_cast<const GemmBlock*>(block);
        for (int32_t j = 0; j < kColumnTiles; ++j) {
            const aie::vector<float, 8> scales = aie::load_v<8>(kept->column_scales + j * 8);
            const aie::vector<float, 8> biases = aie::load_v<8>(kept->bias + j * 8);
            const Split column = split(aie::concat(scales, scales));
            const Sums start(aie::concat(biases, biases));
            LOOP_AT_LEAST(32)
            for (int32_t i = 0; i < kGemmRows; i += 2) {  // two rows of a tile are one vector
                int32_t* at = y + (i / kRowsOfTile * kColumnTiles + j) * kTileOfY + i % kRowsOfTile * 8;
                const Split scale =
                    split(multiply(split(two_rows(kept->row_scales[i], kept->row_scales[i + 1])), column));
                const Split sums = split(aie::to_float<float>(aie::load_v<kLanes>(at)));
                aie::store_v(at,
                             multiply_into(start, sums, scale).template to_vector<float>().template cast_to<int32>());
            }
        }
    }

  private:
    static void add_tiles(const int8_t* __restrict x0, const int8_t* __restrict w0, int32_t* __restrict upper,
                          int32_t* __restrict lower) {
        const int8_t* __restrict x1 = x0 + kInnerTiles * kTileOfX;
        Product c00(aie::load_v<kTileOfY>(upper));
        Product c01(aie::load_v<kTileOfY>(upper + kTileOfY));
        Product c10(aie::load_v<kTileOfY>(lower));
        Product c11(aie::load_v<kTileOfY>(lower + kTileOfY));
        LOOP_AT_LEAST(14)
        for (int32_t p = 0; p < kInnerTiles; ++p) {
            const aie::vector<int8, kTileOfX> left0 = aie::load_v<kTileOfX>(x0);
            const aie::vector<int8, kTileOfX> left1 = aie::load_v<kTileOfX>(x1);
            const aie::vector<int8, kTileOfW> right0 = aie::load_v<kTileOfW>(w0);
            const aie::vector<int8, kTileOfW> right1 = aie::load_v<kTileOfW>(w0 + kTileOfW);
            x0 += kTileOfX;
            x1 += kTileOfX;
            w0 += kColumnTiles * kTileOfW;
            c00.mac(left0, right0);
            c01.mac(left0, right1);
            c10.mac(left1, right0);
            c11.mac(left1, right1);
        }
        aie::store_v(upper, c00.template to_vector<int32>());
        aie::store_v(upper + kTileOfY, c01.template to_vector<int32>());
        aie::store_v(lower, c10.template to_vector<int32>());
        aie::store_v(lower + kTileOfY, c11.template to_vector<int32>());
    }
};

}  // namespace

// The first objects of x and w: the header and the scales.
extern "C" void gemm_begin(const int8_t* __restrict x, const int8_t* __restrict w, int32_t* __restrict y,
                           int32_t* __restrict block) {
    auto* kept = reinterpret_cast<GemmBlock*>(block);
    const auto* header = reinterpret_cast<const GemmHeader*>(x);
    kept->header.objects = header->objects;
    kept->header.rows = header->rows;
    const auto* row_scales = reinterpret_cast<const float*>(x + sizeof(GemmHeader));
    const auto* column_scales = reinterpret_cast<const float*>(w + sizeof(GemmHeader));
    copy_floats(row_scales, kept->row_scales, kGemmRows);
    copy_floats(column_scales, kept->column_scales, kGemmColumns);
    copy_floats(column_scales + kGemmColumns, kept->bias, kGemmColumns);
    const Ints zeros = aie::zeros<int32, kLanes>();
    LOOP_AT_LEAST(64)
    for (int32_t i = 0; i < kGemmRows * kGemmColumns; i += kStep) aie::store_v(y + i, zeros);
}

#if !defined(__AIE_ARCH__) || __AIE_ARCH__ == 20
extern "C" void gemm_add_4x8x8(const int8_t* __restrict x, const int8_t* __restrict w, int32_t* __restrict y,
                               const int32_t* __restrict block) {
    Gemm<4>::add(x, w, y, block);
}
extern "C" void gemm_end_4x8x8(int32_t* __restrict y, const int32_t* __restrict block) {
    Gemm<4>::end(y, block);
}
#endif

#if !defined(__AIE_ARCH__) || __AIE_ARCH__ == 21
extern "C" void gemm_add_8x8x8(const int8_t* __restrict x, const int8_t* __restrict w, int32_t* __restrict y,
                               const int32_t* __restrict block) {
    Gemm<8>::add(x, w, y, block);
}
extern "C" void gemm_end_8x8x8(int32_t* __restrict y, const int32_t* __restrict block) {
    Gemm<8>::end(y, block);
}
#endif
