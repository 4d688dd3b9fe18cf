#include "vulkan/kernel.h"

#include <vector>

namespace tandem::vulkan {

namespace {

std::vector<KernelEntry>& entries() {
    static std::vector<KernelEntry> all;
    return all;
}

}  // namespace

void register_kernel(KernelEntry entry) {
    entries().push_back(std::move(entry));
}

const KernelEntry* find_entry(const graph::Op& op) {
    for (const KernelEntry& entry : entries()) {
        if (entry.kind == &op.kind()) return &entry;
    }
    return nullptr;
}

}  // namespace tandem::vulkan
