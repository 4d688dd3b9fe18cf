// Steps for the ops that take each row, or each element, by itself.
#include <cmath>
#include <cstring>

#include "format/quant.h"
#include "graph/ops.h"
#include "npu/designs/rows.h"
#include "npu/step.h"

namespace tandem::npu {

namespace {

struct LoadedRows {
    LoadedDesign* design = nullptr;
    int64_t rows = 0;  // that its arguments have
};

Result<LoadedRows> load_rows(Workshop& shop, const Result<RowDesign>& made) {
    if (!made) return made.error();
    LoadedDesign* const design = TRY(shop.load(made->design));
    return LoadedRows{design, made->rows};
}

// Runs a design over operands: in place where they have room for the design's rows, else by way of scratch memory.
class RowRun {
  public:
    RowRun(Workshop& shop, const LoadedRows& design) : shop_(shop), design_(design) {}

    Status input(const Operand& operand, int64_t row_floats, int64_t rows) {
        const int64_t bytes = design_.rows * row_floats * 4;
        Buffer* const buffer = TRY(place(operand, bytes));
        if (buffer != operand.buffer.get())
            std::memcpy(buffer->bytes().data(), operand.data(), static_cast<size_t>(rows * row_floats) * sizeof(float));
        arguments_.push_back(buffer);
        return Ok{};
    }
    void constant(Buffer* buffer) { arguments_.push_back(buffer); }
    Status output(const Operand& operand, int64_t row_floats) {
        arguments_.push_back(TRY(place(operand, design_.rows * row_floats * 4)));
        return Ok{};
    }

    // `y` is the last argument.
    Result<double> run(const Operand& y, int64_t row_floats, int64_t rows) {
        const RunReport report = TRY(design_.design->run(arguments_));
        const Buffer* const made = arguments_.back();
        if (made != y.buffer.get())
            std::memcpy(y.data(), made->bytes().data(), static_cast<size_t>(rows * row_floats) * sizeof(float));
        return report.seconds;
    }

  private:
    Result<Buffer*> place(const Operand& operand, int64_t bytes) {
        if (std::ssize(operand.buffer->bytes()) >= bytes) return operand.buffer.get();
        return shop_.scratch(arguments_.size(), bytes);
    }

    Workshop& shop_;
    const LoadedRows& design_;
    std::vector<Buffer*> arguments_;
};

class RmsNormStep final : public Step {
  public:
    RmsNormStep(Workshop& shop, const StepSource& source, std::shared_ptr<Buffer> weight, int64_t width)
        : shop_(shop),
          x_(source.input(0)),
          y_(source.output()),
          weight_(std::move(weight)),
          width_(width),
          eps_(source.node.op.as<op::RmsNorm>()->eps) {}

    Result<double> run(const StepContext& context) override {
        const int64_t rows = context.rows * (x_.cols / width_);
        const int64_t sized = design_rows(rows);
        const LoadedRows* const design = TRY(designs_.get(sized, [&] {
            return load_rows(
                shop_, rms_norm_design(
                           {.rows = sized, .cols = width_, .eps = eps_, .array = std::string(shop_.array().name)}));
        }));
        RowRun runner(shop_, *design);
        TRY(runner.input(x_, width_, rows));
        runner.constant(weight_.get());
        TRY(runner.output(y_, width_));
        return runner.run(y_, width_, rows);
    }

  private:
    Workshop& shop_;
    Operand x_, y_;
    std::shared_ptr<Buffer> weight_;
    int64_t width_;
    float eps_;
    BySize<int64_t, LoadedRows> designs_;  // by rows
};

constexpr int64_t kMaxNormWidth = 5376;

int64_t norm_width(const graph::Program& program, const graph::Node& node) {
    return program.value(node.inputs[1]).type.cols();
}

std::string rms_norm_obstacle(const graph::Program& program, const graph::Node& node) {
    if (node.inputs.size() < 2) return "a norm without a weight has no design";
    const int64_t width = norm_width(program, node);
    if (!is_activation(program, node.inputs[0])) return kNotOfEveryToken;
    if (width % 16 != 0) return fmt::format("a row has {} elements, and a core takes 16 at a time", width);
    if (width > kMaxNormWidth)
        return fmt::format("a row has {} elements, and a core has memory for {}", width, kMaxNormWidth);
    return "";
}

Result<std::unique_ptr<Step>> make_rms_norm(Workshop& shop, const StepSource& source) {
    const std::string& name = source.input_value(1).name;
    const graph::WeightView* const view = source.weights.find(name);
    if (view == nullptr) return fail("weight '{}' is missing", name);
    const int64_t width = norm_width(source.program, source.node);
    std::shared_ptr<Buffer> weight = TRY(shop.allocate(static_cast<uint64_t>(width) * sizeof(float)));
    format::decode_row(view->dtype, view->data.data(), reinterpret_cast<float*>(weight->bytes().data()), width);
    return std::unique_ptr<Step>(std::make_unique<RmsNormStep>(shop, source, std::move(weight), width));
}

Result<Cost> predict_rms_norm(CostTable& costs, const graph::Program& program, const graph::Node& node,
                              const device::Batch& batch) {
    const int64_t width = norm_width(program, node);
    const int64_t rows = std::ssize(batch.tokens) * (program.value(node.output).type.cols() / width);
    const float eps = node.op.as<op::RmsNorm>()->eps;
    return costs.get(fmt::format("norm {} {}", design_rows(rows), width), [&]() -> Result<Cost> {
        const RowDesign made = TRY(rms_norm_design(
            {.rows = design_rows(rows), .cols = width, .eps = eps, .array = std::string(costs.array().name)}));
        return cost_of(made.design, costs.array());
    });
}

// How the array sees the heads of a token: their turned elements only, pairs filled up to a multiple of 16, and as many
// heads in a row as a core has memory for.
struct RopeRows {
    int64_t pairs = 0;  // of a head, filled up
    int64_t heads = 0;  // in a row
    int64_t rows_of_token = 0;
    int32_t layout = 0;

    static RopeRows of(const op::Rope& op, int64_t cols) {
        constexpr int64_t kMostFloats = 6144;  // of a row: with the result, and its turns, within 64 KB
        RopeRows rows{.pairs = (std::ssize(op.inv_freq) + 15) / 16 * 16,
                      .heads = cols / op.head_dim,
                      .rows_of_token = 1,
                      .layout = op.layout == op::RopeLayout::half ? 0 : 1};
        const int64_t all = rows.heads;
        while (rows.heads > 1 && (all % rows.heads != 0 || rows.heads * rows.head_floats() > kMostFloats)) --rows.heads;
        rows.rows_of_token = all / rows.heads;
        return rows;
    }
    int64_t head_floats() const { return 2 * pairs; }
    int64_t row_floats() const { return heads * head_floats(); }

    Result<RowDesign> design(int64_t tokens, const Array& array) const {
        return rope_design({.tokens = tokens * rows_of_token,
                            .heads = heads,
                            .head_dim = head_floats(),
                            .layout = layout,
                            .array = std::string(array.name)});
    }
};

class RopeStep final : public Step {
  public:
    RopeStep(Workshop& shop, const StepSource& source)
        : shop_(shop),
          x_(source.input(0)),
          y_(source.output()),
          op_(*source.node.op.as<op::Rope>()),
          rows_(RopeRows::of(op_, x_.cols)) {}

    Result<double> run(const StepContext& context) override {
        const int64_t sized = design_rows(context.rows);
        const LoadedRows* const design =
            TRY(designs_.get(sized, [&] { return load_rows(shop_, rows_.design(sized, shop_.array())); }));
        Buffer* const turns = TRY(shop_.scratch(kTurns, design->rows * rows_.head_floats() * 4));
        fill_turns(context.batch.positions, reinterpret_cast<float*>(turns->bytes().data()));
        const bool whole = 2 * std::ssize(op_.inv_freq) == op_.head_dim && rows_.head_floats() == op_.head_dim;
        return whole ? run_whole(context, *design, turns) : run_packed(context, *design, turns);
    }

  private:
    static constexpr size_t kTurns = 3;  // of the scratch memory

    Result<double> run_whole(const StepContext& context, const LoadedRows& design, Buffer* turns) {
        const int64_t rows = context.rows * rows_.rows_of_token;
        RowRun runner(shop_, design);
        TRY(runner.input(x_, rows_.row_floats(), rows));
        runner.constant(turns);
        TRY(runner.output(y_, rows_.row_floats()));
        return runner.run(y_, rows_.row_floats(), rows);
    }

    // The host takes the turned elements out of the heads and puts them back; it copies the others.
    Result<double> run_packed(const StepContext& context, const LoadedRows& design, Buffer* turns) {
        const int64_t bytes = design.rows * rows_.row_floats() * 4;
        Buffer* const x = TRY(shop_.scratch(0, bytes));
        Buffer* const y = TRY(shop_.scratch(2, bytes));
        const int64_t heads = context.rows * (x_.cols / op_.head_dim);
        auto* const packed = reinterpret_cast<float*>(x->bytes().data());
        std::fill_n(packed, heads * rows_.head_floats(), 0.0F);
        for_each_run(heads, [&](int64_t in_heads, int64_t in_packed, int64_t count) {
            std::copy_n(x_.data() + in_heads, count, packed + in_packed);
        });
        Buffer* const arguments[] = {x, turns, y};
        const RunReport report = TRY(design.design->run(arguments));
        std::copy_n(x_.data(), heads * op_.head_dim, y_.data());
        const auto* const turned = reinterpret_cast<const float*>(y->bytes().data());
        for_each_run(heads, [&](int64_t in_heads, int64_t in_packed, int64_t count) {
            std::copy_n(turned + in_packed, count, y_.data() + in_heads);
        });
        return report.seconds;
    }

    // Where the turned elements of each head lie: all of them in one run, or the two halves of the pairs.
    template <typename F>
    void for_each_run(int64_t heads, const F& f) const {
        const int64_t pairs = std::ssize(op_.inv_freq);
        for (int64_t head = 0; head < heads; ++head) {
            const int64_t from = head * op_.head_dim;
            const int64_t to = head * rows_.head_floats();
            if (op_.layout == op::RopeLayout::half) {
                f(from, to, pairs);
                f(from + pairs, to + rows_.pairs, pairs);
            } else {
                f(from, to, 2 * pairs);
            }
        }
    }

    void fill_turns(std::span<const int32_t> positions, float* turns) const {
        const auto pairs = static_cast<size_t>(rows_.pairs);
        for (const int32_t position : positions) {
            std::fill_n(turns, 2 * pairs, 0.0F);
            for (size_t i = 0; i < op_.inv_freq.size(); ++i) {
                const double angle = static_cast<double>(position) * static_cast<double>(op_.inv_freq[i]);
                turns[i] = op_.magnitude * static_cast<float>(std::cos(angle));
                turns[pairs + i] = op_.magnitude * static_cast<float>(std::sin(angle));
            }
            for (int64_t again = 1; again < rows_.rows_of_token; ++again)
                std::copy_n(turns, 2 * pairs, turns + static_cast<size_t>(again) * 2 * pairs);
            turns += static_cast<size_t>(rows_.rows_of_token) * 2 * pairs;
        }
    }

    Workshop& shop_;
    Operand x_, y_;
    op::Rope op_;
    RopeRows rows_;
    BySize<int64_t, LoadedRows> designs_;  // by rows
};

std::string rope_obstacle(const graph::Program& program, const graph::Node& node) {
    return is_activation(program, node.inputs[0]) ? "" : kNotOfEveryToken;
}

Result<std::unique_ptr<Step>> make_rope(Workshop& shop, const StepSource& source) {
    return std::unique_ptr<Step>(std::make_unique<RopeStep>(shop, source));
}

Result<Cost> predict_rope(CostTable& costs, const graph::Program& program, const graph::Node& node,
                          const device::Batch& batch) {
    const RopeRows rows = RopeRows::of(*node.op.as<op::Rope>(), program.value(node.output).type.cols());
    const int64_t tokens = design_rows(std::ssize(batch.tokens));
    const std::string key =
        fmt::format("rope {} {} {} {}", tokens * rows.rows_of_token, rows.heads, rows.pairs, rows.layout);
    const auto of_array = [&]() -> Result<Cost> {
        const RowDesign made = TRY(rows.design(tokens, costs.array()));
        return cost_of(made.design, costs.array());
    };
    Cost cost = TRY(costs.get(key, of_array));
    cost += cost_of(HostWork{.turns = static_cast<double>(std::ssize(batch.tokens) * rows.pairs)});
    return cost;
}

// A sum, or a gated activation.
Result<RowDesign> elementwise_design(const graph::Op& op, int64_t count, const Array& array) {
    const ElementwiseShape shape{.count = count, .array = std::string(array.name)};
    const auto* const glu = op.as<op::Glu>();
    return glu != nullptr ? glu_design(shape, static_cast<int32_t>(glu->activation)) : add_design(shape);
}

class ElementwiseStep final : public Step {
  public:
    ElementwiseStep(Workshop& shop, const StepSource& source)
        : shop_(shop), op_(source.node.op), a_(source.input(0)), b_(source.input(1)), y_(source.output()) {}

    Result<double> run(const StepContext& context) override {
        const int64_t sized = design_rows(context.rows);
        const LoadedRows* const design = TRY(designs_.get(
            sized, [&] { return load_rows(shop_, elementwise_design(op_, sized * y_.cols, shop_.array())); }));
        const int64_t count = context.rows * y_.cols;
        RowRun runner(shop_, *design);
        TRY(runner.input(a_, 1, count));
        TRY(runner.input(b_, 1, count));
        TRY(runner.output(y_, 1));
        return runner.run(y_, 1, count);
    }

  private:
    Workshop& shop_;
    graph::Op op_;
    Operand a_, b_, y_;
    BySize<int64_t, LoadedRows> designs_;  // by rows
};

std::string elementwise_obstacle(const graph::Program& program, const graph::Node& node) {
    const op::Glu* const glu = node.op.as<op::Glu>();
    if (glu != nullptr && glu->activation == op::Activation::clamped) return "the kernel knows no clamped activation";
    return is_activation(program, node.inputs[0]) && is_activation(program, node.inputs[1]) ? "" : kNotOfEveryToken;
}

Result<std::unique_ptr<Step>> make_elementwise(Workshop& shop, const StepSource& source) {
    return std::unique_ptr<Step>(std::make_unique<ElementwiseStep>(shop, source));
}

Result<Cost> predict_elementwise(CostTable& costs, const graph::Program& program, const graph::Node& node,
                                 const device::Batch& batch) {
    const int64_t cols = program.value(node.output).type.cols();
    const int64_t count = design_rows(std::ssize(batch.tokens)) * cols;
    return costs.get(fmt::format("{} {} {}", node.op.name(), node.op.describe(), count), [&]() -> Result<Cost> {
        const RowDesign made = TRY(elementwise_design(node.op, count, costs.array()));
        return cost_of(made.design, costs.array());
    });
}

}  // namespace

const StepMaker kRmsNormStep{.obstacle = rms_norm_obstacle, .make = make_rms_norm, .predict = predict_rms_norm};
const StepMaker kRopeStep{.obstacle = rope_obstacle, .make = make_rope, .predict = predict_rope};
const StepMaker kElementwiseStep{
    .obstacle = elementwise_obstacle, .make = make_elementwise, .predict = predict_elementwise};

}  // namespace tandem::npu
