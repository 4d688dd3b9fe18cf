#include "vulkan/backend.h"

#include <map>

#include "vulkan/executable.h"
#include "vulkan/kernel.h"
#include "vulkan/lane_layout.h"
#include "vulkan/tunable.h"
#include "vulkan/tuning_file.h"

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

// An opened device and what everything on it shares.
struct Opened {
    std::shared_ptr<Device> device;
    std::unique_ptr<Queue> queue;
    std::unique_ptr<PipelineCache> pipelines;
    std::unique_ptr<WorkMemory> work;
    bool known_lanes = false;  // has_known_lane_layout()
};

Result<std::shared_ptr<Opened>> open(const Options& options) {
    auto opened = std::make_shared<Opened>();
    opened->device = TRY(Device::open(options.device, {.validation = options.validation,
                                                       .device_limit_bytes = options.device_limit_bytes,
                                                       .host_limit_bytes = options.host_limit_bytes}));
    const DeviceInfo& info = opened->device->info();
    if (info.software() && !options.allow_software) {
        return fail("{} is a software device, which --strict does not take for a GPU", info.name);
    }
    opened->queue = TRY(Queue::create(opened->device));
    opened->work = std::make_unique<WorkMemory>(opened->device);
    opened->pipelines = TRY(PipelineCache::open(opened->device, options.pipeline_cache));
    if (!options.exact) opened->known_lanes = TRY(has_known_lane_layout(*opened->queue, *opened->pipelines));
    return opened;
}

class VulkanBackend final : public device::Backend {
  public:
    VulkanBackend(Options options, std::shared_ptr<Opened> opened)
        : options_(std::move(options)),
          opened_(std::move(opened)),
          tuning_(load_tuning(options_.tuning, opened_->device->info())),
          description_(description_of(opened_->device->info())) {
        if (opened_->known_lanes) return;
        tuning_.stream.clear();
        tuning_.attention.matrix_lanes = 0;
        tuning_.attention.lane_rows = 0;
    }

    const device::Description& describe() const override { return description_; }

    bool supports(const graph::Program& /*program*/, const graph::Node& node) const override {
        return find_entry(node.op) != nullptr;
    }

    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape shape) override {
        TRY(reopen_if_lost());
        std::shared_ptr<DeviceCache> cache = TRY(DeviceCache::create(*opened_->queue, std::move(shape), opened_));
        TRY(cache->clear());
        return std::shared_ptr<device::KvCache>(std::move(cache));
    }

    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override {
        if (!cache) TRY(reopen_if_lost());
        TRY(opened_->device->check_alive());
        const std::shared_ptr<WeightStore> store = store_for(weights);
        TRY(store->place(graph::keep_results(program, options.results)));
        std::unique_ptr<device::Executable> executable =
            TRY(vulkan::compile({.program = program,
                                 .weights = weights,
                                 .cache = std::static_pointer_cast<DeviceCache>(std::move(cache)),
                                 .options = options,
                                 .store = store,
                                 .tuning = tuning_,
                                 .exact = options_.exact,
                                 .work = *opened_->work,
                                 .pipelines = *opened_->pipelines,
                                 .queue = *opened_->queue}));
        TRY(store->finish());
        return executable;
    }

    Device& device() { return *opened_->device; }
    Tuning& tuning() { return tuning_; }

  private:
    // What was compiled for the lost device keeps it until it goes itself.
    Status reopen_if_lost() {
        if (!opened_->device->lost()) return Ok{};
        opened_ = TRY(open(options_));
        stores_.clear();
        return Ok{};
    }

    // Everything compiled with the same Weights shares one copy of them, which goes when the last of it does.
    std::shared_ptr<WeightStore> store_for(const graph::Weights& weights) {
        std::erase_if(stores_, [](const auto& entry) { return entry.second.expired(); });
        std::weak_ptr<WeightStore>& known = stores_[&weights];
        std::shared_ptr<WeightStore> store = known.lock();
        if (!store) known = store = std::make_shared<WeightStore>(opened_->device, *opened_->queue, opened_);
        return store;
    }

    Options options_;
    std::shared_ptr<Opened> opened_;
    Tuning tuning_;
    std::map<const graph::Weights*, std::weak_ptr<WeightStore>> stores_;
    device::Description description_;
};

}  // namespace

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options) {
    std::shared_ptr<Opened> opened = TRY(open(options));
    return std::unique_ptr<device::Backend>(std::make_unique<VulkanBackend>(options, std::move(opened)));
}

Tuning& tuning_of(device::Backend& backend) {
    return static_cast<VulkanBackend&>(backend).tuning();
}

const DeviceInfo& info_of(device::Backend& backend) {
    return static_cast<VulkanBackend&>(backend).device().info();
}

void lose_device(device::Backend& backend) {
    static_cast<void>(static_cast<VulkanBackend&>(backend).device().lose("so that a test sees what follows"));
}

std::vector<device::Description> list_devices() {
    std::vector<device::Description> descriptions;
    const Result<std::vector<DeviceInfo>> infos = Device::list();
    if (!infos) return descriptions;
    for (const DeviceInfo& info : *infos) descriptions.push_back(description_of(info));
    return descriptions;
}

}  // namespace tandem::vulkan
