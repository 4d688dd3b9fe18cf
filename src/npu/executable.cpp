#include "npu/executable.h"

#include <algorithm>
#include <chrono>

#include "device/stage_times.h"
#include "device/step_check.h"
#include "graph/memory_plan.h"
#include "graph/ops.h"
#include "graph/segment.h"

namespace tandem::npu {

namespace {

constexpr int kArray = 0;
constexpr int kHost = 1;
constexpr size_t kFirstResult = 2;  // of the Workshop's, behind those that steps copy from

// A run of nodes that one of the two has: steps of the array, or a Program of the host.
struct Stretch {
    std::vector<std::pair<std::string, std::unique_ptr<Step>>> steps;  // with the names of their ops
    std::unique_ptr<device::Executable> host;
};

// What crosses from and to others is called by numbers, and so is what crosses between the array and the host: they
// must not be mistaken for each other.
std::string outer_name(const std::string& name) {
    return "outer " + name;
}

graph::Program with_names_of_its_own(graph::Program program, const device::CompileOptions& options) {
    for (graph::Value& value : program.values) {
        const bool crosses = value.kind == graph::Value::Kind::input && options.find_shared(value.name) != nullptr;
        if (crosses) value.name = outer_name(value.name);
    }
    for (graph::NamedResult& result : program.results) result.name = outer_name(result.name);
    return program;
}

class NpuExecutable final : public device::Executable {
  public:
    explicit NpuExecutable(const CompileContext& context)
        : shop_(context.shop),
          host_(context.host),
          program_(
              with_names_of_its_own(graph::keep_results(context.program, context.options.results), context.options)),
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
        const auto* const bytes = reinterpret_cast<const std::byte*>(values_[static_cast<size_t>(id)].values);
        return {bytes, program_.value(id).type.size_bytes(extents_)};
    }
    // By the array's own account: what its emulator estimates is not what the emulator takes.
    Result<std::vector<device::StageTime>> profile(const device::Batch& batch) override { return run(batch); }

  private:
    Status place_values(const device::CompileOptions& options);
    void place_shared(graph::ValueId id, const device::SharedValue& shared);
    Status place_result(const graph::Node& node, size_t number);
    std::vector<device::SharedValue> host_memory() const;
    Result<std::unique_ptr<Step>> make_step(const graph::Node& node, const CompileContext& context);
    Result<std::vector<device::StageTime>> run(const device::Batch& batch);

    std::shared_ptr<Workshop> shop_;
    std::shared_ptr<device::Backend> host_;
    graph::Program program_;
    graph::Extents limits_;
    device::StepLimits step_limits_;
    std::shared_ptr<device::HostBuffer> memory_;  // of values
    std::vector<Operand> values_;
    std::vector<Stretch> stretches_;
    graph::Extents extents_;  // of the last step
};

Status NpuExecutable::prepare(const CompileContext& context) {
    if (step_limits_.attends && context.cache->host_keys(0).empty())
        return fail("the NPU needs a key-value cache in memory of the host");
    TRY(place_values(context.options));
    std::vector<int> who(program_.nodes.size());
    for (size_t n = 0; n < who.size(); ++n) who[n] = is_host_op(program_, program_.nodes[n]) ? kHost : kArray;
    const std::vector<device::SharedValue> memory = host_memory();
    auto node = program_.nodes.begin();
    for (const graph::Segment& segment : graph::cut(program_, who)) {
        Stretch stretch;
        const auto end = node + std::ssize(segment.program.nodes);
        if (segment.device == kHost) {
            device::CompileOptions options{.limits = limits_, .results = {}, .shared = memory};
            for (const graph::NamedResult& result : segment.program.results) options.results.push_back(result.name);
            stretch.host = TRY(host_->compile(segment.program, context.weights, nullptr, options));
            node = end;
        }
        for (; node != end; ++node) stretch.steps.emplace_back(node->op.name(), TRY(make_step(*node, context)));
        stretches_.push_back(std::move(stretch));
    }
    return Ok{};
}

// As the parts that graph::cut() makes call them.
std::vector<device::SharedValue> NpuExecutable::host_memory() const {
    std::vector<device::SharedValue> memory;
    const auto add = [&](const std::string& name, graph::ValueId id) {
        const Operand& operand = values_[static_cast<size_t>(id)];
        const auto floats = static_cast<size_t>(operand.rows * operand.cols);
        memory.push_back({name, std::as_writable_bytes(std::span(operand.values, floats))});
    };
    for (graph::ValueId id = 0; id < std::ssize(program_.values); ++id) {
        if (values_[static_cast<size_t>(id)].values == nullptr) continue;
        const graph::Value& value = program_.value(id);
        add(value.kind == graph::Value::Kind::input ? value.name : graph::crossing_name(id), id);
    }
    for (const graph::NamedResult& result : program_.results)
        if (values_[static_cast<size_t>(result.value)].values != nullptr) add(result.name, result.value);
    return memory;
}

void NpuExecutable::place_shared(graph::ValueId id, const device::SharedValue& shared) {
    if (shared.memory.empty()) return;
    const graph::TensorType& type = program_.value(id).type;
    values_[static_cast<size_t>(id)] = {
        .values = reinterpret_cast<float*>(shared.memory.data()),
        .rows = std::ssize(shared.memory) / static_cast<int64_t>(type.size_bytes({.tokens = 1, .outputs = 1})),
        .cols = type.cols()};
}

// What a product makes lies where the array alone writes, if it takes it as it is.
Status NpuExecutable::place_result(const graph::Node& node, size_t number) {
    const int64_t cols = program_.value(node.output).type.cols();
    const GemmLayout layout = TRY(gemm_layout({.m = limits_.tokens,
                                               .k = program_.value(node.inputs[1]).type.cols(),
                                               .n = cols,
                                               .array = std::string(shop_->array().name)}));
    if (layout.n != cols) return Ok{};
    std::shared_ptr<Buffer> buffer = TRY(shop_->result(number, layout.y_bytes()));
    values_[static_cast<size_t>(node.output)] = {
        .values = reinterpret_cast<float*>(buffer->bytes().data()), .rows = layout.m, .cols = cols, .device = buffer};
    return Ok{};
}

// What crosses lies where the other device has it, the results of products where the array writes them; the rest in one
// place, those that never live at once in the same bytes.
Status NpuExecutable::place_values(const device::CompileOptions& options) {
    values_.resize(program_.values.size());
    for (graph::ValueId id = 0; id < std::ssize(program_.values); ++id) {
        const graph::Value& value = program_.value(id);
        if (value.kind != graph::Value::Kind::input) continue;
        for (const device::SharedValue& shared : options.shared)
            if (value.name == outer_name(shared.name)) place_shared(id, shared);
    }
    for (const graph::NamedResult& result : program_.results) {
        for (const device::SharedValue& shared : options.shared)
            if (result.name == outer_name(shared.name)) place_shared(result.value, shared);
    }
    size_t products = kFirstResult;
    for (const graph::Node& node : program_.nodes) {
        const bool placed = values_[static_cast<size_t>(node.output)].values != nullptr;
        if (node.op.as<op::Linear>() != nullptr && !placed) TRY(place_result(node, products++));
    }
    const graph::MemoryPlan plan = graph::plan_memory(program_, limits_);
    if (plan.size_bytes == 0) return Ok{};
    memory_ = TRY(shop_->values(plan.size_bytes));
    for (const graph::Node& node : program_.nodes) {
        Operand& operand = values_[static_cast<size_t>(node.output)];
        const graph::TensorType& type = program_.value(node.output).type;
        if (operand.values != nullptr || type.size_bytes(limits_) == 0) continue;
        operand = {.values = reinterpret_cast<float*>(memory_->data() + plan.offset[static_cast<size_t>(node.output)]),
                   .rows = type.rows(limits_),
                   .cols = type.cols()};
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
    using Clock = std::chrono::steady_clock;
    TRY(device::check_step(batch, step_limits_));
    extents_ = {.tokens = std::ssize(batch.tokens), .outputs = std::ssize(batch.output_rows)};
    const StepContext context{.batch = batch, .rows = extents_.tokens, .run = shop_->begin_run()};
    device::StageTimes times;
    for (Stretch& stretch : stretches_) {
        if (stretch.host) {
            const Clock::time_point begin = Clock::now();
            TRY(device::run(*stretch.host, batch));
            times.add("host", std::chrono::duration<double>(Clock::now() - begin).count());
        }
        for (auto& [name, step] : stretch.steps) times.add(name, TRY(step->run(context)));
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
