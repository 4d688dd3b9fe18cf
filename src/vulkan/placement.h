// Placement: which weights lie in the GPU's own memory, and which in host memory that it reads more slowly.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
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

// What else a GPU that has none of its own could be given of the machine's memory.
struct MachineMemory {
    uint64_t size_bytes = 0;       // of the machine
    uint64_t carve_out_bytes = 0;  // set aside for the GPU by the firmware
    uint64_t gtt_bytes = 0;        // of the rest, that the GPU may use
    uint64_t ttm_bytes = 0;        // of the rest, that all GPUs together may use
};

// By the kernel's own account of AMD's GPUs; nothing where it gives none, or where there are several of them.
std::optional<MachineMemory> read_machine_memory(const std::filesystem::path& sys = "/sys");
// What limits the GPU and how to lift it, as the end of a message about what is missing.
std::string memory_remedy(const MachineMemory& memory, uint64_t missing_bytes);

// What weights may take of each kind of memory.
struct WeightBudget {
    uint64_t device_bytes = 0;
    uint64_t host_bytes = 0;
    std::optional<MachineMemory> machine = {};  // of a GPU that shares it
};

// By what the driver says is free, less a reserve for what steps need themselves.
WeightBudget weight_budget(const Device& device);

// The names of those that go to host memory: first what is read least, then what is used last. Fails with what is
// missing when both kinds together do not hold them.
Result<std::unordered_set<std::string>> place_weights(std::span<const WeightDemand> demands,
                                                      const WeightBudget& budget);

}  // namespace tandem::vulkan
