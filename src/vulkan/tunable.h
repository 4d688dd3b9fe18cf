// What tune() and tests reach of a backend, and nobody else.
#pragma once

#include "device/backend.h"
#include "vulkan/tuning.h"

namespace tandem::vulkan {

// What everything compiled from now on is made with. The backend is one of make_backend().
Tuning& tuning_of(device::Backend& backend);
const DeviceInfo& info_of(device::Backend& backend);

}  // namespace tandem::vulkan
