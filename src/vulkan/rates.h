// Measures what a GPU does at best: how fast it reads its memory, and multiplies matrices where it has units for that.
#pragma once

#include "base/dtype.h"
#include "base/result.h"
#include "device/rates.h"
#include "vulkan/backend.h"

namespace tandem::vulkan {

Result<device::Rates> measure_rates(SharedGpu& gpu);

// Bytes of weights of a type a second that are repacked and brought there.
Result<double> measure_upload(SharedGpu& gpu, DType type);

}  // namespace tandem::vulkan
