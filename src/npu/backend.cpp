#include "npu/backend.h"

#include "base/log.h"
#include "npu/executable.h"

namespace tandem::npu {

namespace {

class NpuBackend final : public device::Backend {
  public:
    NpuBackend(std::unique_ptr<Runtime> runtime, const Array& array, std::unique_ptr<device::Backend> host,
               const Outlook& outlook)
        : host_(std::move(host)),
          shop_(std::make_shared<Workshop>(std::move(runtime), array)),
          costs_({array, outlook}),
          description_(shop_->runtime().describe()) {
        description_.name = shop_->runtime().name();
    }

    device::Description describe() const override { return description_; }

    bool supports(const graph::Program& program, const graph::Node& node) const override {
        return find_step(program, node) != nullptr || (is_host_op(program, node) && host_->supports(program, node));
    }

    std::optional<device::StepCost> predict(const graph::Program& program, const device::Batch& batch) const override {
        Cost cost;
        const StepMaker* last = nullptr;  // of those that run designs, each its own
        for (const graph::Node& node : program.nodes) {
            if (is_host_op(program, node)) {
                cost += predict_host_op(program, node, batch);
                continue;
            }
            const StepMaker* const maker = find_step(program, node);
            if (maker == nullptr) return std::nullopt;
            const Result<Cost> part = maker->predict(costs_, program, node, batch);
            if (!part) {
                log::debug("{}: {}", node.op.name(), part.error().message);
                return std::nullopt;
            }
            cost += *part;
            if (maker == &kKvWriteStep || maker == last) continue;
            cost.seconds += costs_.assumed().outlook.change_s;
            last = maker;
        }
        return cost;
    }

    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape /*shape*/) override {
        return fail("{} keeps no key-value cache: it uses that of a GPU or of the CPU", describe().name);
    }

    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override {
        return npu::compile({shop_, host_, program, weights, std::move(cache), options});
    }

  private:
    std::shared_ptr<device::Backend> host_;
    std::shared_ptr<Workshop> shop_;
    mutable CostTable costs_;
    device::Description description_;
};

}  // namespace

std::unique_ptr<device::Backend> make_backend(std::unique_ptr<Runtime> runtime, const Array& array,
                                              std::unique_ptr<device::Backend> host, const Outlook& outlook) {
    return std::make_unique<NpuBackend>(std::move(runtime), array, std::move(host), outlook);
}

}  // namespace tandem::npu
