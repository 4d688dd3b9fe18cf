#include "npu/executable.h"

#include <algorithm>
#include <cstring>

#include "device/stage_times.h"
#include "device/step_check.h"
#include "graph/memory_plan.h"
#include "graph/ops.h"

namespace tandem::npu {

namespace {

constexpr int64_t kRowMultiple = 64;  // designs may write as many rows more as that takes

class NpuExecutable final : public device::Executable {
  public:
    explicit NpuExecutable(const CompileContext& context)
        : shop_(context.shop),
          program_(graph::keep_results(context.program, context.options.results)),
          limits_(context.options.limits),
          step_limits_(device::step_limits(program_, limits_, context.cache.get())) {}

    Status prepare(const CompileContext& context);

    Status submit(const device::Batch& batch, const device::FindAllowed& /*find_allowed*/) override {
        TRY(run(batch));
        return Ok{};
    }
    Status wait() override { return Ok{}; }
    std::span<const std::byte> result(size_t index) const override {
        const graph::ValueId id = program_.results[index].value;
        return values_[static_cast<size_t>(id)].buffer->bytes().first(program_.value(id).type.size_bytes(extents_));
    }
    // By the array's own account: what its emulator estimates is not what the emulator takes.
    Result<std::vector<device::StageTime>> profile(const device::Batch& batch) override { return run(batch); }

  private:
    Status place_values(const device::CompileOptions& options);
    Result<Operand> place_shared(graph::ValueId id, const device::SharedValue& shared);
    Result<std::unique_ptr<Step>> make_step(const graph::Node& node, const CompileContext& context);
    Result<std::vector<device::StageTime>> run(const device::Batch& batch);

    std::shared_ptr<Workshop> shop_;
    graph::Program program_;
    graph::Extents limits_;
    device::StepLimits step_limits_;
    std::vector<Operand> values_;
    std::vector<std::unique_ptr<Step>> steps_;  // per node
    graph::Extents extents_;                    // of the last step
};

int64_t padded(int64_t rows) {
    return (rows + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
}

Status NpuExecutable::prepare(const CompileContext& context) {
    if (step_limits_.attends && context.cache->host_keys(0).empty())
        return fail("the NPU needs a key-value cache in memory of the host");
    TRY(place_values(context.options));
    for (const graph::Node& node : program_.nodes) steps_.push_back(TRY(make_step(node, context)));
    return Ok{};
}

Result<Operand> NpuExecutable::place_shared(graph::ValueId id, const device::SharedValue& shared) {
    const graph::TensorType& type = program_.value(id).type;
    Operand operand{.buffer = nullptr, .rows = 0, .cols = type.cols()};
    if (shared.memory.empty()) return operand;
    operand.buffer = TRY(shop_->runtime().import_memory(shared.memory, {}));
    operand.rows = std::ssize(shared.memory) / static_cast<int64_t>(type.size_bytes({.tokens = 1, .outputs = 1}));
    return operand;
}

// What crosses lies where the other device has it; the rest in one arena, those that never live at once in one place.
Status NpuExecutable::place_values(const device::CompileOptions& options) {
    values_.resize(program_.values.size());
    for (graph::ValueId id = 0; id < std::ssize(program_.values); ++id) {
        const graph::Value& value = program_.value(id);
        if (value.kind != graph::Value::Kind::input) continue;
        const device::SharedValue* const shared = options.find_shared(value.name);
        if (shared != nullptr) values_[static_cast<size_t>(id)] = TRY(place_shared(id, *shared));
    }
    for (const graph::NamedResult& result : program_.results) {
        const device::SharedValue* const shared = options.find_shared(result.name);
        if (shared != nullptr) values_[static_cast<size_t>(result.value)] = TRY(place_shared(result.value, *shared));
    }
    const graph::Extents most{.tokens = padded(limits_.tokens), .outputs = padded(limits_.outputs)};
    const graph::MemoryPlan plan = graph::plan_memory(program_, most, Runtime::kPageBytes);
    if (plan.size_bytes == 0) return Ok{};
    const std::shared_ptr<Buffer> arena = TRY(shop_->allocate(plan.size_bytes));
    for (const graph::Node& node : program_.nodes) {
        Operand& operand = values_[static_cast<size_t>(node.output)];
        const graph::TensorType& type = program_.value(node.output).type;
        const size_t bytes = type.size_bytes(most);
        if (operand.buffer || bytes == 0) continue;
        operand.buffer = TRY(shop_->runtime().part(arena, plan.offset[static_cast<size_t>(node.output)], bytes));
        operand.rows = type.rows(most);
        operand.cols = type.cols();
    }
    return Ok{};
}

Result<std::unique_ptr<Step>> NpuExecutable::make_step(const graph::Node& node, const CompileContext& context) {
    const StepSource source{.program = program_,
                            .node = node,
                            .weights = context.weights,
                            .cache = context.cache,
                            .value = [&](graph::ValueId id) { return values_[static_cast<size_t>(id)]; }};
    const StepMaker* const maker = find_step(program_, node);
    if (maker == nullptr) return fail("the NPU has no design for the op '{}'", node.op.name());
    return maker->make(*shop_, source);
}

Result<std::vector<device::StageTime>> NpuExecutable::run(const device::Batch& batch) {
    TRY(device::check_step(batch, step_limits_));
    extents_ = {.tokens = std::ssize(batch.tokens), .outputs = std::ssize(batch.output_rows)};
    const StepContext context{.batch = batch, .rows = extents_.tokens, .run = shop_->begin_run()};
    device::StageTimes times;
    for (size_t n = 0; n < steps_.size(); ++n) {
        const double seconds = TRY(steps_[n]->run(context));
        times.add(program_.nodes[n].op.name(), seconds);
    }
    return times.list();
}

}  // namespace

Result<std::unique_ptr<device::Executable>> compile(const CompileContext& context) {
    auto executable = std::make_unique<NpuExecutable>(context);
    TRY(executable->prepare(context));
    return std::unique_ptr<device::Executable>(std::move(executable));
}

}  // namespace tandem::npu
