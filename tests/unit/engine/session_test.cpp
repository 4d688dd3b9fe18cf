#include "engine/session.h"

#include <gtest/gtest.h>

#include "cpu/backend.h"
#include "engine/bundle.h"

namespace tandem::engine {
namespace {

// The CPU, but the device can be lost: then every step fails until a cache is made again.
class Fragile final : public device::Backend {
  public:
    bool lost = false;
    int caches = 0;

    const device::Description& describe() const override { return cpu_->describe(); }
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
        Step(const Fragile& device, std::unique_ptr<device::Executable> inner)
            : device_(device), inner_(std::move(inner)) {}

        Status submit(const device::Batch& batch) override {
            if (device_.lost) return fail("the device is lost");
            return inner_->submit(batch);
        }
        Status wait() override { return inner_->wait(); }
        std::span<const std::byte> result(size_t index) const override { return inner_->result(index); }

      private:
        const Fragile& device_;
        std::unique_ptr<device::Executable> inner_;
    };

    std::unique_ptr<device::Backend> cpu_ = cpu::make_backend({.threads = 1}).value();
};

TEST(Session, GoesOnAfterTheDeviceWasLost) {
    const Bundle bundle = open_bundle("").value();
    Fragile device;
    const auto session = Session::open(bundle.model, device).value();
    const std::vector<TokenId> tokens{2, 40, 41, 42, 43};
    const device::SamplingParams greedy;
    const auto next = [&] { return session->advance(tokens, {.params = &greedy, .history = {}}); };
    const TokenId expected = next().value().value();
    EXPECT_EQ(session->cached_tokens(tokens), 4);

    device.lost = true;
    const auto failed = next();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().message, "the device is lost");
    EXPECT_EQ(session->cached_tokens(tokens), 0) << "what the lost device held is gone";

    EXPECT_EQ(next().value().value(), expected);
    EXPECT_EQ(device.caches, 2);
}

}  // namespace
}  // namespace tandem::engine
