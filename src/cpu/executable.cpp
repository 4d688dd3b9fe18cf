#include "cpu/executable.h"

#include <algorithm>
#include <cstring>

#include "cpu/kernel.h"
#include "device/host_memory.h"
#include "device/step_check.h"
#include "graph/memory_plan.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

using graph::Program;
using graph::TensorType;
using graph::Value;
using graph::ValueId;

// A value and where it lies: at `data`, or in one of the vectors of the step's Batch.
struct Operand {
    TensorType type;
    std::byte* data = nullptr;
    std::vector<int32_t> device::Batch::*batch_input = nullptr;
    std::vector<const std::byte*> parts = {};  // of a weight whose matrices lie apart
};

// One kernel call. `in` and `out` are filled anew for each step, as row counts change.
struct Call {
    const Kernel* kernel;
    graph::Op op;
    std::vector<Operand> operands;
    Operand result;
    size_t scratch_bytes;
    std::vector<Input> in;
    Output out;
    std::string matrix = {};  // the name of a product's weight, where someone observes
};

int64_t cols(const TensorType& type, const graph::Extents& extents) {
    return graph::extent(type.shape.back(), extents);
}

class CpuExecutable final : public device::Executable {
  public:
    static Result<std::unique_ptr<device::Executable>> create(const CompileContext& context);

    Status submit(const device::Batch& batch, const device::FindAllowed& find_allowed) override;
    Status wait() override { return Ok{}; }
    std::span<const std::byte> result(size_t index) const override {
        const Operand& operand = results_[index];
        return {operand.data, operand.type.size_bytes(extents_)};
    }

  private:
    Status resolve(const CompileContext& context);
    Result<Operand> resolve_value(ValueId id, const CompileContext& context);
    std::byte* place(ValueId id, const device::CompileOptions& options) const;
    Result<Operand> resolve_weight(const Value& value, const graph::Weights& weights);
    const std::byte* aligned(DType dtype, std::span<const std::byte> bytes);
    Status resolve_node(const graph::Node& node, const CompileContext& context);
    void run(Call& call, const device::Batch& batch);
    void observe(const Call& call) const;

    Program program_;
    graph::MemoryPlan plan_;
    device::StepLimits limits_;
    std::shared_ptr<PagedCache> cache_;
    std::shared_ptr<ThreadPool> threads_;
    LinearObserver observer_;
    device::HostBuffer arena_;
    device::HostBuffer scratch_;
    std::vector<std::vector<std::byte>> realigned_;  // weights whose bytes in the file are not aligned to their type
    std::vector<Call> calls_;
    std::vector<Operand> results_;
    graph::Extents extents_;  // of the last step
    std::vector<int32_t> sequence_of_row_;
};

Result<std::unique_ptr<device::Executable>> CpuExecutable::create(const CompileContext& context) {
    auto executable = std::make_unique<CpuExecutable>();
    TRY(executable->resolve(context));
    return std::unique_ptr<device::Executable>(std::move(executable));
}

Status CpuExecutable::resolve(const CompileContext& context) {
    program_ = graph::keep_results(context.program, context.options.results);
    cache_ = context.cache;
    threads_ = context.threads;
    observer_ = context.observer;
    limits_ = device::step_limits(program_, context.options.limits, cache_.get());
    plan_ = graph::plan_memory(program_, context.options.limits);
    arena_ =
        TRY(device::HostBuffer::allocate(plan_.size_bytes, "the working memory of a step", "choose a smaller batch"));
    sequence_of_row_.reserve(static_cast<size_t>(context.options.limits.tokens));

    for (const graph::Node& node : program_.nodes) TRY(resolve_node(node, context));
    size_t scratch = 0;
    for (const Call& call : calls_) scratch = std::max(scratch, call.scratch_bytes);
    scratch_ = TRY(device::HostBuffer::allocate(scratch, "the working memory of a step", "choose a smaller batch"));
    for (const std::string& name : context.options.results) {
        const auto found = std::find_if(program_.results.begin(), program_.results.end(),
                                        [&](const graph::NamedResult& result) { return result.name == name; });
        results_.push_back(TRY(resolve_value(found->value, context)));
    }
    return Ok{};
}

Status CpuExecutable::resolve_node(const graph::Node& node, const CompileContext& context) {
    Call call{.kernel = nullptr, .op = node.op, .operands = {}, .result = {}, .scratch_bytes = 0, .in = {}, .out = {}};
    std::vector<TensorType> types;
    for (ValueId input : node.inputs) {
        call.operands.push_back(TRY(resolve_value(input, context)));
        types.push_back(program_.value(input).type);
    }
    call.result = TRY(resolve_value(node.output, context));
    call.in.resize(node.inputs.size());
    call.kernel = find_kernel(node.op, types, context.reference_only);
    if (call.kernel == nullptr) return fail("the cpu device has no kernel for the op '{}'", node.op.name());
    call.scratch_bytes = call.kernel->scratch_bytes(
        node.op,
        {.inputs = types, .output = call.result.type, .limits = context.options.limits, .threads = threads_->size()});
    const bool product = node.op.as<op::Linear>() != nullptr || node.op.as<op::ExpertLinear>() != nullptr;
    if (observer_ && product) call.matrix = program_.value(node.inputs[0]).name;
    calls_.push_back(std::move(call));
    return Ok{};
}

// A result that others read lies where they do.
std::byte* CpuExecutable::place(ValueId id, const device::CompileOptions& options) const {
    for (const graph::NamedResult& result : program_.results) {
        const device::SharedValue* const shared = result.value == id ? options.find_shared(result.name) : nullptr;
        if (shared != nullptr) return shared->memory.data();
    }
    return arena_.data() + plan_.offset[static_cast<size_t>(id)];
}

Result<Operand> CpuExecutable::resolve_value(ValueId id, const CompileContext& context) {
    const Value& value = program_.value(id);
    if (value.kind == Value::Kind::weight) return resolve_weight(value, context.weights);
    Operand operand{.type = value.type};
    if (value.kind == Value::Kind::computed) {
        operand.data = place(id, context.options);
    } else if (value.name == graph::kTokens) {
        operand.batch_input = &device::Batch::tokens;
    } else if (value.name == graph::kPositions) {
        operand.batch_input = &device::Batch::positions;
    } else if (value.name == graph::kOutputRows) {
        operand.batch_input = &device::Batch::output_rows;
    } else if (const device::SharedValue* const shared = context.options.find_shared(value.name); shared != nullptr) {
        operand.data = shared->memory.data();
    } else {
        return fail("the cpu device knows no input '{}'", value.name);
    }
    return operand;
}

// Weights are used where they lie. Files align them; the rare one that is not, is copied.
Result<Operand> CpuExecutable::resolve_weight(const Value& value, const graph::Weights& weights) {
    const graph::WeightView* view = weights.find(value.name);
    if (view == nullptr) return fail("the model file has no weight '{}'", value.name);
    graph::TensorType type{view->dtype, {}};
    for (int64_t extent : view->shape) type.shape.push_back(graph::Dim::of(extent));
    if (type != value.type) {
        return fail("weight '{}' is {} but the model needs {}", value.name, graph::to_string(type),
                    graph::to_string(value.type));
    }
    if (view->size_bytes() != type.size_bytes({})) {
        return fail("weight '{}' has {} bytes but {} takes {}", value.name, view->size_bytes(), graph::to_string(type),
                    type.size_bytes({}));
    }
    Operand operand{.type = type};
    for (const std::span<const std::byte> part : view->parts) operand.parts.push_back(aligned(type.dtype, part));
    if (view->parts.empty()) operand.data = const_cast<std::byte*>(aligned(type.dtype, view->data));
    return operand;
}

const std::byte* CpuExecutable::aligned(DType dtype, std::span<const std::byte> bytes) {
    const size_t alignment = info(dtype).block_bytes % 4 == 0 && !is_quantized(dtype) ? 4 : 2;
    if (reinterpret_cast<uintptr_t>(bytes.data()) % alignment == 0) return bytes.data();
    return realigned_.emplace_back(bytes.begin(), bytes.end()).data();
}

Status CpuExecutable::submit(const device::Batch& batch, const device::FindAllowed& find_allowed) {
    TRY(device::check_step(batch, limits_));
    TRY(device::find_allowed(batch, limits_, find_allowed));
    extents_ = {.tokens = static_cast<int64_t>(batch.tokens.size()),
                .outputs = static_cast<int64_t>(batch.output_rows.size())};
    sequence_of_row_.clear();
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
        sequence_of_row_.insert(sequence_of_row_.end(), static_cast<size_t>(batch.sequences[i].rows),
                                static_cast<int32_t>(i));
    }
    for (Call& call : calls_) run(call, batch);
    return Ok{};
}

void CpuExecutable::run(Call& call, const device::Batch& batch) {
    for (size_t i = 0; i < call.operands.size(); ++i) {
        const Operand& operand = call.operands[i];
        const std::byte* data = operand.data;
        if (operand.batch_input != nullptr)
            data = reinterpret_cast<const std::byte*>((batch.*operand.batch_input).data());
        call.in[i] = {.dtype = operand.type.dtype,
                      .rows = operand.type.rows(extents_),
                      .cols = cols(operand.type, extents_),
                      .data = data,
                      .matrices = operand.type.shape.size() == 3 ? operand.type.shape[0].count : 1,
                      .parts = operand.parts};
    }
    call.out = {
        .rows = call.result.type.rows(extents_), .cols = cols(call.result.type, extents_), .data = call.result.data};
    if (call.out.rows == 0) return;  // a step may want no outputs
    const Step step{.batch = &batch,
                    .sequence_of_row = sequence_of_row_,
                    .cache = cache_.get(),
                    .threads = threads_.get(),
                    .scratch = scratch_.bytes().first(call.scratch_bytes)};
    if (!call.matrix.empty()) observe(call);
    call.kernel->run(call.op, {.in = call.in, .out = call.out, .step = step});
}

void CpuExecutable::observe(const Call& call) const {
    const Input& weight = call.in[0];
    const Input& x = call.in[1];
    if (call.op.as<op::ExpertLinear>() == nullptr) {
        observer_({call.matrix, {x.f32(), static_cast<size_t>(x.rows * x.cols)}, x.cols});
        return;
    }
    const Input& routing = call.in[2];
    const int64_t used = routing.cols / 2;
    const int64_t apart = x.cols == weight.cols ? 0 : weight.cols;
    for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t slot = 0; slot < used; ++slot) {
            observer_({.weight = call.matrix,
                       .rows = {x.f32(r) + slot * apart, static_cast<size_t>(weight.cols)},
                       .cols = weight.cols,
                       .expert = static_cast<int64_t>(routing.f32(r)[slot]),
                       .experts = weight.matrices});
        }
    }
}

}  // namespace

Result<std::unique_ptr<device::Executable>> compile(const CompileContext& context) {
    return CpuExecutable::create(context);
}

}  // namespace tandem::cpu
