// How an op of a Program is recorded: what its recording function is given, and the registry it enters by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "graph/op.h"
#include "vulkan/cache.h"
#include "vulkan/kernels/contracts.h"
#include "vulkan/recorder.h"
#include "vulkan/step_state.h"
#include "vulkan/weights.h"

namespace tandem::vulkan {

// A value of the Program on the device, with the rows of the bucket that is recorded.
struct Operand {
    DType dtype = DType::f32;
    uint32_t rows = 0;
    uint32_t cols = 0;
    uint32_t matrices = 1;  // that the rows are shared out to: of experts
    VkDeviceAddress address = 0;
    uint64_t size_bytes = 0;
    DeviceWeight weight;  // of a weight: its planes; address is that of the first

    uint32_t elements() const { return rows * cols; }
    Access access() const { return {address, size_bytes}; }
};

struct Args {
    std::span<const Operand> in;
    Operand out;
    const StepState::Addresses& step;
    const DeviceCache* cache = nullptr;
    const Capabilities& capabilities;
    // Numbers that the op itself carries, put on the device once.
    const std::function<Result<VkDeviceAddress>(std::span<const std::byte>)>& constant;
};

struct KernelEntry {
    const graph::OpKind* kind = nullptr;
    std::function<Status(Recorder&, const graph::Op&, const Args&)> record;
};

void register_kernel(KernelEntry entry);
const KernelEntry* find_entry(const graph::Op& op);  // null when the op has no kernel here

// A static object in the kernel's own file: const Registration<op::RmsNorm> kRmsNormKernel{record};
template <typename T>
struct Registration {
    explicit Registration(Status (*record)(Recorder&, const T&, const Args&)) {
        register_kernel({.kind = &graph::kind_of<T>(),
                         .record = [record](Recorder& recorder, const graph::Op& op, const Args& args) {
                             return record(recorder, *op.as<T>(), args);
                         }});
    }
};

// By what kernels that multiply matrices do it.
inline kernels::Matrix matrices_of(const Capabilities& device) {
    return device.cooperative_matrix ? kernels::Matrix::khr : kernels::Matrix::scalar;
}

// For a kernel that is made for capabilities.subgroup, with so many lanes: where the device has a choice, it is to make
// that one.
inline uint32_t required_subgroup(const Capabilities& device, uint32_t lanes) {
    return device.min_subgroup < device.max_subgroup && lanes % device.subgroup == 0 ? device.subgroup : 0;
}

constexpr uint32_t divide_up(uint32_t a, uint32_t b) {
    return (a + b - 1) / b;
}

}  // namespace tandem::vulkan
