#include "npu/step.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "format/quant.h"
#include "graph/ops.h"
#include "npu/backend.h"
#include "npu/design.h"
#include "npu/designs/quantize_row.h"

namespace tandem::npu {

namespace {

constexpr int64_t kRowsAtOnce = 16;

struct KindOfStep {
    const graph::OpKind& kind;
    const StepMaker& maker;
};

const KindOfStep kSteps[] = {
    {graph::kind_of<op::Linear>(), kLinearStep},
    {graph::kind_of<op::KvWrite>(), kKvWriteStep},
    {graph::kind_of<op::Attention>(), kAttentionStep},
};

}  // namespace

int64_t design_rows(int64_t rows) {
    constexpr int64_t kFewest = 32;
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(rows, kFewest))));
}

bool is_activation(const graph::Program& program, graph::ValueId id) {
    const graph::Value& value = program.value(id);
    return value.kind != graph::Value::Kind::weight && value.type.dtype == DType::f32 && value.type.shape.size() == 2 &&
           value.type.shape[0] == graph::Dim::tokens();
}

bool is_host_op(const graph::Program& program, const graph::Node& node) {
    static const graph::OpKind* const kHostOps[] = {
        &graph::kind_of<op::RmsNorm>(),
        &graph::kind_of<op::Rope>(),
        &graph::kind_of<op::Add>(),
        &graph::kind_of<op::Glu>(),
        &graph::kind_of<op::Scale>(),
        &graph::kind_of<op::Columns>(),
        &graph::kind_of<op::ScaleByPosition>(),
        &graph::kind_of<op::SigmoidGate>(),
    };
    return std::ranges::find(kHostOps, &node.op.kind()) != std::end(kHostOps) && is_activation(program, node.output);
}

Cost predict_host_op(const graph::Program& program, const graph::Node& node, const device::Batch& batch) {
    const auto floats = static_cast<double>(std::ssize(batch.tokens) * program.value(node.output).type.cols());
    if (node.op.as<op::Rope>() != nullptr) return cost_of(HostWork{.turned = floats});
    if (node.op.as<op::Glu>() != nullptr) return cost_of(HostWork{.gated = floats});
    return cost_of(HostWork{.summed = floats});
}

std::string obstacle_of(const graph::Program& program, const graph::Node& node) {
    if (is_host_op(program, node)) return "";
    for (const KindOfStep& step : kSteps) {
        if (&step.kind == &node.op.kind()) return step.maker.obstacle(program, node);
    }
    return "it has no design for this op";
}

const StepMaker* find_step(const graph::Program& program, const graph::Node& node) {
    for (const KindOfStep& step : kSteps) {
        if (&step.kind == &node.op.kind()) return step.maker.obstacle(program, node).empty() ? &step.maker : nullptr;
    }
    return nullptr;
}

Result<Cost> cost_of(const Design& design, const Assumed& assumed, std::span<const Sample> samples,
                     std::span<const Share> shares) {
    const Activity activity = TRY(foresee(design, samples, shares));
    const Estimate made = estimate(activity, assumed.array, {.batched = false, .outlook = assumed.outlook});
    Cost cost{.seconds = made.seconds(), .memory_bytes = 0};
    for (const HostActivity& channel : activity.host) cost.memory_bytes += static_cast<double>(channel.size_bytes);
    return cost;
}

// By bench_cpu_kernels on one core of a Xeon, in seconds for one of each; not measured beside an NPU. A flushed line of
// 64 bytes is what the driver takes for one that is in a cache.
Cost cost_of(const HostWork& work) {
    constexpr double kCores = 4;  // that are free while a GPU and an NPU work
    constexpr double kRound = 1.2e-9;
    constexpr double kGather = 0.3e-9;  // of a cache of q8_0
    constexpr double kCode = 6.5e-9;
    constexpr double kCopy = 0.1e-9;
    constexpr double kSum = 0.4e-9;
    constexpr double kTurn = 1.0e-9;
    constexpr double kGate = 1.6e-9;
    constexpr double kFlush = 20e-9 / 64;
    constexpr double kFloat = sizeof(float);
    return {.seconds = (work.rounded * kRound + work.gathered * kGather + work.coded * kCode + work.summed * kSum +
                        work.turned * kTurn + work.gated * kGate) /
                           kCores +
                       work.queries * kRound + work.copied * kCopy + work.flushed * kFlush,
            .memory_bytes = (work.rounded + work.queries + work.coded) * (kFloat + 1) +
                            (work.gathered + work.copied) * 2 + (work.summed + work.turned) * 2 * kFloat +
                            work.gated * 3 * kFloat};
}

Result<std::shared_ptr<Buffer>> Workshop::allocate(uint64_t size_bytes) {
    auto memory = std::make_shared<device::HostBuffer>(
        TRY(device::HostBuffer::allocate(size_bytes, "the NPU's working memory", "choose a smaller chunk")));
    const std::span<std::byte> pages = memory->pages();
    std::fill(pages.begin(), pages.end(), std::byte{0});
    return runtime_->import_memory(pages, {.keeper = memory});
}

namespace {

// Whoever has a smaller one keeps it.
Result<std::shared_ptr<Buffer>> at_least(Workshop& shop, std::vector<std::shared_ptr<Buffer>>& all, size_t number,
                                         int64_t size_bytes) {
    if (all.size() <= number) all.resize(number + 1);
    std::shared_ptr<Buffer>& buffer = all[number];
    if (!buffer || std::ssize(buffer->bytes()) < size_bytes) {
        buffer.reset();  // before more is taken
        buffer = TRY(shop.allocate(static_cast<uint64_t>(size_bytes)));
    }
    return buffer;
}

}  // namespace

Result<Buffer*> Workshop::scratch(size_t number, int64_t size_bytes) {
    return TRY(at_least(*this, scratch_, number, size_bytes)).get();
}

Result<std::shared_ptr<Buffer>> Workshop::result(size_t number, int64_t size_bytes) {
    return at_least(*this, results_, number, size_bytes);
}

Result<std::shared_ptr<device::HostBuffer>> Workshop::values(uint64_t size_bytes) {
    if (!values_ || values_->bytes().size() < size_bytes) {
        values_.reset();  // before more is taken
        values_ = std::make_shared<device::HostBuffer>(
            TRY(device::HostBuffer::allocate(size_bytes, "the NPU's working memory", "choose a smaller chunk")));
    }
    return values_;
}

Result<LoadedDesign*> Workshop::load(const Design& design) {
    const std::string key = fmt::format("{} {}", design.name, design.shape);
    if (const auto found = designs_.find(key); found != designs_.end()) return found->second.get();
    std::unique_ptr<LoadedDesign> loaded = TRY(runtime_->load(design));
    return designs_.emplace(key, std::move(loaded)).first->second.get();
}

Result<std::shared_ptr<Buffer>> Workshop::weight(const std::string& name, const graph::WeightView& view,
                                                 const graph::WeightView* bias) {
    std::weak_ptr<Buffer>& known = weights_[{view.data.data(), bias == nullptr ? nullptr : bias->data.data()}];
    if (std::shared_ptr<Buffer> packed = known.lock()) return packed;
    const int64_t n = view.shape[0];
    const int64_t k = view.shape[1];
    const Result<GemmLayout> layout = gemm_layout({.m = 1, .k = k, .n = n, .array = std::string(array_.name)});
    if (!layout) return fail("weight '{}': {}", name, layout.error().message);
    std::vector<int8_t> values(static_cast<size_t>(n * k));
    std::vector<float> scales(static_cast<size_t>(n));
    std::vector<float> biases(bias == nullptr ? 0 : scales.size());
    if (bias != nullptr) format::decode_row(bias->dtype, bias->data.data(), biases.data(), n);
    threads_.for_each_range(n, kRowsAtOnce, [&](int64_t first, int64_t last, int) {
        std::vector<float> row(static_cast<size_t>(k));
        for (int64_t i = first; i < last; ++i) {
            const std::byte* const coded = view.data.data() + static_cast<size_t>(i) * row_bytes(view.dtype, k);
            format::decode_row(view.dtype, coded, row.data(), k);
            scales[static_cast<size_t>(i)] =
                quantize_row(row, std::span(values).subspan(static_cast<size_t>(i * k), static_cast<size_t>(k)));
        }
    });
    auto memory = std::make_shared<device::HostBuffer>(TRY(device::HostBuffer::allocate(
        static_cast<uint64_t>(layout->w_bytes()), "a weight in the NPU's layout", "give it fewer layers")));
    pack_w(*layout, {.values = values, .scales = scales, .columns = k, .bias = biases}, memory->bytes());
    std::shared_ptr<Buffer> packed = TRY(runtime_->import_memory(memory->pages(), {.keeper = memory}));
    known = packed;
    return packed;
}

}  // namespace tandem::npu
