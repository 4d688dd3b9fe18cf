#include "graph/ops.h"
#include "npu/cache_rows.h"
#include "npu/step.h"

namespace tandem::npu {

namespace {

class KvWriteStep final : public Step {
  public:
    KvWriteStep(Operand k, Operand v, std::shared_ptr<device::KvCache> cache, int layer)
        : k_(std::move(k)), v_(std::move(v)), cache_(std::move(cache)), layer_(layer) {}

    Result<double> run(const StepContext& context) override {
        const auto group = static_cast<size_t>(cache_->shape().layers[static_cast<size_t>(layer_)].group);
        for (const device::SequenceRows& sequence : context.batch.sequences) {
            for (const bool values : {false, true}) {
                const Operand& from = values ? v_ : k_;
                scatter({.cache = *cache_, .layer = layer_, .values = values, .blocks = sequence.blocks[group]},
                        sequence.past, sequence.rows, from.data() + sequence.first_row * from.cols);
            }
        }
        return 0.0;
    }

  private:
    Operand k_, v_;
    std::shared_ptr<device::KvCache> cache_;
    int layer_;
};

Result<std::unique_ptr<Step>> make_kv_write(Workshop& /*shop*/, const StepSource& source) {
    return std::unique_ptr<Step>(std::make_unique<KvWriteStep>(source.input(0), source.input(1), source.cache,
                                                               source.node.op.as<op::KvWrite>()->cache));
}

}  // namespace

const StepMaker kKvWriteStep{
    .obstacle = [](const graph::Program&, const graph::Node&) { return std::string(); },
    .make = make_kv_write,
    .predict = [](CostTable&, const graph::Program&, const graph::Node&, const device::Batch&) -> Result<Cost> {
        return Cost{};
    },
};

}  // namespace tandem::npu
