// Tune: searches the sizes that kernels run fastest with on a device, by whole steps of a model, and keeps them.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "device/backend.h"

namespace tandem::vulkan {

// How long steps of the model take on the backend, compiled anew at every call.
struct TuneMeasures {
    std::function<Result<double>(int sequences, int context)> decode_seconds;
    std::function<Result<double>(int tokens)> prompt_seconds;
    std::function<void(std::string_view)> note;  // what was found, line by line
};

// Changes one value after the other to what is fastest and writes the result to `directory` (see
// vulkan/tuning_file.h); returns the file. `backend` is one of make_backend() and has the tuning from then on.
Result<std::filesystem::path> tune(device::Backend& backend, const std::filesystem::path& directory,
                                   const TuneMeasures& measures);

}  // namespace tandem::vulkan
