#include "vulkan/shared_gpu.h"

#include "vulkan/lane_layout.h"
#include "vulkan/memory.h"
#include "vulkan/tuning_file.h"

namespace tandem::vulkan {

namespace {

// Of a prompt at once: 512 tokens, and what a chat template adds. A card with memory of its own is not full with less;
// the few units of an integrated one are, and a longer step would only make others wait.
constexpr int kStepRows = 576;

device::Kind kind_of(const DeviceInfo& info) {
    if (info.software()) return device::Kind::software_gpu;
    return info.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ? device::Kind::integrated_gpu : device::Kind::gpu;
}

Result<std::shared_ptr<OpenedGpu>> open_device(const Options& options) {
    auto opened = std::make_shared<OpenedGpu>();
    opened->device = TRY(Device::open(options.device, {.validation = options.validation,
                                                       .device_limit_bytes = options.device_limit_bytes,
                                                       .host_limit_bytes = options.host_limit_bytes}));
    const DeviceInfo& info = opened->device->info();
    if (info.software() && !options.allow_software) {
        return fail("{} is a software device, which --strict does not take for a GPU", info.name);
    }
    opened->pipelines = TRY(PipelineCache::open(opened->device, options.pipeline_cache));
    return opened;
}

}  // namespace

device::Description description_of(const DeviceInfo& info) {
    device::Description description{
        .kind = kind_of(info), .name = fmt::format("vulkan:{}", info.index), .hardware = info.name};
    description.unusable = info.unusable;
    if (!info.unusable.empty()) {
        description.details = "cannot be used: " + info.unusable;
        return description;
    }
    const Capabilities& c = info.capabilities;
    description.details =
        fmt::format("{}, Vulkan {}.{}, subgroups of {}{}{}{}", info.driver, VK_API_VERSION_MAJOR(info.api_version),
                    VK_API_VERSION_MINOR(info.api_version), c.subgroup, c.integer_dot ? ", integer dot" : "",
                    c.cooperative_matrix ? ", cooperative matrix" : "", info.software() ? ", software" : "");
    if (description.kind == device::Kind::gpu) description.step_rows = kStepRows;
    device::MemoryPool own{.name = "device"};
    device::MemoryPool host{.name = "host"};
    for (const HeapBudget& heap : info.heaps) {
        device::MemoryPool& pool = heap.device_local ? own : host;
        pool.size_bytes += heap.size_bytes;
        pool.free_bytes += heap.free_bytes;
    }
    description.pools = {own, host};
    std::erase_if(description.pools, [](const device::MemoryPool& pool) { return pool.size_bytes == 0; });
    return description;
}

SharedGpu::SharedGpu(Options options, std::shared_ptr<OpenedGpu> opened, bool known_lanes)
    : options_(std::move(options)),
      info_(opened->device->info()),
      tuning_(load_tuning(options_.tuning, info_)),
      opened_(std::move(opened)) {
    if (!known_lanes) leave_out_lanes(tuning_);
}

Result<std::shared_ptr<SharedGpu>> SharedGpu::open(const Options& options) {
    std::shared_ptr<OpenedGpu> opened = TRY(open_device(options));
    const std::unique_ptr<Queue> queue = TRY(Queue::create(opened->device));
    const bool known_lanes = !options.exact && TRY(has_known_lane_layout(*queue, *opened->pipelines));
    return std::shared_ptr<SharedGpu>(new SharedGpu(options, std::move(opened), known_lanes));
}

Result<std::shared_ptr<OpenedGpu>> SharedGpu::opened() {
    const std::lock_guard lock(mutex_);
    if (opened_->device->lost()) opened_ = TRY(open_device(options_));
    return opened_;
}

device::Description SharedGpu::describe() const {
    const std::lock_guard lock(mutex_);
    DeviceInfo now = info_;
    now.heaps = heap_budgets(*opened_->device);
    return description_of(now);
}

}  // namespace tandem::vulkan
