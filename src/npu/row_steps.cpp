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

bool rms_norm_supported(const graph::Program& program, const graph::Node& node) {
    const int64_t width = norm_width(program, node);
    return is_activation(program, node.inputs[0]) && width % 16 == 0 && width <= kMaxNormWidth;
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

Result<double> predict_rms_norm(CostTable& costs, const graph::Program& program, const graph::Node& node,
                                const device::Batch& batch) {
    const int64_t width = norm_width(program, node);
    const int64_t rows = std::ssize(batch.tokens) * (program.value(node.output).type.cols() / width);
    const RowDesign design = TRY(rms_norm_design({.rows = design_rows(rows),
                                                  .cols = width,
                                                  .eps = node.op.as<op::RmsNorm>()->eps,
                                                  .array = std::string(costs.array().name)}));
    return costs.seconds(design.design);
}

class RopeStep final : public Step {
  public:
    RopeStep(Workshop& shop, const StepSource& source)
        : shop_(shop), x_(source.input(0)), y_(source.output()), op_(*source.node.op.as<op::Rope>()) {}

    Result<double> run(const StepContext& context) override {
        const int64_t sized = design_rows(context.rows);
        const LoadedRows* const design =
            TRY(designs_.get(sized, [&] { return load_rows(shop_, design_of(op_, sized, x_.cols, shop_.array())); }));
        Buffer* const turns = TRY(shop_.scratch(kTurns, design->rows * op_.head_dim * 4));
        fill_turns(context.batch.positions, reinterpret_cast<float*>(turns->bytes().data()));
        RowRun runner(shop_, *design);
        TRY(runner.input(x_, x_.cols, context.rows));
        runner.constant(turns);
        TRY(runner.output(y_, y_.cols));
        return runner.run(y_, y_.cols, context.rows);
    }

    static Result<RowDesign> design_of(const op::Rope& op, int64_t tokens, int64_t cols, const Array& array) {
        return rope_design({.tokens = tokens,
                            .heads = cols / op.head_dim,
                            .head_dim = op.head_dim,
                            .layout = op.layout == op::RopeLayout::half ? 0 : 1,
                            .array = std::string(array.name)});
    }

  private:
    static constexpr size_t kTurns = 3;  // of the scratch memory

    void fill_turns(std::span<const int32_t> positions, float* turns) const {
        const size_t pairs = op_.inv_freq.size();
        for (const int32_t position : positions) {
            for (size_t i = 0; i < pairs; ++i) {
                const double angle = static_cast<double>(position) * static_cast<double>(op_.inv_freq[i]);
                turns[i] = op_.magnitude * static_cast<float>(std::cos(angle));
                turns[pairs + i] = op_.magnitude * static_cast<float>(std::sin(angle));
            }
            turns += 2 * pairs;
        }
    }

    Workshop& shop_;
    Operand x_, y_;
    op::Rope op_;
    BySize<int64_t, LoadedRows> designs_;  // by rows
};

bool rope_supported(const graph::Program& program, const graph::Node& node) {
    const op::Rope& op = *node.op.as<op::Rope>();
    return is_activation(program, node.inputs[0]) && op.head_dim % 32 == 0 &&
           2 * std::ssize(op.inv_freq) == op.head_dim;
}

Result<std::unique_ptr<Step>> make_rope(Workshop& shop, const StepSource& source) {
    return std::unique_ptr<Step>(std::make_unique<RopeStep>(shop, source));
}

Result<double> predict_rope(CostTable& costs, const graph::Program& program, const graph::Node& node,
                            const device::Batch& batch) {
    const RowDesign design = TRY(RopeStep::design_of(*node.op.as<op::Rope>(), design_rows(std::ssize(batch.tokens)),
                                                     program.value(node.output).type.cols(), costs.array()));
    return costs.seconds(design.design);
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

bool elementwise_supported(const graph::Program& program, const graph::Node& node) {
    return is_activation(program, node.inputs[0]) && is_activation(program, node.inputs[1]);
}

Result<std::unique_ptr<Step>> make_elementwise(Workshop& shop, const StepSource& source) {
    return std::unique_ptr<Step>(std::make_unique<ElementwiseStep>(shop, source));
}

Result<double> predict_elementwise(CostTable& costs, const graph::Program& program, const graph::Node& node,
                                   const device::Batch& batch) {
    const int64_t cols = program.value(node.output).type.cols();
    const RowDesign design =
        TRY(elementwise_design(node.op, design_rows(std::ssize(batch.tokens)) * cols, costs.array()));
    return costs.seconds(design.design);
}

}  // namespace

const StepMaker kRmsNormStep{.supports = rms_norm_supported, .make = make_rms_norm, .predict = predict_rms_norm};
const StepMaker kRopeStep{.supports = rope_supported, .make = make_rope, .predict = predict_rope};
const StepMaker kElementwiseStep{
    .supports = elementwise_supported, .make = make_elementwise, .predict = predict_elementwise};

}  // namespace tandem::npu
