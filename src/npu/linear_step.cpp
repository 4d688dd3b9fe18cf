#include <algorithm>
#include <bit>
#include <cstring>

#include "graph/ops.h"
#include "npu/design.h"
#include "npu/step.h"

namespace tandem::npu {

namespace {

constexpr size_t kBias = 2;  // of the inputs, where there is one

struct LinearShape {
    int64_t k = 0;
    int64_t n = 0;
};

Result<GemmLayout> layout_of(const Array& array, int64_t rows, const LinearShape& shape) {
    return gemm_layout({.m = rows, .k = shape.k, .n = shape.n, .array = std::string(array.name)});
}

// What a product of so many rows is rounded up to: designs differ by no less.
int64_t gemm_rows(const Array& array, int64_t rows) {
    const int64_t step = int64_t{array.rows - 2} * kGemmRows;
    return (rows + step - 1) / step * step;
}

class LinearStep final : public Step {
  public:
    LinearStep(Workshop& shop, const StepSource& source, std::shared_ptr<Buffer> weight)
        : shop_(shop),
          x_id_(source.node.inputs[1]),
          x_(source.input(1)),
          y_(source.output()),
          weight_(std::move(weight)) {}

    Result<double> run(const StepContext& context) override {
        const Sized& sized = *TRY(for_rows(context.rows));
        const GemmLayout& layout = sized.layout;
        Buffer* const x = TRY(shop_.scratch(kPackedX, layout.x_bytes()));
        const Workshop::PackedValue packed{context.run, x_id_};
        if (!shop_.is_packed(packed)) {
            quantize_x(layout, {.values = x_.values, .rows = context.rows, .columns = x_.cols, .stride = x_.cols},
                       shop_.threads(), x->bytes().first(static_cast<size_t>(layout.x_bytes())));
            x->mark_written();
            shop_.set_packed(packed);
        }
        const bool in_place = y_.device && layout.n == y_.cols && layout.m <= y_.rows;
        const std::shared_ptr<Buffer> y = in_place ? y_.device : TRY(shop_.result(kCopiedY, layout.y_bytes()));
        Buffer* const arguments[] = {x, weight_.get(), y.get()};
        const RunReport report = TRY(sized.design->run(arguments));
        if (!in_place) copy_out(*y, layout.n, context.rows);
        return report.seconds;
    }

  private:
    // Of the scratch memory, which other steps leave alone. How x lies there depends on its size alone.
    static constexpr size_t kPackedX = 4;
    static constexpr size_t kCopiedY = 0;  // of what the array alone writes

    struct Sized {
        GemmLayout layout;
        LoadedDesign* design = nullptr;
    };

    Result<const Sized*> for_rows(int64_t rows) {
        return sized_.get(gemm_rows(shop_.array(), rows), [&]() -> Result<Sized> {
            const GemmLayout layout = TRY(layout_of(shop_.array(), rows, {x_.cols, y_.cols}));
            const Design design = TRY(gemm_i8(layout));
            LoadedDesign* const loaded = TRY(shop_.load(design));
            return Sized{layout, loaded};
        });
    }

    void copy_out(const Buffer& y, int64_t stride, int64_t rows) const {
        const auto* from = reinterpret_cast<const float*>(y.bytes().data());
        const size_t row_bytes = static_cast<size_t>(y_.cols) * sizeof(float);
        for (int64_t row = 0; row < rows; ++row) std::memcpy(y_.values + row * y_.cols, from + row * stride, row_bytes);
    }

    Workshop& shop_;
    graph::ValueId x_id_;
    Operand x_, y_;
    std::shared_ptr<Buffer> weight_;  // with its bias
    BySize<int64_t, Sized> sized_;    // by rows
};

bool chooses_experts(const graph::Program& program, const graph::Node& node) {
    return std::ranges::any_of(program.nodes, [&](const graph::Node& later) {
        return later.op.as<op::Route>() != nullptr && later.inputs[0] == node.output;
    });
}

std::string linear_obstacle(const graph::Program& program, const graph::Node& node) {
    if (chooses_experts(program, node)) return "rounded to int8 it would choose other experts";
    return is_activation(program, node.inputs[1]) ? "" : kNotOfEveryToken;
}

Result<const graph::WeightView*> find_weight(const StepSource& source, size_t input) {
    const std::string& name = source.input_value(input).name;
    const graph::WeightView* const view = source.weights.find(name);
    if (view == nullptr) return fail("weight '{}' is missing", name);
    return view;
}

Result<std::unique_ptr<Step>> make_linear(Workshop& shop, const StepSource& source) {
    const bool bias = source.node.inputs.size() > kBias;
    const graph::WeightView* const view = TRY(find_weight(source, 0));
    const graph::WeightView* const bias_view = bias ? TRY(find_weight(source, kBias)) : nullptr;
    std::shared_ptr<Buffer> weight = TRY(shop.weight(source.input_value(0).name, *view, bias_view));
    return std::unique_ptr<Step>(std::make_unique<LinearStep>(shop, source, std::move(weight)));
}

// Whether a product before this one has packed what both take.
bool is_packed_before(const graph::Program& program, const graph::Node& node) {
    for (const graph::Node& earlier : program.nodes) {
        if (&earlier == &node) return false;
        if (earlier.op.as<op::Linear>() != nullptr && earlier.inputs[1] == node.inputs[1]) return true;
    }
    return false;
}

// Of `tokens` rows of x, rounded up to what the design takes.
Result<Cost> cost_of_linear(const Assumed& assumed, int64_t tokens, const LinearShape& shape) {
    const int64_t rows = gemm_rows(assumed.array, tokens);
    const GemmLayout layout = TRY(layout_of(assumed.array, rows, shape));
    const Design design = TRY(gemm_i8(layout));
    Cost cost = TRY(cost_of(design, assumed, gemm_samples(layout, tokens)));
    // The results are thrown out of the host's caches before it reads them.
    HostWork work{.flushed = static_cast<double>(layout.y_bytes())};
    if (layout.n != shape.n) work.copied = static_cast<double>(rows * shape.n) * sizeof(float);
    cost += cost_of(work);
    return cost;
}

Result<Cost> predict_linear(CostTable& costs, const graph::Program& program, const graph::Node& node,
                            const device::Batch& batch) {
    const LinearShape shape{.k = program.value(node.inputs[1]).type.cols(),
                            .n = program.value(node.output).type.cols()};
    const int64_t tokens = std::ssize(batch.tokens);
    const int64_t rows = gemm_rows(costs.array(), tokens);
    const std::string key = fmt::format("linear {} of {} {} {}", gemm_rows_of_block(tokens), rows, shape.k, shape.n);
    Cost cost = TRY(costs.get(key, [&] { return cost_of_linear(costs.assumed(), tokens, shape); }));
    if (!is_packed_before(program, node))
        cost += cost_of(
            HostWork{.rounded = static_cast<double>(tokens * shape.k), .flushed = static_cast<double>(rows * shape.k)});
    return cost;
}

}  // namespace

const StepMaker kLinearStep{.obstacle = linear_obstacle, .make = make_linear, .predict = predict_linear};

}  // namespace tandem::npu
