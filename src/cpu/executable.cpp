#include "cpu/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "cpu/kernel.h"
#include "device/host_memory.h"
#include "device/stage_times.h"
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

// One kernel call. `in`, `out` and `step` are filled anew for each step, as row counts change.
struct Call {
    const Kernel* kernel;
    graph::Op op;
    std::vector<Operand> operands;
    Operand result;
    size_t scratch_bytes;
    std::string matrix;     // the name of a product's weight
    size_t scratch_at = 0;  // behind that of calls it runs together with
    std::vector<Input> in = {};
    Output out = {};
    Step step = {};
};

// Calls [first, first + count) are run as one piece of work.
struct CallGroup {
    size_t first;
    size_t count;
    std::string name = {};  // of its op and its weights, for people
};

bool is_product(const graph::Node& node) {
    return node.op.as<op::Linear>() != nullptr;
}

// Moves products of the same rows behind the first of them, so that they can be run together: q, k and v, gate and up.
void bring_products_together(Program& program) {
    const auto waits_for_nothing = [&](const graph::Node& node) {
        return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
            return id == node.inputs[1] || program.value(id).kind == Value::Kind::weight;
        });
    };
    for (auto first = program.nodes.begin(); first != program.nodes.end(); ++first) {
        if (!is_product(*first)) continue;
        const ValueId x = first->inputs[1];
        size_t count = 1;
        for (auto other = first + 1; other != program.nodes.end() && count < kMostTogether; ++other) {
            if (!is_product(*other) || other->inputs[1] != x || !waits_for_nothing(*other)) continue;
            ++first;
            ++count;
            std::rotate(first, other, other + 1);
        }
    }
}

// The part of a weight's name that is the same in all layers: "ffn_up" of "blk.3.ffn_up.weight".
std::string_view role_of(std::string_view weight) {
    constexpr std::string_view kEnd = ".weight";
    if (weight.ends_with(kEnd)) weight.remove_suffix(kEnd.size());
    return weight.substr(weight.rfind('.') + 1);
}

int64_t cols(const TensorType& type, const graph::Extents& extents) {
    return graph::extent(type.shape.back(), extents);
}

class CpuExecutable final : public device::Executable {
  public:
    static Result<std::unique_ptr<device::Executable>> create(const CompileContext& context);

    Status submit(const device::Batch& batch, const device::FindAllowed& find_allowed) override;
    Result<std::vector<device::StageTime>> profile(const device::Batch& batch) override;
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
    size_t group_calls();
    Status begin_step(const device::Batch& batch, const device::FindAllowed& find_allowed);
    void prepare(Call& call, const device::Batch& batch);
    void run(const CallGroup& group, const device::Batch& batch);
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
    std::vector<CallGroup> groups_;
    std::vector<Args> args_;  // of the group under way
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
    bring_products_together(program_);
    cache_ = context.cache;
    threads_ = context.threads;
    observer_ = context.observer;
    limits_ = device::step_limits(program_, context.options.limits, cache_.get());
    plan_ = graph::plan_memory(program_, context.options.limits);
    arena_ =
        TRY(device::HostBuffer::allocate(plan_.size_bytes, "the working memory of a step", "choose a smaller batch"));
    sequence_of_row_.reserve(static_cast<size_t>(context.options.limits.tokens));

    for (const graph::Node& node : program_.nodes) TRY(resolve_node(node, context));
    args_.reserve(kMostTogether);
    scratch_ =
        TRY(device::HostBuffer::allocate(group_calls(), "the working memory of a step", "choose a smaller batch"));
    for (const std::string& name : context.options.results) {
        const auto found = std::find_if(program_.results.begin(), program_.results.end(),
                                        [&](const graph::NamedResult& result) { return result.name == name; });
        results_.push_back(TRY(resolve_value(found->value, context)));
    }
    return Ok{};
}

Status CpuExecutable::resolve_node(const graph::Node& node, const CompileContext& context) {
    Call call{.kernel = nullptr, .op = node.op, .operands = {}, .result = {}, .scratch_bytes = 0, .matrix = {}};
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
    if (is_product(node) || node.op.as<op::ExpertLinear>() != nullptr)
        call.matrix = program_.value(node.inputs[0]).name;
    calls_.push_back(std::move(call));
    return Ok{};
}

// Returns the bytes of scratch memory that the largest group needs.
size_t CpuExecutable::group_calls() {
    constexpr size_t kAlignment = graph::MemoryPlan::kAlignment;
    size_t most = 0;
    size_t used = 0;  // by the last group
    for (size_t i = 0; i < calls_.size(); ++i) {
        Call& call = calls_[i];
        const Call* const first = groups_.empty() ? nullptr : &calls_[groups_.back().first];
        const bool joins = first != nullptr && call.kernel->run_together != nullptr && call.kernel == first->kernel &&
                           groups_.back().count < kMostTogether &&
                           program_.nodes[i].inputs[1] == program_.nodes[groups_.back().first].inputs[1];
        if (!joins) {
            groups_.push_back({.first = i, .count = 0, .name = std::string(call.op.name())});
            used = 0;
        }
        CallGroup& group = groups_.back();
        if (!call.matrix.empty()) group.name += fmt::format("{}{}", joins ? ", " : " ", role_of(call.matrix));
        ++group.count;
        call.scratch_at = used;
        used += (call.scratch_bytes + kAlignment - 1) / kAlignment * kAlignment;
        most = std::max(most, used);
    }
    return most;
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
    TRY(begin_step(batch, find_allowed));
    const ThreadPool::Awake awake(*threads_);
    for (const CallGroup& group : groups_) run(group, batch);
    return Ok{};
}

Result<std::vector<device::StageTime>> CpuExecutable::profile(const device::Batch& batch) {
    using Clock = std::chrono::steady_clock;
    TRY(begin_step(batch, {}));
    const ThreadPool::Awake awake(*threads_);
    device::StageTimes parts;
    Clock::time_point before = Clock::now();
    for (const CallGroup& group : groups_) {
        run(group, batch);
        const Clock::time_point after = Clock::now();
        uint64_t weight_bytes = 0;
        for (size_t i = group.first; i < group.first + group.count; ++i) {
            const Call& call = calls_[i];
            if (!call.matrix.empty() && call.out.rows > 0) weight_bytes += call.operands[0].type.size_bytes({});
        }
        parts.add(group.name, std::chrono::duration<double>(after - before).count(), weight_bytes);
        before = after;
    }
    return parts.list();
}

Status CpuExecutable::begin_step(const device::Batch& batch, const device::FindAllowed& find_allowed) {
    TRY(device::check_step(batch, limits_));
    TRY(device::find_allowed(batch, limits_, find_allowed));
    extents_ = {.tokens = static_cast<int64_t>(batch.tokens.size()),
                .outputs = static_cast<int64_t>(batch.output_rows.size())};
    sequence_of_row_.clear();
    for (size_t i = 0; i < batch.sequences.size(); ++i) {
        sequence_of_row_.insert(sequence_of_row_.end(), static_cast<size_t>(batch.sequences[i].rows),
                                static_cast<int32_t>(i));
    }
    return Ok{};
}

void CpuExecutable::prepare(Call& call, const device::Batch& batch) {
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
    call.step = {.batch = &batch,
                 .sequence_of_row = sequence_of_row_,
                 .cache = cache_.get(),
                 .threads = threads_.get(),
                 .scratch = scratch_.bytes().subspan(call.scratch_at, call.scratch_bytes)};
}

void CpuExecutable::run(const CallGroup& group, const device::Batch& batch) {
    args_.clear();
    for (size_t i = group.first; i < group.first + group.count; ++i) {
        Call& call = calls_[i];
        prepare(call, batch);
        if (call.out.rows == 0) return;  // a step may want no outputs; those of a group have the same rows
        if (observer_ && !call.matrix.empty()) observe(call);
        args_.push_back({.in = call.in, .out = call.out, .step = call.step});
    }
    const Call& first = calls_[group.first];
    if (group.count > 1) {
        first.kernel->run_together(args_);
    } else {
        first.kernel->run(first.op, args_.front());
    }
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
