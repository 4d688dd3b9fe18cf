#include "npu/designs/rows.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "npu/array.h"
#include "npu/designs/use_kernel.h"

namespace tandem::npu {
namespace {

constexpr int kFirstComputeRow = 2;
constexpr int64_t kRowStackBytes = 1024;
constexpr int64_t kMaxRows = int64_t{1} << 28;
constexpr int64_t kElementsAtATime = 2048;

// An operand: so many elements for each row.
struct RowOperand {
    std::string name;
    ObjectType row;
};

// What one of these designs does: a call of `kernel` for `rows_at_a_time`, its buffers in the order of `inputs`,
// `shared` and `outputs`.
struct RowOp {
    std::string name;
    std::string array = {};
    std::string kernel;
    int64_t rows = 0;
    int64_t rows_at_a_time = 1;
    std::vector<RowOperand> inputs;
    std::optional<RowOperand> shared = std::nullopt;  // the same for all rows
    std::vector<RowOperand> outputs = {};
    std::vector<int32_t> numbers = {};
};

class RowBuilder {
  public:
    RowBuilder(const RowOp& op, const Array& array)
        : op_(op),
          array_(array),
          cores_(op.inputs.size() + op.outputs.size() > 2 ? 2 : array.rows - kFirstComputeRow),
          rows_per_step_(cores_ * op.rows_at_a_time) {}

    Result<RowDesign> build() {
        TRY(choose_depth());
        const int64_t unit = array_.columns * rows_per_step_;
        rows_ = (op_.rows + unit - 1) / unit * unit;
        design_.name = fmt::format("{}_{}", op_.name, rows_);
        design_.array = array_.name;
        add_arguments();
        std::vector<ObjectType> buffers;
        for (const RowOperand& operand : op_.inputs) buffers.push_back(object_of(operand));
        if (op_.shared) buffers.push_back(op_.shared->row);
        for (const RowOperand& operand : op_.outputs) buffers.push_back(object_of(operand));
        design_.kernels = {use_kernel(op_.kernel, buffers)};
        for (int c = 0; c < array_.columns; ++c) add_column(c);
        add_transfers();
        return RowDesign{std::move(design_), rows_};
    }

  private:
    ObjectType object_of(const RowOperand& operand) const {
        return {operand.row.element, operand.row.count * op_.rows_at_a_time};
    }

    Status choose_depth() {
        int64_t objects = 0;
        for (const auto* operands : {&op_.inputs, &op_.outputs}) {
            for (const RowOperand& operand : *operands) objects += (object_of(operand).size_bytes() + 63) / 64 * 64;
        }
        const int64_t fixed = kRowStackBytes + (op_.shared ? op_.shared->row.size_bytes() : 0);
        const int64_t room = array_.compute.memory_bytes - fixed;
        if (objects > room)
            return fail("{}: a row needs {} bytes of a core, which has {}", op_.name, objects + fixed,
                        array_.compute.memory_bytes);
        depth_ = 2 * objects <= room ? 2 : 1;
        return Ok{};
    }

    static std::string fifo(const RowOperand& operand, int column) { return fmt::format("{}{}", operand.name, column); }
    static std::string fifo(const RowOperand& operand, int column, int core) {
        return fmt::format("{}{}_{}", operand.name, column, core);
    }

    void add_arguments() {
        const auto add = [&](const RowOperand& operand, int64_t rows) {
            design_.sequence.arguments.push_back({operand.name, {operand.row.element, operand.row.count * rows}});
        };
        for (const RowOperand& operand : op_.inputs) add(operand, rows_);
        if (op_.shared) add(*op_.shared, 1);
        for (const RowOperand& operand : op_.outputs) add(operand, rows_);
    }

    // Through the mem tile, which cuts an object into those of the cores or puts it together.
    void add_operand(const RowOperand& operand, int column, bool input) {
        const Tile shim{column, 0};
        const Tile mem{column, 1};
        const ObjectType part = object_of(operand);
        const ObjectType whole{part.element, part.count * cores_};
        const std::string all = fifo(operand, column);
        design_.fifos.push_back(
            {.name = all, .producer = input ? shim : mem, .consumers = {input ? mem : shim}, .object = whole});
        Link link;
        (input ? link.from : link.to).push_back(all);
        for (int r = 0; r < cores_; ++r) {
            const Tile core{column, kFirstComputeRow + r};
            const std::string one = fifo(operand, column, r);
            design_.fifos.push_back({.name = one,
                                     .producer = input ? mem : core,
                                     .consumers = {input ? core : mem},
                                     .object = part,
                                     .depth = depth_});
            (input ? link.to : link.from).push_back(one);
            link.offsets.push_back(r * part.count);
        }
        design_.links.push_back(std::move(link));
    }

    void add_column(int column) {
        std::vector<Tile> cores;
        cores.reserve(static_cast<size_t>(cores_));
        for (int r = 0; r < cores_; ++r) cores.push_back({column, kFirstComputeRow + r});
        for (const RowOperand& operand : op_.inputs) add_operand(operand, column, true);
        if (op_.shared) {
            const std::string in = fmt::format("{}_in{}", op_.shared->name, column);
            const std::string all = fifo(*op_.shared, column);
            design_.fifos.push_back({.name = in,
                                     .producer = {column, 0},
                                     .consumers = {{column, 1}},
                                     .object = op_.shared->row,
                                     .depth = 1});
            design_.fifos.push_back(
                {.name = all, .producer = {column, 1}, .consumers = cores, .object = op_.shared->row, .depth = 1});
            design_.links.push_back({.from = {in}, .to = {all}});
        }
        for (const RowOperand& operand : op_.outputs) add_operand(operand, column, false);
        for (int r = 0; r < cores_; ++r) design_.workers.push_back(worker(column, r));
    }

    Worker worker(int column, int core) const {
        Call call{op_.kernel, {}};
        std::vector<Statement> before;
        std::vector<Statement> after;
        const auto use = [&](const std::string& name) {
            before.emplace_back(Acquire{name});
            after.emplace_back(Release{name});
            call.arguments.emplace_back(ObjectArgument{name});
        };
        for (const RowOperand& operand : op_.inputs) use(fifo(operand, column, core));
        if (op_.shared) call.arguments.emplace_back(ObjectArgument{fifo(*op_.shared, column)});
        for (const RowOperand& operand : op_.outputs) use(fifo(operand, column, core));
        for (const int32_t number : op_.numbers) call.arguments.emplace_back(number);
        Loop loop{.count = rows_ / array_.columns / rows_per_step_, .body = std::move(before)};
        loop.body.emplace_back(std::move(call));
        loop.body.insert(loop.body.end(), after.begin(), after.end());
        Worker made{.tile = {column, kFirstComputeRow + core}, .body = {}, .stack_bytes = kRowStackBytes};
        if (op_.shared) made.body.emplace_back(Acquire{fifo(*op_.shared, column)});
        made.body.emplace_back(std::move(loop));
        if (op_.shared) made.body.emplace_back(Release{fifo(*op_.shared, column)});
        return made;
    }

    // Each column has a run of rows of its own.
    void add_transfers() {
        int argument = 0;
        const auto add = [&](const RowOperand& operand) {
            const int64_t count = operand.row.count * (rows_ / array_.columns);
            for (int c = 0; c < array_.columns; ++c)
                design_.sequence.transfers.push_back(
                    {.fifo = fifo(operand, c), .argument = argument, .offset = c * count, .access = {{count, 1}}});
            ++argument;
        };
        for (const RowOperand& operand : op_.inputs) add(operand);
        if (op_.shared) {
            for (int c = 0; c < array_.columns; ++c)
                design_.sequence.transfers.push_back({.fifo = fmt::format("{}_in{}", op_.shared->name, c),
                                                      .argument = argument,
                                                      .access = {{op_.shared->row.count, 1}}});
            ++argument;
        }
        for (const RowOperand& operand : op_.outputs) add(operand);
        design_.sequence.transfers.back().wait = true;
    }

    const RowOp& op_;
    const Array& array_;
    int cores_;  // in a column
    int64_t rows_per_step_;
    int depth_ = 1;
    int64_t rows_ = 0;
    Design design_;
};

Result<RowDesign> build(const RowOp& op) {
    const Array* array = find_array(op.array);
    if (array == nullptr) return fail("there is no array '{}': npu1 and npu2 are known", op.array);
    if (op.rows < 1 || op.rows > kMaxRows)
        return fail("{} of {} rows: 1 to {} can be done", op.name, op.rows, kMaxRows);
    for (const auto* operands : {&op.inputs, &op.outputs}) {
        for (const RowOperand& operand : *operands) {
            if (operand.row.count < 1) return fail("{} of rows without elements", op.name);
        }
    }
    return RowBuilder(op, *array).build();
}

RowOperand floats(std::string name, int64_t count) {
    return {std::move(name), {Element::f32, count}};
}

// Of two operands, which `op` names together with the kernel and what it takes behind the count.
Result<RowDesign> elementwise(const ElementwiseShape& shape, RowOp op) {
    op.array = shape.array;
    op.rows = shape.count;
    op.rows_at_a_time = kElementsAtATime;
    op.outputs = {floats("y", 1)};
    op.numbers.insert(op.numbers.begin(), static_cast<int32_t>(kElementsAtATime));
    return build(op);
}

}  // namespace

Result<RowDesign> rms_norm_design(const RmsNormShape& shape) {
    return build({.name = fmt::format("rms_norm_f32_{}_{:08x}", shape.cols, std::bit_cast<uint32_t>(shape.eps)),
                  .array = shape.array,
                  .kernel = "rms_norm_f32",
                  .rows = shape.rows,
                  .inputs = {floats("x", shape.cols)},
                  .shared = floats("weight", shape.cols),
                  .outputs = {floats("y", shape.cols)},
                  .numbers = {1, static_cast<int32_t>(shape.cols), std::bit_cast<int32_t>(shape.eps)}});
}

Result<RowDesign> softmax_design(const SoftmaxShape& shape) {
    return build({.name = fmt::format("softmax_f32_{}", shape.cols),
                  .array = shape.array,
                  .kernel = "softmax_f32",
                  .rows = shape.rows,
                  .inputs = {floats("x", shape.cols)},
                  .outputs = {floats("y", shape.cols)},
                  .numbers = {1, static_cast<int32_t>(shape.cols)}});
}

Result<RowDesign> rope_design(const RopeShape& shape) {
    return build(
        {.name = fmt::format("rope_f32_{}{}x{}", shape.layout == 0 ? "" : "interleaved_", shape.heads, shape.head_dim),
         .array = shape.array,
         .kernel = "rope_f32",
         .rows = shape.tokens,
         .inputs = {floats("x", shape.heads * shape.head_dim), floats("cos_sin", shape.head_dim)},
         .outputs = {floats("y", shape.heads * shape.head_dim)},
         .numbers = {static_cast<int32_t>(shape.heads), static_cast<int32_t>(shape.head_dim), shape.layout}});
}

Result<RowDesign> add_design(const ElementwiseShape& shape) {
    return elementwise(shape, {.name = "add_f32", .kernel = "add_f32", .inputs = {floats("a", 1), floats("b", 1)}});
}

Result<RowDesign> glu_design(const ElementwiseShape& shape, int32_t activation) {
    if (activation < 0 || activation >= std::ssize(kGluNames))
        return fail("there is no activation {} for the NPU: 0 to {} are known", activation, std::ssize(kGluNames) - 1);
    return elementwise(shape, {.name = std::string(kGluNames[activation]),
                               .kernel = "glu_f32",
                               .inputs = {floats("gate", 1), floats("up", 1)},
                               .numbers = {activation}});
}

Result<RowDesign> quantize_design(const QuantizeShape& shape) {
    return build({.name = fmt::format("quantize_f32_i8_{}", shape.cols),
                  .array = shape.array,
                  .kernel = "quantize_f32_i8",
                  .rows = shape.rows,
                  .inputs = {floats("x", shape.cols)},
                  .outputs = {{"q", {Element::i8, shape.cols}}, floats("scale", 1)},
                  .numbers = {1, static_cast<int32_t>(shape.cols)}});
}

}  // namespace tandem::npu
