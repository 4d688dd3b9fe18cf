#include "vulkan/executable.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>

#include "device/step_check.h"
#include "graph/memory_plan.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

// The rows a command buffer is recorded for: powers of two, at most the limits.
graph::Extents bucket_of(const device::Batch& batch, const graph::Extents& limits) {
    const auto round_up = [](size_t count, int64_t limit) {
        return count == 0 ? 0 : std::min(static_cast<int64_t>(std::bit_ceil(count)), limit);
    };
    return {.tokens = round_up(batch.tokens.size(), limits.tokens),
            .outputs = round_up(batch.output_rows.size(), limits.outputs)};
}

class RecordedProgram final : public device::Executable {
  public:
    RecordedProgram(const CompileContext& context)
        : program_(graph::keep_results(context.program, context.options.results)),
          limits_(context.options.limits),
          plan_(graph::plan_memory(program_, limits_)),
          step_limits_(device::step_limits(program_, limits_, context.cache.get())),
          cache_(context.cache),
          store_(context.store),
          pipelines_(context.pipelines),
          queue_(context.queue),
          activations_(context.queue.device(), MemoryKind::device, plan_.size_bytes + 1),
          constants_(context.queue.device(), MemoryKind::shared, uint64_t{1} << 16),
          readback_(context.queue.device(), MemoryKind::readback, uint64_t{1} << 16) {}

    ~RecordedProgram() override {
        for (const auto& [bucket, commands] : recorded_) queue_.free(commands);
    }

    Status prepare(const CompileContext& context);

    Status submit(const device::Batch& batch) override;
    Status wait() override { return queue_.wait(submitted_); }
    std::span<const std::byte> result(size_t index) const override {
        const graph::ValueId id = program_.results[index].value;
        return {results_[index].mapped, program_.value(id).type.size_bytes(step_)};
    }

  private:
    Result<VkCommandBuffer> record(const graph::Extents& bucket);
    Status record_nodes(Recorder& recorder, const graph::Extents& bucket);
    Operand operand(graph::ValueId id, const graph::Extents& bucket) const;
    VkDeviceAddress input_address(std::string_view name) const;
    Result<VkDeviceAddress> constant(std::span<const std::byte> bytes);

    graph::Program program_;
    graph::Extents limits_;
    graph::MemoryPlan plan_;
    device::StepLimits step_limits_;
    std::shared_ptr<DeviceCache> cache_;
    std::shared_ptr<WeightStore> store_;  // keeps the weights on the device
    PipelineCache& pipelines_;
    Queue& queue_;
    Arena activations_;
    Arena constants_;
    Arena readback_;
    Buffer arena_;
    std::vector<Buffer> results_;
    std::vector<DeviceWeight> weights_;  // per value; of weights
    std::map<std::vector<std::byte>, VkDeviceAddress> constant_addresses_;
    std::unique_ptr<StepState> state_;
    std::map<std::pair<int64_t, int64_t>, VkCommandBuffer> recorded_;
    graph::Extents step_;  // of the step under way
    uint64_t submitted_ = 0;
};

Status RecordedProgram::prepare(const CompileContext& context) {
    weights_.resize(program_.values.size());
    for (const graph::Node& node : program_.nodes) {
        if (find_entry(node.op) == nullptr) return fail("op {} has no Vulkan kernel", node.op.name());
        for (graph::ValueId id : node.inputs) {
            const graph::Value& value = program_.value(id);
            if (value.kind != graph::Value::Kind::weight) continue;
            const graph::WeightView* view = context.weights.find(value.name);
            if (view == nullptr) return fail("weight '{}' is missing", value.name);
            if (view->dtype != value.type.dtype || view->data.size() != value.type.size_bytes({})) {
                return fail("weight '{}' is {} with {} bytes, but the Program needs {}", value.name, name(view->dtype),
                            view->data.size(), to_string(value.type));
            }
            weights_[static_cast<size_t>(id)] = TRY(context.store->get(value.name, *view));
        }
    }
    arena_ = TRY(activations_.allocate(plan_.size_bytes));
    for (const graph::NamedResult& result : program_.results) {
        results_.push_back(TRY(readback_.allocate(program_.value(result.value).type.size_bytes(limits_))));
    }
    StepLimits limits{.extents = limits_};
    if (cache_) {
        limits.groups = static_cast<int>(cache_->shape().blocks.size());
        limits.blocks = *std::max_element(cache_->shape().blocks.begin(), cache_->shape().blocks.end());
    }
    state_ = TRY(StepState::create(queue_.device(), limits));
    return Ok{};
}

VkDeviceAddress RecordedProgram::input_address(std::string_view name) const {
    if (name == graph::kTokens) return state_->addresses().tokens;
    if (name == graph::kPositions) return state_->addresses().positions;
    CHECK(name == graph::kOutputRows, name);
    return state_->addresses().output_rows;
}

Operand RecordedProgram::operand(graph::ValueId id, const graph::Extents& bucket) const {
    const graph::Value& value = program_.value(id);
    Operand operand{.dtype = value.type.dtype,
                    .rows = static_cast<uint32_t>(value.type.rows(bucket)),
                    .cols = static_cast<uint32_t>(extent(value.type.shape.back(), bucket)),
                    .size_bytes = value.type.size_bytes(bucket)};
    switch (value.kind) {
        case graph::Value::Kind::input:
            operand.address = input_address(value.name);
            break;
        case graph::Value::Kind::weight:
            operand.weight = weights_[static_cast<size_t>(id)];
            operand.address = operand.weight.planes[Planes::quants];
            break;
        case graph::Value::Kind::computed:
            operand.address = arena_.address + plan_.offset[static_cast<size_t>(id)];
            break;
    }
    return operand;
}

Result<VkDeviceAddress> RecordedProgram::constant(std::span<const std::byte> bytes) {
    std::vector<std::byte> key(bytes.begin(), bytes.end());
    if (const auto found = constant_addresses_.find(key); found != constant_addresses_.end()) return found->second;
    const Buffer buffer = TRY(constants_.allocate(bytes.size()));
    std::memcpy(buffer.mapped, bytes.data(), bytes.size());
    constant_addresses_.emplace(std::move(key), buffer.address);
    return buffer.address;
}

Status RecordedProgram::record_nodes(Recorder& recorder, const graph::Extents& bucket) {
    const std::function<Result<VkDeviceAddress>(std::span<const std::byte>)> constants =
        [this](std::span<const std::byte> bytes) { return constant(bytes); };
    for (const graph::Node& node : program_.nodes) {
        std::vector<Operand> inputs;
        for (graph::ValueId id : node.inputs) inputs.push_back(operand(id, bucket));
        const Operand out = operand(node.output, bucket);
        const graph::Shape& shape = program_.value(node.output).type.shape;
        if (extent(shape[0], bucket) == 0 && shape[0].kind == graph::Dim::Kind::outputs)
            continue;  // nobody wants a row of it
        TRY(find_entry(node.op)->record(recorder, node.op,
                                        {.in = inputs,
                                         .out = out,
                                         .step = state_->addresses(),
                                         .cache = cache_.get(),
                                         .capabilities = queue_.device()->capabilities(),
                                         .constant = constants}));
    }
    return Ok{};
}

Result<VkCommandBuffer> RecordedProgram::record(const graph::Extents& bucket) {
    const std::pair key{bucket.tokens, bucket.outputs};
    if (const auto found = recorded_.find(key); found != recorded_.end()) return found->second;
    VkCommandBuffer commands = TRY(queue_.allocate());
    recorded_.emplace(key, commands);
    TRY(Queue::begin(commands));
    Recorder recorder(pipelines_, commands);
    TRY(record_nodes(recorder, bucket));
    for (size_t i = 0; i < program_.results.size(); ++i) {
        const Operand value = operand(program_.results[i].value, bucket);
        if (value.size_bytes == 0) continue;
        const Buffer from{arena_.handle, arena_.offset + (value.address - arena_.address), value.size_bytes,
                          value.address, nullptr};
        recorder.copy(from, results_[i], value.size_bytes);
    }
    recorder.finish();
    TRY(Queue::end(commands));
    return commands;
}

Status RecordedProgram::submit(const device::Batch& batch) {
    TRY(device::check_step(batch, step_limits_));
    const graph::Extents bucket = bucket_of(batch, limits_);
    VkCommandBuffer commands = TRY(record(bucket));
    step_ = {.tokens = std::ssize(batch.tokens), .outputs = std::ssize(batch.output_rows)};
    TRY(state_->write(batch, bucket));
    submitted_ = TRY(queue_.submit(commands));
    return Ok{};
}

}  // namespace

Result<std::unique_ptr<device::Executable>> compile(const CompileContext& context) {
    auto executable = std::make_unique<RecordedProgram>(context);
    TRY(executable->prepare(context));
    return std::unique_ptr<device::Executable>(std::move(executable));
}

}  // namespace tandem::vulkan
