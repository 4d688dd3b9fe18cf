// The NPU as a device: runs segments of a Program as designs on a Runtime, the device itself or its emulator.
#pragma once

#include <memory>
#include <string>

#include "device/backend.h"
#include "npu/array.h"
#include "npu/estimate.h"
#include "npu/runtime.h"

namespace tandem::npu {

// Why the NPU leaves a node to the other device, in words that name what is in the way; empty: it runs it.
std::string obstacle_of(const graph::Program& program, const graph::Node& node);

// It has no cache of its own: it reads and writes the host memory of whichever it is given, so that must be shared.
// `host` runs what lies between products and attention: norms, rope, sums, gated activations.
// `outlook`: of what it predicts.
std::unique_ptr<device::Backend> make_backend(std::unique_ptr<Runtime> runtime, const Array& array,
                                              std::unique_ptr<device::Backend> host, const Outlook& outlook = kMiddle);

}  // namespace tandem::npu
