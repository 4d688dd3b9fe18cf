// Measures what a GPU does at best: how fast it reads its memory, and multiplies matrices where it has units for that.
#pragma once

#include <string>

#include "base/result.h"
#include "device/rates.h"

namespace tandem::vulkan {

// `device`: as Options::device of the backend has it.
Result<device::Rates> measure_rates(const std::string& device);

}  // namespace tandem::vulkan
