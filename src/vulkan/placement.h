// Placement: which weights lie in the GPU's own memory, and which in host memory that it reads more slowly.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "graph/program.h"
#include "vulkan/device.h"

namespace tandem::vulkan {

struct WeightDemand {
    std::string name;
    uint64_t size_bytes = 0;
    double share = 1;  // of it that is read for a token: 1 of a matrix, less of experts, next to nothing of a table
};

// The weights of a Program, in the order of their first use.
std::vector<WeightDemand> weight_demands(const graph::Program& program);

// What weights may take of each kind of memory.
struct WeightBudget {
    uint64_t device_bytes = 0;
    uint64_t host_bytes = 0;
};

// By what the driver says is free, less a reserve for what steps need themselves.
WeightBudget weight_budget(const Device& device);

// The names of those that go to host memory: first what is read least, then what is used last. Fails with what is
// missing when both kinds together do not hold them.
Result<std::unordered_set<std::string>> place_weights(std::span<const WeightDemand> demands,
                                                      const WeightBudget& budget);

}  // namespace tandem::vulkan
