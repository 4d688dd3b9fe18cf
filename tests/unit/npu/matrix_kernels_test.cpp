#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "unit/npu/kernel_call.h"

namespace tandem::npu {
namespace {

using testing::HasSubstr;

// What a block holds, and what its two first objects say.
struct Block {
    TileBuffer<int8_t> x_header = TileBuffer<int8_t>(kGemmRows * kGemmInner);
    TileBuffer<int8_t> w_header = TileBuffer<int8_t>(kGemmColumns * kGemmInner);
    TileBuffer<int32_t> y = TileBuffer<int32_t>(kGemmRows * kGemmColumns, -1);
    TileBuffer<int32_t> kept = TileBuffer<int32_t>(sizeof(GemmBlock) / sizeof(int32_t), -1);
    TileBuffer<float> rows, columns, bias;

    Block(std::mt19937& random, int32_t objects, int32_t used_rows)
        : rows(random_floats(random, kGemmRows, 1e-2F)),
          columns(random_floats(random, kGemmColumns, 1e-3F)),
          bias(random_floats(random, kGemmColumns)) {
        const GemmHeader header{.objects = objects, .rows = used_rows};
        std::memcpy(x_header.data(), &header, sizeof header);
        put(rows, x_header.data() + sizeof header);
        put(columns, w_header.data() + sizeof header);
        put(bias, w_header.data() + sizeof header + columns.size() * sizeof(float));
    }

    static void put(const TileBuffer<float>& from, int8_t* to) {
        std::memcpy(to, from.data(), from.size() * sizeof(float));
    }
};

void expect_product(int tile, int used_rows) {
    std::mt19937 random(1);
    const std::string shape = fmt::format("{}x8x8", tile);
    Block block(random, 2, used_rows);
    std::vector<TileBuffer<int8_t>> x, w;
    call("gemm_begin", block.x_header, block.w_header, block.y, block.kept);
    EXPECT_EQ(block.kept[0], 2);
    for (int object = 0; object < 2; ++object) {
        x.push_back(random_bytes(random, kGemmRows * kGemmInner));
        w.push_back(random_bytes(random, kGemmColumns * kGemmInner));
        const Counts counts = call("gemm_add_" + shape, x.back(), w.back(), block.y, block.kept);
        EXPECT_EQ(counts.macs, static_cast<uint64_t>(used_rows) * kGemmInner * kGemmColumns);
    }
    const TileBuffer<int32_t> sums = block.y;
    call("gemm_end_" + shape, block.y, block.kept);
    for (int row = 0; row < used_rows; ++row) {
        for (int col = 0; col < kGemmColumns; ++col) {
            int64_t sum = 0;
            for (int object = 0; object < 2; ++object) {
                for (int i = 0; i < kGemmInner; ++i)
                    sum += x[object][tiled(tile, 8, kGemmInner, row, i)] * w[object][tiled(8, 8, kGemmColumns, i, col)];
            }
            const size_t at = tiled(tile, 8, kGemmColumns, row, col);
            ASSERT_EQ(sums[at], sum) << row << ", " << col;
            const double scaled = static_cast<double>(sum) * block.rows[row] * block.columns[col];
            const double size = std::abs(scaled) + std::abs(block.bias[col]);
            ASSERT_NEAR(std::bit_cast<float>(block.y[at]), scaled + block.bias[col], size * std::ldexp(1.0, -20));
        }
    }
}

TEST(GemmKernels, MultiplyExactlyAndScale) {
    for (const int tile : {4, 8})
        for (const int rows : {16, 64}) expect_product(tile, rows);
}

TEST(GemmKernels, TheModelOfTheCoreAllowsNoMoreThanItsPeak) {
    std::mt19937 random(1);
    Block block(random, 1, kGemmRows);
    TileBuffer<int8_t> x(kGemmRows * kGemmInner);
    TileBuffer<int8_t> w(kGemmColumns * kGemmInner);
    call("gemm_begin", block.x_header, block.w_header, block.y, block.kept);
    const Counts counts = call("gemm_add_4x8x8", x, w, block.y, block.kept);
    EXPECT_EQ(counts.matrix_cycles, 64U * 112 * 64 / 256);
    EXPECT_GT(counts.cycles(), counts.matrix_cycles);
    EXPECT_EQ(counts.store_bytes, 4U * 64 * 64);
    // Operands in one bank take twice as long to load, and then it is the loads that decide.
    EXPECT_GT(counts.cycles({.matrix_products = 1, .load_bytes = 32}), counts.cycles());
    EXPECT_LT(counts.cycles({.matrix_products = 2, .load_bytes = 128}), counts.cycles());
}

TEST(Kernels, AreFoundByName) {
    EXPECT_EQ(find_kernel("gemm_add_9x8x8"), nullptr);
    const Kernel* kernel = find_kernel("gemm_add_4x8x8");
    ASSERT_NE(kernel, nullptr);
    EXPECT_EQ(kernel->source, "gemm.cc");
    EXPECT_EQ(kernel->mmul, "4x8x8 i8");
    EXPECT_EQ(kernel->parameters[0], (KernelParameter{.kind = ArgumentKind::input, .element = Element::i8}));
    EXPECT_EQ(kernel->parameters[2], (KernelParameter{.kind = ArgumentKind::output, .element = Element::i32}));
    EXPECT_EQ(kernel->parameters[3].kind, ArgumentKind::input);
    EXPECT_EQ(find_kernel("attention_end")->parameters[2].kind, ArgumentKind::number);
}

std::string refusal(std::string_view name, const std::vector<KernelArgument>& arguments) {
    const Status allowed = check_call(*find_kernel(name), arguments);
    return allowed ? "" : allowed.error().message;
}

TEST(Kernels, RefuseWhatTheyCannotDo) {
    TileBuffer<float> out(8 * 32);
    TileBuffer<float> state(64);
    EXPECT_THAT(refusal("attention_end", {argument(out)}), HasSubstr("1 arguments given, 4 needed"));
    EXPECT_THAT(refusal("attention_end", {argument(out), argument(state), argument(state), argument(32)}),
                HasSubstr("argument 2 must be a number"));
    EXPECT_THAT(refusal("attention_end", {argument(out), argument(state), argument(7), argument(32)}),
                HasSubstr("queries is 7: a multiple of 8"));
    EXPECT_THAT(refusal("attention_end", {argument(out), argument(state), argument(8), argument(64)}),
                HasSubstr("has 1024 bytes: 2048 are needed"));
    KernelArgument crooked = argument(out);
    crooked.data = out.data() + 1;
    EXPECT_THAT(refusal("attention_end", {crooked, argument(state), argument(8), argument(32)}),
                HasSubstr("multiple of 64 bytes"));
    EXPECT_EQ(refusal("attention_end", {argument(out), argument(state), argument(8), argument(32)}), "");
    std::mt19937 random(1);
    Block block(random, 1, 20);
    const std::vector<KernelArgument> arguments{argument(block.x_header), argument(block.w_header), argument(block.y),
                                                argument(block.kept)};
    EXPECT_THAT(refusal("gemm_begin", arguments), HasSubstr("a block of 20 rows"));
}

}  // namespace
}  // namespace tandem::npu
