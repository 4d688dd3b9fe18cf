// Pipelines: kernels compiled for a device with their specialization constants, made once and kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
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

// The name of a kernel that is made for every weight type: ("linear", q4_0) -> "linear.q4_0".
std::string_view weight_kernel(std::string_view kernel, DType dtype);

struct PipelineKey {
    std::string_view kernel;
    std::vector<uint32_t> constants;  // of specialization constants 0, 1, 2, ...
    uint32_t subgroup = 0;            // required size; 0: the device's own choice

    auto operator<=>(const PipelineKey&) const = default;  // NOLINT(modernize-use-nullptr): a known false finding
};

// All kernels take their arguments as push constants (addresses and sizes), so one layout serves them all and there
// are no descriptors.
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

    Result<VkPipeline> get(const PipelineKey& key);
    VkPipelineLayout layout() const { return layout_; }

  private:
    explicit PipelineCache(std::shared_ptr<Device> device) : device_(std::move(device)) {}
    void save() const;

    std::shared_ptr<Device> device_;
    std::filesystem::path file_;  // empty: not kept
    std::string saved_;           // what the file holds
    VkPipelineCache cache_ = VK_NULL_HANDLE;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    std::map<PipelineKey, VkPipeline> pipelines_;
};

}  // namespace tandem::vulkan
