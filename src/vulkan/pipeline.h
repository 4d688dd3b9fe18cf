// Pipelines: kernels compiled for a device with their specialization constants, made once and kept.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vulkan/device.h"

namespace tandem::vulkan {

// A kernel of kernels/*.comp, as SPIR-V inside the program. The build makes one of each file.
struct Kernel {
    std::string_view name;
    std::span<const uint32_t> code;
};

std::span<const Kernel> all_kernels();
const Kernel& find_kernel(std::string_view name);  // CHECKs that it exists

struct PipelineKey {
    std::string_view kernel;
    std::vector<uint32_t> constants;  // of specialization constants 0, 1, 2, ...
    uint32_t subgroup = 0;            // required size; 0: the device's own choice

    auto operator<=>(const PipelineKey&) const = default;  // NOLINT(modernize-use-nullptr): a known false finding
};

// All kernels take their arguments as push constants (addresses and sizes), so one layout serves them all and there
// are no descriptors. From any thread.
class PipelineCache {
  public:
    static constexpr uint32_t kPushBytes = 128;

    // `directory`: where the driver's compiled code is kept between runs, in a file for each device and driver; empty:
    // nowhere. A file that is damaged or another driver's is taken for none.
    static Result<std::unique_ptr<PipelineCache>> open(std::shared_ptr<Device> device,
                                                       const std::filesystem::path& directory);

    PipelineCache(const PipelineCache&) = delete;
    PipelineCache& operator=(const PipelineCache&) = delete;
    ~PipelineCache();

    // Compiled by whoever asks first; others wait for it.
    Result<VkPipeline> get(const PipelineKey& key);
    VkPipelineLayout layout() const { return layout_; }
    size_t size() const;  // how many there are

  private:
    explicit PipelineCache(std::shared_ptr<Device> device) : device_(std::move(device)) {}
    Result<VkPipeline> compile(const PipelineKey& key) const;
    void save() const;

    std::shared_ptr<Device> device_;
    std::filesystem::path file_;  // empty: not kept
    std::string saved_;           // what the file holds
    VkPipelineCache cache_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    mutable std::mutex mutex_;  // of what follows
    std::condition_variable made_;
    std::map<PipelineKey, VkPipeline> pipelines_;  // null: being compiled
};

}  // namespace tandem::vulkan
