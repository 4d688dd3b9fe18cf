// ExpertLinear by the kernels of Linear: rows are sorted by expert, and threads take pieces of the matrices of those
// that have any, so that each is read once for all its rows and those of the others not at all.
#include <algorithm>
#include <cstring>

#include "cpu/kernel.h"
#include "cpu/simd/linear.h"
#include "cpu/simd/streams.h"
#include "graph/ops.h"

namespace tandem::cpu::simd {

namespace {

constexpr int64_t kPieceOutputs = 64;  // a multiple of all tiles; made at once by an expert that has several rows

// Memory of the step, given out in pieces.
class Scratch {
  public:
    explicit Scratch(std::byte* at) : at_(at) {}

    template <typename T>
    T* take(int64_t count) {
        T* const taken = reinterpret_cast<T*>(at_);
        at_ += padded_bytes<T>(count);
        return taken;
    }
    template <typename T>
    static size_t padded_bytes(int64_t count) {
        return (static_cast<size_t>(count) * sizeof(T) + 63) / 64 * 64;
    }

  private:
    std::byte* at_;
};

// Of a row of x as the kernels want it.
size_t row_bytes_of(const LinearKernels& kernels, int64_t cols) {
    return kernels.quantize != nullptr ? QuantizedRows::size_bytes(1, cols) : static_cast<size_t>(cols) * sizeof(float);
}

class ExpertProduct {
  public:
    ExpertProduct(const op::ExpertLinear& op, const Args& args)
        : op_(op),
          args_(args),
          kernels_(*find_kernels(args.in[0].dtype)),
          used_(args.in[2].cols / 2),
          experts_(args.in[0].matrices),
          shared_(args.in[1].cols == args.in[0].cols) {
        Scratch scratch(args.step.scratch.data());
        first_ = scratch.take<int32_t>(experts_ + 1);
        present_ = scratch.take<int32_t>(experts_);
        places_ = scratch.take<int32_t>(slots());
        x_ = scratch.take<std::byte>(slots() * static_cast<int64_t>(x_bytes()));
        tiles_ = scratch.take<std::byte>(args.step.threads->size() * static_cast<int64_t>(kernels_.tile_bytes));
        results_ = scratch.take<float>(args.step.threads->size() * results_each());
    }

    static size_t scratch_bytes(const op::ExpertLinear& /*op*/, const NodePlan& plan) {
        const graph::TensorType& weight = plan.inputs[0];
        const LinearKernels& kernels = *find_kernels(weight.dtype);
        const int64_t rows = plan.inputs[1].rows(plan.limits);
        const int64_t slots = rows * plan.inputs[2].cols() / 2;
        const int64_t experts = weight.shape[0].count;
        const auto bytes = [](size_t each, int64_t count) {
            return Scratch::padded_bytes<std::byte>(static_cast<int64_t>(each) * count);
        };
        return 2 * Scratch::padded_bytes<int32_t>(experts + 1) + Scratch::padded_bytes<int32_t>(slots) +
               bytes(row_bytes_of(kernels, weight.cols()), slots) + bytes(kernels.tile_bytes, plan.threads) +
               bytes(sizeof(float), plan.threads * rows * kPieceOutputs);
    }

    void run() {
        sort();
        bring_x();
        // An expert of one row writes its outputs where they belong, so its pieces can be as large as threads want
        // them.
        const bool one = args_.in[1].rows == 1;
        const int64_t unit = one ? kMostStreams : kPieceOutputs;
        const int64_t units = (op_.count + unit - 1) / unit;  // of an expert
        const auto bytes = static_cast<int64_t>(row_bytes(args_.in[0].dtype, args_.in[0].cols));
        const Pieces pieces(present_count_ * units, present_count_ * op_.count * bytes, args_.step.threads->size());
        args_.step.for_each_range(pieces.count(), 1, [&](int64_t begin, int64_t end, int thread) {
            const int64_t last = pieces.begin(end);
            for (int64_t at = pieces.begin(begin); at < last;) {
                const int64_t from = at % units;
                const int64_t to = one ? std::min(units, from + last - at) : from + 1;
                multiply(present_[at / units], {from * unit, std::min(to * unit, op_.count)}, thread);
                at += to - from;
            }
        });
    }

  private:
    int64_t slots() const { return args_.in[1].rows * used_; }
    size_t x_bytes() const { return row_bytes_of(kernels_, args_.in[0].cols); }
    bool is_many(int64_t rows) const { return rows > kFewRows || kernels_.multiply_few == nullptr; }
    int64_t results_each() const { return args_.in[1].rows * kPieceOutputs; }
    int64_t rows_of(int64_t expert) const { return first_[expert + 1] - first_[expert]; }
    int64_t expert_at(int64_t slot) const { return static_cast<int64_t>(args_.in[2].f32(slot / used_)[slot % used_]); }
    // One row of x for all of a row's experts is brought once.
    bool brought_once() const { return shared_ && args_.in[1].rows == 1; }

    // places_: the slots (row * used + which of its experts) in the order of their experts.
    void sort() {
        std::fill_n(first_, experts_ + 1, 0);
        for (int64_t slot = 0; slot < slots(); ++slot) ++first_[expert_at(slot) + 1];
        for (int64_t e = 0; e < experts_; ++e) {
            if (first_[e + 1] > 0) present_[present_count_++] = static_cast<int32_t>(e);
            first_[e + 1] += first_[e];
        }
        for (int64_t slot = 0; slot < slots(); ++slot) places_[first_[expert_at(slot)]++] = static_cast<int32_t>(slot);
        for (int64_t e = experts_; e > 0; --e) first_[e] = first_[e - 1];  // back to where each begins
        first_[0] = 0;
    }

    Input x_of(int64_t slot) const {
        const float* const row = args_.in[1].f32(slot / used_) + (shared_ ? 0 : slot % used_ * args_.in[0].cols);
        return {DType::f32, 1, args_.in[0].cols, reinterpret_cast<const std::byte*>(row)};
    }

    // Rows of x as the kernel wants them, those of an expert one after another.
    void bring_x() {
        const int64_t count = brought_once() ? 1 : slots();
        args_.step.for_each_range(count, std::max<int64_t>(1, kPieceElements / args_.in[0].cols),
                                  [&](int64_t begin, int64_t end, int) {
                                      for (int64_t i = begin; i < end; ++i) bring(i);
                                  });
    }
    void bring(int64_t place) {
        const Input x = x_of(places_[place]);
        std::byte* const to = x_ + static_cast<size_t>(place) * x_bytes();
        if (kernels_.quantize == nullptr) {
            std::memcpy(to, x.data, x_bytes());
        } else {
            kernels_.quantize(x, is_many(rows_of(expert_at(places_[place]))), QuantizedRows(to, x.cols), {0, 1});
        }
    }

    // Outputs [piece.begin, piece.end) of all rows of an expert.
    void multiply(int64_t expert, RowRange piece, int thread) {
        const int64_t rows = rows_of(expert);
        const int64_t width = piece.end - piece.begin;
        Input weight = args_.in[0].matrix(expert);
        weight.data = weight.row(op_.first + piece.begin);
        weight.rows = width;
        const float* bias = op_.biased ? args_.in[op_.bias_at()].f32(expert) + op_.first + piece.begin : nullptr;
        float* const made = rows == 1 ? result_of(first_[expert], piece.begin) : results_ + thread * results_each();
        const Output out{rows, width, reinterpret_cast<std::byte*>(made)};
        std::byte* const x = x_ + (brought_once() ? 0 : static_cast<size_t>(first_[expert]) * x_bytes());
        multiply({.weight = weight,
                  .x = {DType::f32, rows, weight.cols, x},
                  .rounded = {x, weight.cols},
                  .bias = op_.scaled ? nullptr : bias,
                  .out = out},
                 tiles_ + static_cast<size_t>(thread) * kernels_.tile_bytes);
        if (op_.scaled) scale(out, args_.in[op_.kScale].f32()[expert], bias);
        for (int64_t r = 0; r < rows && rows > 1; ++r)
            std::copy_n(out.f32(r), width, result_of(first_[expert] + r, piece.begin));
    }

    float* result_of(int64_t place, int64_t output) const {
        const int64_t slot = places_[place];
        return args_.out.f32(slot / used_) + slot % used_ * op_.count + output;
    }

    void multiply(const Product& product, std::byte* tile) const {
        const int64_t outputs = product.weight.rows;
        if (!is_many(product.x.rows)) return kernels_.multiply_few(product, {0, outputs});
        for (int64_t o = 0; o < outputs; o += kernels_.tile_outputs)
            kernels_.multiply_many(product, tile, {o, std::min(o + kernels_.tile_outputs, outputs)});
    }

    static void scale(const Output& out, float factor, const float* bias) {
        for (int64_t r = 0; r < out.rows; ++r) {
            for (int64_t o = 0; o < out.cols; ++o)
                out.f32(r)[o] = factor * out.f32(r)[o] + (bias != nullptr ? bias[o] : 0.0F);
        }
    }

    const op::ExpertLinear& op_;
    const Args& args_;
    const LinearKernels& kernels_;
    int64_t used_;
    int64_t experts_;
    bool shared_;       // x is the same for all experts of a row
    int32_t* first_;    // per expert, its first place; one more for the end
    int32_t* present_;  // experts that have rows
    int64_t present_count_ = 0;
    int32_t* places_;
    std::byte* x_;
    std::byte* tiles_;
    float* results_;
};

void expert_linear(const op::ExpertLinear& op, const Args& args) {
    ExpertProduct(op, args).run();
}

bool supports_experts(const op::ExpertLinear& /*op*/, graph::InputTypes inputs) {
    return find_kernels(inputs[0].dtype) != nullptr;
}

const Registration<op::ExpertLinear> kExpertLinear{
    FastKernel<op::ExpertLinear>{expert_linear, supports_experts, ExpertProduct::scratch_bytes}};

}  // namespace

}  // namespace tandem::cpu::simd
