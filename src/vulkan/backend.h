// Vulkan as a device: the whole Program on one GPU.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "device/backend.h"

namespace tandem::vulkan {

struct Options {
    std::string device = {};     // index or part of the name; empty: the best
    bool allow_software = true;  // take a device that is no GPU
    bool exact = false;          // every op by itself in f32: slow, and as close to the reference as floats get
    bool validation = false;     // with the Khronos validation layer
    std::filesystem::path pipeline_cache = {};  // directory for the driver's compiled code; empty: it is not kept
    std::filesystem::path tuning = {};          // directory of tuning files (vulkan/tuning_file.h); empty: the defaults
    uint64_t device_limit_bytes = 0;            // of the GPU's own memory; 0: all that is free
    uint64_t host_limit_bytes = 0;              // of host memory that the GPU reads, likewise
};

// A GPU that was opened, for as many backends as there are models (vulkan/shared_gpu.h).
class SharedGpu;
Result<std::shared_ptr<SharedGpu>> open_gpu(const Options& options);

// For one model at a time: its steps run one after another, beside those of the GPU's other backends. A device that is
// lost fails every step; after that, the next make_cache() opens it again.
Result<std::unique_ptr<device::Backend>> make_backend(std::shared_ptr<SharedGpu> gpu);
// The only one of a GPU.
Result<std::unique_ptr<device::Backend>> make_backend(const Options& options);

// As if the driver had reported the device as lost: for tests of what follows.
void lose_device(SharedGpu& gpu);

// One Description per GPU of the machine, usable or not, in the order of their numbers.
std::vector<device::Description> list_devices();

}  // namespace tandem::vulkan
