#include "cpu/kernel.h"

#include <deque>

namespace tandem::cpu {

namespace {

// A function's static, because kernels register while other statics are still being made. A deque keeps addresses.
std::deque<Kernel>& registry() {
    static std::deque<Kernel> kernels;
    return kernels;
}

}  // namespace

void register_kernel(Kernel kernel) {
    registry().push_back(std::move(kernel));
}

const Kernel* find_kernel(const graph::Op& op, graph::InputTypes inputs, bool reference_only) {
    const Kernel* found = nullptr;
    for (const Kernel& kernel : registry()) {
        if (kernel.kind != &op.kind() || (reference_only && !kernel.reference)) continue;
        if (found != nullptr && kernel.reference) continue;
        if (kernel.supports(op, inputs)) found = &kernel;
    }
    return found;
}

}  // namespace tandem::cpu
