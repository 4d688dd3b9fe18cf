#include "vulkan/backend.h"

#include <map>

#include "base/check.h"
#include "vulkan/executable.h"
#include "vulkan/kernel.h"
#include "vulkan/shared_gpu.h"

namespace tandem::vulkan {

namespace {

// What one backend has of a GPU for itself: an order of its steps, and the memory that they compute in.
struct Session {
    std::shared_ptr<OpenedGpu> gpu;
    std::unique_ptr<Queue> queue;
    std::unique_ptr<WorkMemory> work;
};

Result<std::shared_ptr<Session>> begin_session(SharedGpu& gpu) {
    auto session = std::make_shared<Session>();
    session->gpu = TRY(gpu.opened());
    session->queue = TRY(Queue::create(session->gpu->device));
    session->work = std::make_unique<WorkMemory>(session->gpu->device);
    return session;
}

class VulkanBackend final : public device::Backend {
  public:
    VulkanBackend(std::shared_ptr<SharedGpu> gpu, std::shared_ptr<Session> session)
        : gpu_(std::move(gpu)), session_(std::move(session)) {}

    device::Description describe() const override { return gpu_->describe(); }

    bool supports(const graph::Program& /*program*/, const graph::Node& node) const override {
        return find_entry(node.op) != nullptr;
    }

    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape shape) override {
        TRY(reopen_if_lost());
        std::shared_ptr<DeviceCache> cache = TRY(DeviceCache::create(*session_->queue, std::move(shape), session_));
        TRY(cache->clear());
        return std::shared_ptr<device::KvCache>(std::move(cache));
    }

    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override {
        auto device_cache = std::dynamic_pointer_cast<DeviceCache>(cache);
        CHECK(cache == nullptr || device_cache != nullptr, "the cache belongs to another device");
        if (!cache) TRY(reopen_if_lost());
        TRY(session_->gpu->device->check_alive());
        const std::shared_ptr<WeightStore> store = store_for(weights);
        TRY(store->place(graph::keep_results(program, options.results)));
        std::unique_ptr<device::Executable> executable = TRY(vulkan::compile({.program = program,
                                                                              .weights = weights,
                                                                              .cache = std::move(device_cache),
                                                                              .options = options,
                                                                              .store = store,
                                                                              .tuning = gpu_->tuning(),
                                                                              .exact = gpu_->exact(),
                                                                              .work = *session_->work,
                                                                              .pipelines = *session_->gpu->pipelines,
                                                                              .queue = *session_->queue}));
        TRY(store->finish());
        return executable;
    }

  private:
    // What was compiled for the lost device keeps it until it goes itself.
    Status reopen_if_lost() {
        if (!session_->gpu->device->lost()) return Ok{};
        session_ = TRY(begin_session(*gpu_));
        stores_.clear();
        return Ok{};
    }

    // Everything compiled with the same Weights shares one copy of them, which goes when the last of it does.
    std::shared_ptr<WeightStore> store_for(const graph::Weights& weights) {
        std::erase_if(stores_, [](const auto& entry) { return entry.second.expired(); });
        std::weak_ptr<WeightStore>& known = stores_[&weights];
        std::shared_ptr<WeightStore> store = known.lock();
        if (!store) known = store = std::make_shared<WeightStore>(session_->gpu->device, *session_->queue, session_);
        return store;
    }

    std::shared_ptr<SharedGpu> gpu_;
    std::shared_ptr<Session> session_;
    std::map<const graph::Weights*, std::weak_ptr<WeightStore>> stores_;
};

}  // namespace

Result<std::shared_ptr<SharedGpu>> open_gpu(const Options& options) {
    return SharedGpu::open(options);
}

Result<std::unique_ptr<device::Backend>> make_backend(std::shared_ptr<SharedGpu> gpu) {
    std::shared_ptr<Session> session = TRY(begin_session(*gpu));
    return std::unique_ptr<device::Backend>(std::make_unique<VulkanBackend>(std::move(gpu), std::move(session)));
}

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options) {
    return make_backend(TRY(open_gpu(options)));
}

void lose_device(SharedGpu& gpu) {
    if (const auto opened = gpu.opened()) {
        static_cast<void>((*opened)->device->lose("so that a test sees what follows"));
    }
}

std::vector<device::Description> list_devices() {
    std::vector<device::Description> descriptions;
    const Result<std::vector<DeviceInfo>> infos = Device::list();
    if (!infos) return descriptions;
    for (const DeviceInfo& info : *infos) descriptions.push_back(description_of(info));
    return descriptions;
}

}  // namespace tandem::vulkan
