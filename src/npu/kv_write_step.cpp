#include "graph/ops.h"
#include "npu/cache_rows.h"
#include "npu/step.h"

namespace tandem::npu {

namespace {

class KvWriteStep final : public Step {
  public:
    KvWriteStep(Workshop& shop, const StepSource& source)
        : shop_(shop),
          k_(source.input(0)),
          v_(source.input(1)),
          cache_(source.cache),
          layer_(source.node.op.as<op::KvWrite>()->cache) {}

    Result<double> run(const StepContext& context) override {
        const auto group = static_cast<size_t>(cache_->shape().layers[static_cast<size_t>(layer_)].group);
        for (const device::SequenceRows& sequence : context.batch.sequences) {
            for (const bool values : {false, true}) {
                const Operand& from = values ? v_ : k_;
                scatter({.cache = *cache_, .layer = layer_, .values = values, .blocks = sequence.blocks[group]},
                        {sequence.past, sequence.rows, from.values + sequence.first_row * from.cols}, shop_.threads());
            }
        }
        return 0.0;
    }

  private:
    Workshop& shop_;
    Operand k_, v_;
    std::shared_ptr<device::KvCache> cache_;
    int layer_;
};

Result<std::unique_ptr<Step>> make_kv_write(Workshop& shop, const StepSource& source) {
    return std::unique_ptr<Step>(std::make_unique<KvWriteStep>(shop, source));
}

Result<Cost> predict_kv_write(CostTable& /*costs*/, const graph::Program& program, const graph::Node& node,
                              const device::Batch& batch) {
    const int64_t cols = program.value(node.inputs[0]).type.cols() + program.value(node.inputs[1]).type.cols();
    return cost_of(HostWork{.coded = static_cast<double>(std::ssize(batch.tokens) * cols)});
}

}  // namespace

const StepMaker kKvWriteStep{
    .obstacle = [](const graph::Program&, const graph::Node&) { return std::string(); },
    .make = make_kv_write,
    .predict = predict_kv_write,
};

}  // namespace tandem::npu
