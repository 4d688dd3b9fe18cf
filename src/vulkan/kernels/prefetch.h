// Brings the beginning of the next matrix into the GPU's cache while a stage runs that leaves its memory idle.
#pragma once

#include "vulkan/recorder.h"

namespace tandem::vulkan {

Status record_prefetch(Recorder& rec, const Access& memory);

}  // namespace tandem::vulkan
