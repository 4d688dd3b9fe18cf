// Tune: searches the sizes that kernels run fastest with on a device, by whole steps of a model, and keeps them.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "vulkan/backend.h"

namespace tandem::vulkan {

struct DeviceInfo;
struct Tuning;

// How long steps of the model take on the backend, compiled anew at every call.
struct TuneMeasures {
    std::function<Result<double>(int sequences, int context)> decode_seconds;
    std::function<Result<double>(int tokens)> prompt_seconds;
    std::function<void(std::string_view)> note;  // what was found, line by line
    std::function<bool()> stopped;               // whether to be content with what was found so far
};

// Changes one value after the other to what is fastest and writes each that gains something to `directory` (see
// vulkan/tuning_file.h), so that nothing is lost when it ends early; returns the file. The backends of the GPU have the
// tuning from then on.
Result<std::filesystem::path> tune(SharedGpu& gpu, const std::filesystem::path& directory,
                                   const TuneMeasures& measures);
// The same of a tuning that `measures` are made with.
Result<std::filesystem::path> tune(Tuning& tuning, const DeviceInfo& device, const std::filesystem::path& directory,
                                   const TuneMeasures& measures);

}  // namespace tandem::vulkan
