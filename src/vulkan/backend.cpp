#include "vulkan/backend.h"

#include <map>

#include "vulkan/executable.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

device::Description description_of(const DeviceInfo& info) {
    device::Description description{.name = fmt::format("vulkan:{}", info.index), .hardware = info.name};
    if (!info.unusable.empty()) {
        description.details = "cannot be used: " + info.unusable;
        return description;
    }
    const Capabilities& c = info.capabilities;
    description.details =
        fmt::format("{}, Vulkan {}.{}, subgroups of {}{}{}{}", info.driver, VK_API_VERSION_MAJOR(info.api_version),
                    VK_API_VERSION_MINOR(info.api_version), c.subgroup, c.integer_dot ? ", integer dot" : "",
                    c.cooperative_matrix ? ", cooperative matrix" : "", info.software() ? ", software" : "");
    description.pools = {{"device", info.device_bytes, info.device_bytes}, {"host", info.host_bytes, info.host_bytes}};
    std::erase_if(description.pools, [](const device::MemoryPool& pool) { return pool.size_bytes == 0; });
    return description;
}

class VulkanBackend final : public device::Backend {
  public:
    VulkanBackend(std::shared_ptr<Device> device, std::unique_ptr<Queue> queue,
                  std::unique_ptr<PipelineCache> pipelines, bool exact)
        : device_(std::move(device)),
          queue_(std::move(queue)),
          pipelines_(std::move(pipelines)),
          tuning_(default_tuning(device_->info())),
          exact_(exact),
          description_(description_of(device_->info())) {}

    const device::Description& describe() const override { return description_; }

    bool supports(const graph::Program& /*program*/, const graph::Node& node) const override {
        return find_entry(node.op) != nullptr;
    }

    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape shape) override {
        std::shared_ptr<DeviceCache> cache = TRY(DeviceCache::create(device_, std::move(shape)));
        TRY(cache->clear(*queue_));
        return std::shared_ptr<device::KvCache>(std::move(cache));
    }

    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override {
        return vulkan::compile({.program = program,
                                .weights = weights,
                                .cache = std::static_pointer_cast<DeviceCache>(std::move(cache)),
                                .options = options,
                                .store = store_for(weights),
                                .tuning = tuning_,
                                .exact = exact_,
                                .pipelines = *pipelines_,
                                .queue = *queue_});
    }

  private:
    // Everything compiled with the same Weights shares one copy of them, which goes when the last of it does.
    std::shared_ptr<WeightStore> store_for(const graph::Weights& weights) {
        std::erase_if(stores_, [](const auto& entry) { return entry.second.expired(); });
        std::weak_ptr<WeightStore>& known = stores_[&weights];
        std::shared_ptr<WeightStore> store = known.lock();
        if (!store) known = store = std::make_shared<WeightStore>(device_, *queue_);
        return store;
    }

    std::shared_ptr<Device> device_;
    std::unique_ptr<Queue> queue_;
    std::unique_ptr<PipelineCache> pipelines_;
    Tuning tuning_;
    bool exact_;
    std::map<const graph::Weights*, std::weak_ptr<WeightStore>> stores_;
    device::Description description_;
};

}  // namespace

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options) {
    std::shared_ptr<Device> device = TRY(Device::open(options.device, {.validation = options.validation}));
    if (device->info().software() && !options.allow_software) {
        return fail("{} is a software device, which --strict does not take for a GPU", device->info().name);
    }
    std::unique_ptr<Queue> queue = TRY(Queue::create(device));
    std::unique_ptr<PipelineCache> pipelines = TRY(PipelineCache::open(device, {}));
    return std::unique_ptr<device::Backend>(
        std::make_unique<VulkanBackend>(std::move(device), std::move(queue), std::move(pipelines), options.exact));
}

std::vector<device::Description> list_devices() {
    std::vector<device::Description> descriptions;
    const Result<std::vector<DeviceInfo>> infos = Device::list();
    if (!infos) return descriptions;
    for (const DeviceInfo& info : *infos) descriptions.push_back(description_of(info));
    return descriptions;
}

}  // namespace tandem::vulkan
