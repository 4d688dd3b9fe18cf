#include <algorithm>
#include <cmath>
#include <iterator>

#include "format/quant.h"
#include "graph/ops.h"
#include "ops/op_test.h"

namespace tandem::test {

namespace {

std::vector<DType> weight_types() {
    std::vector<DType> types;
    for (DType dtype : kAllDTypes) {
        if (format::has_encoder(dtype)) types.push_back(dtype);
    }
    return types;
}

// Weights of these types are multiplied with activations rounded to 8 bits.
bool rounds_activations(DType dtype) {
    constexpr DType kRounding[] = {DType::q4_0,   DType::q4_1,   DType::q5_0, DType::q5_1, DType::q8_0,
                                   DType::q2_k,   DType::q3_k,   DType::q4_k, DType::q5_k, DType::q6_k,
                                   DType::iq4_nl, DType::iq4_xs, DType::mxfp4};
    return std::find(std::begin(kRounding), std::end(kRounding), dtype) != std::end(kRounding);
}

Tolerance tolerance(DType dtype, int64_t cols) {
    return rounds_activations(dtype) ? Tolerance::int8_activations(cols) : Tolerance::reduction(cols);
}

// Numbers that 8 bits hold exactly: whole multiples of a power of two with a 127 in every 16.
HostTensor whole_numbers(Rng& rng, int64_t rows, int64_t cols) {
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (size_t i = 0; i < values.size(); ++i) {
        const int whole = i % 16 == 7 ? 127 : rng.below(255) - 127;
        values[i] = static_cast<float>(whole) * 0x1p-6F;
    }
    return tensor({rows, cols}, values);
}

}  // namespace

TEST(Linear, ReferenceComputesAHandWorkedProduct) {
    const HostTensor w = tensor({2, 3}, {1, 2, 3, -1, 0, 1});
    const HostTensor x = tensor({2, 3}, {1, 10, 100, 2, 0, -2});
    const HostTensor bias = tensor({2}, {0.5F, -0.25F});
    EXPECT_EQ(run_op(devices().front().use(), op::Linear{}, {w, x}), (std::vector<float>{321, 99, -4, -4}));
    EXPECT_EQ(run_op(devices().front().use(), op::Linear{}, {w, x, bias}),
              (std::vector<float>{321.5F, 98.75F, -3.5F, -4.25F}));
}

TEST(Linear, EveryWeightTypeAndRowCountAgrees) {
    Rng rng(1);
    for (DType dtype : weight_types()) {
        const HostTensor w = uniform(rng, dtype, {67, 512});
        for (int64_t rows : {1, 2, 3, 4, 5, 33}) {
            SCOPED_TRACE(fmt::format("{}, {} rows", name(dtype), rows));
            const HostTensor x = uniform(rng, DType::f32, {rows, 512});
            expect_same_on_every_device(op::Linear{}, {w, x}, tolerance(dtype, 512));
        }
    }
}

TEST(Linear, ProductsOfWholeNumbersAreNotRounded) {
    Rng rng(2);
    for (DType dtype : weight_types()) {
        const HostTensor w = uniform(rng, dtype, {67, 512});
        for (int64_t rows : {1, 2, 3, 4, 5, 7, 8, 12, 33}) {
            SCOPED_TRACE(fmt::format("{}, {} rows", name(dtype), rows));
            expect_same_on_every_device(op::Linear{}, {w, whole_numbers(rng, rows, 512)}, Tolerance::reduction(512));
        }
    }
}

TEST(Linear, EveryNumberOfBlocksAndRaggedColumns) {
    Rng rng(3);
    for (DType dtype : weight_types()) {
        const int64_t block = info(dtype).block;
        std::vector<int64_t> all_cols = {block, 2 * block, 3 * block, 5 * block, 13 * block, 20 * block, 36 * block};
        if (block == 1) all_cols = {1, 2, 15, 31, 97, 1025};
        for (int64_t cols : all_cols) {
            const HostTensor w = uniform(rng, dtype, {3, cols});
            for (int64_t rows : {1, 2, 4, 9}) {
                SCOPED_TRACE(fmt::format("{}, {} cols, {} rows", name(dtype), cols, rows));
                const bool whole = rounds_activations(dtype);
                const HostTensor x = whole ? whole_numbers(rng, rows, cols) : uniform(rng, DType::f32, {rows, cols});
                expect_same_on_every_device(op::Linear{}, {w, x}, Tolerance::reduction(cols));
            }
        }
    }
}

TEST(Linear, EveryCountOfOutputs) {
    Rng rng(4);
    for (DType dtype : weight_types()) {
        for (int64_t outputs : {1, 2, 3, 15, 16, 17, 31, 33, 64, 65, 130}) {
            const HostTensor w = uniform(rng, dtype, {outputs, 256});
            for (int64_t rows : {1, 3, 17}) {
                SCOPED_TRACE(fmt::format("{}, {} outputs, {} rows", name(dtype), outputs, rows));
                expect_same_on_every_device(op::Linear{}, {w, whole_numbers(rng, rows, 256)},
                                            Tolerance::reduction(256));
            }
        }
    }
}

TEST(Linear, RealModelSizes) {
    Rng rng(5);
    for (DType dtype : weight_types()) {
        const HostTensor w = uniform(rng, dtype, {20, 5376});
        for (int64_t rows : {1, 6}) {
            SCOPED_TRACE(fmt::format("{}, {} rows", name(dtype), rows));
            expect_same_on_every_device(op::Linear{}, {w, uniform(rng, DType::f32, {rows, 5376})},
                                        tolerance(dtype, 5376));
        }
    }
}

// Rows are cut into pieces, and outputs into tiles, as they are by kernels for many rows: several of both.
TEST(Linear, PiecesOfRowsAndTilesOfOutputs) {
    Rng rng(10);
    for (DType dtype : {DType::f16, DType::q4_0, DType::q8_0, DType::q6_k}) {
        for (int64_t cols : {2304, 4096}) {
            SCOPED_TRACE(fmt::format("{}, {} cols", name(dtype), cols));
            const HostTensor w = uniform(rng, dtype, {150, cols});
            expect_same_on_every_device(op::Linear{}, {w, uniform(rng, DType::f32, {7, cols})}, tolerance(dtype, cols));
        }
    }
}

TEST(Linear, BiasIsAdded) {
    Rng rng(6);
    for (DType dtype : {DType::f32, DType::bf16, DType::q4_0, DType::q8_0, DType::q6_k}) {
        const HostTensor w = uniform(rng, dtype, {19, 256});
        const HostTensor bias = uniform(rng, DType::f32, {19}, -10.0F, 10.0F);
        for (int64_t rows : {1, 5, 33}) {
            SCOPED_TRACE(fmt::format("{}, {} rows", name(dtype), rows));
            expect_same_on_every_device(op::Linear{}, {w, whole_numbers(rng, rows, 256), bias},
                                        Tolerance::reduction(256));
        }
    }
}

TEST(Linear, ARowOfZerosGivesZerosAndHugeActivationsStayFinite) {
    Rng rng(7);
    for (DType dtype : weight_types()) {
        const HostTensor w = uniform(rng, dtype, {17, 256});
        std::vector<float> values(2 * 256, 0.0F);
        for (size_t i = 256; i < values.size(); ++i) values[i] = rng.uniform(-1e30F, 1e30F);
        for (const Device& device : devices()) {
            const std::vector<float> y = run_op(device.use(), op::Linear{}, {w, tensor({2, 256}, values)});
            for (size_t i = 0; i < y.size(); ++i) {
                EXPECT_TRUE(i < 17 ? y[i] == 0.0F : std::isfinite(y[i])) << device.name;
            }
        }
    }
}

// The result of a row must not depend on what else is in the batch, up to rounding.
TEST(Linear, ARowInABatchIsAsAlone) {
    Rng rng(8);
    const HostTensor w = uniform(rng, DType::q4_0, {40, 128});
    const HostTensor x = whole_numbers(rng, 33, 128);
    const std::vector<float> values = x.values();
    for (const Device& device : devices()) {
        const std::vector<float> batched = run_op(device.use(), op::Linear{}, {w, x});
        const HostTensor last = tensor({1, 128}, {values.end() - 128, values.end()});
        const std::vector<float> alone = run_op(device.use(), op::Linear{}, {w, last});
        expect_close({batched.end() - 40, batched.end()}, alone, std::vector<float>(40, 128.0F),
                     Tolerance::reduction(128));
    }
}

// Threads take other pieces of the outputs each time; an output must not depend on which lay beside it.
TEST(Linear, TheNumberOfThreadsDoesNotChangeABit) {
    Rng rng(9);
    for (DType dtype : {DType::f16, DType::q4_0, DType::q8_0, DType::q4_k, DType::q6_k}) {
        const HostTensor w = uniform(rng, dtype, {1003, 256});  // several pieces, none of them a multiple of four
        for (int64_t rows : {1, 2, 4, 7}) {
            const HostTensor x = uniform(rng, DType::f32, {rows, 256});
            const Device& alone = devices()[1];
            const std::vector<float> expected = run_op(alone.use(), op::Linear{}, {w, x});
            for (size_t other : {2, 3}) {
                SCOPED_TRACE(fmt::format("{}, {} rows, {}", name(dtype), rows, devices()[other].name));
                EXPECT_EQ(run_op(devices()[other].use(), op::Linear{}, {w, x}), expected);
            }
        }
    }
}

}  // namespace tandem::test
