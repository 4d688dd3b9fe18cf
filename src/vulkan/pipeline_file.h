// The file that keeps a driver's compiled kernels between runs. Drivers may crash on data that is damaged, so it
// carries a checksum, and it names the device and driver that it is for.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "vulkan/device.h"

namespace tandem::vulkan {

// One name for each device and version of its driver.
std::string pipeline_file_name(const Device& device);

// What was written, or nothing when there is no such file or it is not what was written, or not for this device.
std::string read_pipeline_file(const std::filesystem::path& file, const Device& device);

// That it cannot be written costs the next start some time and nothing else.
void write_pipeline_file(const std::filesystem::path& file, std::string_view data);

}  // namespace tandem::vulkan
