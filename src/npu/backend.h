// The NPU as a device: runs segments of a Program as designs on a Runtime, the device itself or its emulator.
#pragma once

#include <memory>

#include "device/backend.h"
#include "npu/array.h"
#include "npu/runtime.h"

namespace tandem::npu {

// It has no cache of its own: it reads and writes the host memory of whichever it is given, so that must be shared.
std::unique_ptr<device::Backend> make_backend(std::unique_ptr<Runtime> runtime, const Array& array);

}  // namespace tandem::npu
