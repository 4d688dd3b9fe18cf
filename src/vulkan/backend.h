// Vulkan as a device: the whole Program on one GPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/backend.h"

namespace tandem::vulkan {

struct Options {
    std::string device = "";     // index or part of the name; empty: the best
    bool allow_software = true;  // take a device that is no GPU
    bool exact = false;          // every op by itself in f32: slow, and as close to the reference as floats get
    bool validation = false;     // with the Khronos validation layer
};

Result<std::unique_ptr<device::Backend>> make_backend(const Options& options);

// One Description per GPU of the machine, usable or not (then its details say why), in the order of their numbers.
std::vector<device::Description> list_devices();

}  // namespace tandem::vulkan
