// The file that keeps the tuning found for a device: JSON, read when the device is opened.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "vulkan/tuning.h"

namespace tandem::vulkan {

// "nvidia-h200.json"
std::string tuning_file_name(const DeviceInfo& device);

std::string tuning_to_json(const Tuning& tuning, const DeviceInfo& device);

// What the text leaves out is as in the defaults of the device. Every value is checked against what the kernels take
// and the device has.
Result<Tuning> tuning_from_json(const std::string& text, const DeviceInfo& device);

// From the device's file in `directory`; the defaults when there is none. One that cannot be used is named in the log.
Tuning load_tuning(const std::filesystem::path& directory, const DeviceInfo& device);
Status save_tuning(const std::filesystem::path& directory, const Tuning& tuning, const DeviceInfo& device);

}  // namespace tandem::vulkan
