// Linear, cut for threads: rows of x are rounded once for all products of them, and the pieces of these products are
// taken by whoever is free.
#include "cpu/simd/linear.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "cpu/simd/streams.h"
#include "graph/ops.h"

namespace tandem::cpu::simd {

const LinearKernels* find_kernels(DType weight) {
    const LinearKernels* const int8 = find_int8_kernels(weight);
    return int8 != nullptr ? int8 : find_f32_kernels(weight);
}

namespace {

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

// A product among others, in units of some outputs.
struct Part {
    const LinearKernels* kernels = nullptr;
    Product product = {};
    std::byte* tiles = nullptr;
    bool many = false;
    int64_t unit = 1;

    int64_t units() const { return (product.weight.rows + unit - 1) / unit; }

    void multiply(RowRange range, int thread) const {
        const RowRange outputs{range.begin * unit, std::min(range.end * unit, product.weight.rows)};
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
    const auto threads = static_cast<size_t>(args.step.threads->size());
    std::byte* const scratch = args.step.scratch.data();
    const bool many = x.rows > kFewRows || kernels->multiply_few == nullptr;
    return {.kernels = kernels,
            .product = {.weight = weight,
                        .x = x,
                        .rounded = {scratch + threads * kernels->tile_bytes, x.cols},
                        .bias = args.in.size() > 2 ? args.in[2].f32() : nullptr,
                        .out = args.out},
            .tiles = scratch,
            .many = many,
            .unit = many ? kernels->tile_outputs : kMostStreams};
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

// Units [range.begin, range.end) of all parts, counted one after the other.
void multiply(std::span<const Part> parts, RowRange range, int thread) {
    int64_t first = 0;  // of the part
    for (const Part& part : parts) {
        const RowRange own{std::max<int64_t>(range.begin - first, 0), std::min(range.end - first, part.units())};
        if (own.begin < own.end) part.multiply(own, thread);
        first += part.units();
    }
}

void linear_together(std::span<const Args> calls) {
    CHECK(calls.size() <= kMostTogether);
    std::array<Part, kMostTogether> memory;
    size_t count = 0;
    int64_t units = 0;
    int64_t bytes = 0;
    for (const Args& args : calls) {
        Part& part = memory[count] = make_part(args);
        round_rows(part, {memory.data(), count}, args.step);
        units += part.units();
        bytes += part.product.weight.rows * static_cast<int64_t>(row_bytes(args.in[0].dtype, args.in[0].cols));
        ++count;
    }
    const std::span<const Part> parts(memory.data(), count);
    const Step& step = calls.front().step;
    const Pieces pieces(units, bytes, step.threads->size());
    step.for_each_range(pieces.count(), 1, [&](int64_t begin, int64_t end, int thread) {
        multiply(parts, {pieces.begin(begin), pieces.begin(end)}, thread);
    });
}

void linear(const op::Linear& /*op*/, const Args& args) {
    linear_together({&args, 1});
}

const Registration<op::Linear> kFast{FastKernel<op::Linear>{
    .run = linear, .supports = supports, .scratch_bytes = scratch_bytes, .run_together = linear_together}};

}  // namespace

}  // namespace tandem::cpu::simd
