// A device for tests of failures: the CPU, but it can be lost. Then every step fails until a cache is made again. Its
// steps can be watched.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "cpu/backend.h"
#include "device/backend.h"

namespace tandem::engine {

class FragileDevice final : public device::Backend {
  public:
    bool lost = false;
    int caches = 0;
    std::function<void(const device::Batch&, const device::FindAllowed&)> watch;  // each step that is submitted

    device::Description describe() const override { return cpu_->describe(); }
    bool supports(const graph::Program& program, const graph::Node& node) const override {
        return cpu_->supports(program, node);
    }
    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape shape) override {
        lost = false;
        ++caches;
        return cpu_->make_cache(std::move(shape));
    }
    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override {
        std::unique_ptr<device::Executable> inner = TRY(cpu_->compile(program, weights, std::move(cache), options));
        return std::unique_ptr<device::Executable>(std::make_unique<Step>(*this, std::move(inner)));
    }

  private:
    class Step final : public device::Executable {
      public:
        Step(const FragileDevice& device, std::unique_ptr<device::Executable> inner)
            : device_(device), inner_(std::move(inner)) {}

        Status submit(const device::Batch& batch, const device::FindAllowed& find_allowed) override {
            if (device_.lost) return fail("the device is lost");
            if (device_.watch) device_.watch(batch, find_allowed);
            return inner_->submit(batch, find_allowed);
        }
        Status wait() override { return inner_->wait(); }
        std::span<const std::byte> result(size_t index) const override { return inner_->result(index); }

      private:
        const FragileDevice& device_;
        std::unique_ptr<device::Executable> inner_;
    };

    std::unique_ptr<device::Backend> cpu_ = cpu::make_backend({.threads = 1}).value();
};

}  // namespace tandem::engine
