// Device: one Vulkan GPU, opened for compute, with what it can do.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "vulkan/api.h"

namespace tandem::vulkan {

// Matrices that a subgroup multiplies, f16 of cols x depth and depth x rows into f32.
struct MatrixShape {
    uint32_t cols = 16;
    uint32_t rows = 16;
    uint32_t depth = 16;
};

// What the kernels choose by. Everything else they need is required to open a device at all.
struct Capabilities {
    uint32_t subgroup = 0;      // the size kernels get unless they ask for another
    uint32_t min_subgroup = 0;  // range they may ask for
    uint32_t max_subgroup = 0;
    uint32_t shared_bytes = 0;        // of a workgroup
    uint32_t max_workgroup = 0;       // invocations
    uint32_t compute_units = 0;       // that workgroups run on; 0: the driver does not say
    bool integer_dot = false;         // packed 4 x int8, in hardware
    bool cooperative_matrix = false;  // KHR, of `fragment`
    bool narrow_matrix = false;       // besides 16 x 16 x 16, 16 x 16 by 16 x 8
    MatrixShape fragment;             // without matrices: what plain code takes in their place
    bool memory_budget = false;
    double timestamp_ns = 0;             // of a tick; 0: no timestamps
    uint64_t host_import_alignment = 0;  // of host memory that is imported; 0: none can be
    uint64_t max_allocation_bytes = 0;
};

// What a heap of memory has left, by the driver's own account where it gives one.
struct HeapBudget {
    uint64_t size_bytes = 0;
    uint64_t free_bytes = 0;
    bool device_local = false;
};

struct DeviceInfo {
    int index = 0;  // N of --device vulkan:N
    std::string name;
    std::string driver;
    uint32_t api_version = 0;
    uint32_t vendor = 0;  // its PCI number
    VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
    std::vector<HeapBudget> heaps;  // when this was read
    Capabilities capabilities;
    std::string unusable;  // why it cannot run Programs; empty when it can

    static constexpr uint32_t kNvidia = 0x10de;
    static constexpr uint32_t kAmd = 0x1002;

    bool software() const { return type == VK_PHYSICAL_DEVICE_TYPE_CPU; }
};

struct DeviceOptions {
    bool validation = false;  // with the Khronos layer, including synchronization; its messages end up in the log
    uint64_t device_limit_bytes = 0;  // of its own memory that may be used; 0: all
    uint64_t host_limit_bytes = 0;    // of host memory, likewise
    bool statistics = false;          // of what the driver's compiler makes of kernels are kept (vulkan/statistics.h)
    bool kernel_text = false;         // and the code, as text: takes the compiler longer
};

// Of every heap, in the driver's order.
std::vector<HeapBudget> read_heaps(VkPhysicalDevice physical, bool has_budget);

class Device {
  public:
    // All devices of the machine, usable or not. No driver at all is an empty list, not an error.
    static Result<std::vector<DeviceInfo>> list();

    // `selector`: an index, a part of a name, or empty for the best: discrete before integrated before software.
    static Result<std::shared_ptr<Device>> open(const std::string& selector, const DeviceOptions& options = {});

    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device();

    const DeviceInfo& info() const { return info_; }
    const Capabilities& capabilities() const { return info_.capabilities; }
    VkDevice handle() const { return device_; }
    VkPhysicalDevice physical() const { return physical_; }
    VkQueue queue() const { return queue_; }
    // Held while something is submitted to the queue, which every Queue of this device shares.
    std::mutex& queue_mutex() { return queue_mutex_; }
    uint32_t queue_family() const { return queue_family_; }
    const VkPhysicalDeviceMemoryProperties& memory() const { return memory_; }

    const DeviceOptions& options() const { return options_; }

    // A device that was reset or hangs is lost for good: whatever is asked of it fails, and it must be opened again.
    bool lost() const { return lost_; }
    Status check_alive() const;
    Error lose(std::string_view why);  // the error to report

    // Bytes of a heap that this process has taken.
    uint64_t allocated_bytes(uint32_t heap) const { return allocated_[heap]; }
    void count_allocated(uint32_t heap, uint64_t size_bytes) { allocated_[heap] += size_bytes; }
    void count_freed(uint32_t heap, uint64_t size_bytes) { allocated_[heap] -= size_bytes; }

    // Errors and warnings that validation reported so far, over all devices of the process.
    static int validation_messages();

  private:
    Device() = default;
    Status create(VkPhysicalDevice physical);

    VkInstance instance_ = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    VkPhysicalDevice physical_ = VK_NULL_HANDLE;
    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    std::mutex queue_mutex_;
    uint32_t queue_family_ = 0;
    VkPhysicalDeviceMemoryProperties memory_{};
    DeviceInfo info_;
    DeviceOptions options_;
    std::atomic<bool> lost_{false};
    std::array<std::atomic<uint64_t>, VK_MAX_MEMORY_HEAPS> allocated_{};
};

}  // namespace tandem::vulkan
