// Linear, cut for threads: rows of x are rounded once for all products of them, and the pieces of these products are
// taken by whoever is free.
#include "cpu/simd/linear.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "cpu/simd/streams.h"
#include "graph/ops.h"

namespace tandem::cpu::simd {

namespace {

const LinearKernels* find_kernels(DType weight) {
    const LinearKernels* const int8 = find_int8_kernels(weight);
    return int8 != nullptr ? int8 : find_f32_kernels(weight);
}

bool supports(const op::Linear& /*op*/, graph::InputTypes inputs) {
    return find_kernels(inputs[0].dtype) != nullptr;
}

// Tiles of the threads, then what is rounded.
size_t scratch_bytes(const op::Linear& /*op*/, const NodePlan& plan) {
    const LinearKernels& kernels = *find_kernels(plan.inputs[0].dtype);
    const int64_t rows = plan.inputs[1].rows(plan.limits);
    return static_cast<size_t>(plan.threads) * kernels.tile_bytes +
           (kernels.quantize != nullptr ? QuantizedRows::size_bytes(rows, plan.inputs[1].cols()) : 0);
}

// A product among others, in pieces of `piece` outputs.
struct Part {
    const LinearKernels* kernels = nullptr;
    Product product = {};
    std::byte* tiles = nullptr;
    bool many = false;
    int64_t piece = 1;

    int64_t pieces() const { return (product.weight.rows + piece - 1) / piece; }

    void multiply(int64_t index, int thread) const {
        const RowRange outputs{index * piece, std::min((index + 1) * piece, product.weight.rows)};
        if (many) {
            kernels->multiply_many(product, tiles + static_cast<size_t>(thread) * kernels->tile_bytes, outputs);
        } else {
            kernels->multiply_few(product, outputs);
        }
    }
};

Part make_part(const Args& args) {
    const Input& weight = args.in[0];
    const Input& x = args.in[1];
    const LinearKernels* const kernels = find_kernels(weight.dtype);
    const int threads = args.step.threads->size();
    std::byte* const scratch = args.step.scratch.data();
    Part part{.kernels = kernels,
              .product = {.weight = weight,
                          .x = x,
                          .rounded = {scratch + static_cast<size_t>(threads) * kernels->tile_bytes, x.cols},
                          .bias = args.in.size() > 2 ? args.in[2].f32() : nullptr,
                          .out = args.out},
              .tiles = scratch,
              .many = x.rows > kFewRows || kernels->multiply_few == nullptr,
              .piece = kernels->tile_outputs};
    if (!part.many)
        part.piece = rows_of_piece(weight.rows, static_cast<int64_t>(row_bytes(weight.dtype, weight.cols)), threads);
    return part;
}

// Rounds what `part` multiplies, unless one of those before has.
void round_rows(Part& part, std::span<const Part> before, const Step& step) {
    if (part.kernels->quantize == nullptr) return;
    const Input& x = part.product.x;
    const auto same = std::find_if(before.begin(), before.end(), [&](const Part& other) {
        return other.kernels == part.kernels && other.product.x.data == x.data;
    });
    if (same != before.end()) {
        part.product.rounded = same->product.rounded;
        return;
    }
    step.for_each_range(x.rows, std::max<int64_t>(1, kPieceElements / x.cols), [&](int64_t begin, int64_t end, int) {
        part.kernels->quantize(x, part.many, part.product.rounded, {begin, end});
    });
}

void linear_together(std::span<const Args> calls) {
    CHECK(calls.size() <= kMostTogether);
    std::array<Part, kMostTogether> memory;
    size_t count = 0;
    int64_t pieces = 0;
    for (const Args& args : calls) {
        Part& part = memory[count] = make_part(args);
        round_rows(part, {memory.data(), count}, args.step);
        pieces += part.pieces();
        ++count;
    }
    const std::span<const Part> parts(memory.data(), count);
    calls.front().step.for_each_range(pieces, 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t i = begin; i < end; ++i) {
            int64_t index = i;
            const Part* part = parts.data();
            for (; index >= part->pieces(); ++part) index -= part->pieces();
            part->multiply(index, thread);
        }
    });
}

void linear(const op::Linear& /*op*/, const Args& args) {
    linear_together({&args, 1});
}

const Registration<op::Linear> kFast{FastKernel<op::Linear>{
    .run = linear, .supports = supports, .scratch_bytes = scratch_bytes, .run_together = linear_together}};

}  // namespace

}  // namespace tandem::cpu::simd
