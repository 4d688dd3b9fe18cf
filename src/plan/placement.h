// Placement: which of two devices runs which nodes of a Program.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "graph/program.h"

namespace tandem::plan {

// The main device, a GPU or the CPU, can run a Program alone; the NPU takes parts of it.
inline constexpr int kMain = 0;
inline constexpr int kNpu = 1;

enum class Policy : uint8_t {
    main_only,      // "gpu"
    npu_attention,  // attention on the NPU, all else on the main device
    npu_prefill,    // whole layers on the NPU, spread evenly among the others
    npu_alone,      // "npu": all layers but their attention on the NPU, of single tokens too, so that a GPU can sleep
    automatic,      // whichever the cost model finds fastest
};

Result<Policy> parse_policy(std::string_view text);
std::string_view name(Policy policy);

struct Placement {
    Policy policy = Policy::main_only;
    int npu_layers = 0;  // of npu_prefill
};

// "npu-prefill, 21 of 62 layers"
std::string describe(const Placement& placement, const graph::Program& program);

// Per node kMain or kNpu. What the NPU does not support stays with the main device.
std::vector<int> place(const graph::Program& program, const Placement& placement, const device::Backend& npu);

// Why the NPU cannot run a node; empty: it can.
using Obstacle = std::function<std::string(const graph::Program& program, const graph::Node& node)>;
// What the placement would give to the NPU but for an obstacle, a line for each op and obstacle: "2 x rope: ...".
std::vector<std::string> describe_left(const graph::Program& program, const Placement& placement,
                                       const Obstacle& obstacle);

// The number of the first node of each layer, and after those where the last layer ends.
std::vector<size_t> layer_starts(const graph::Program& program);

}  // namespace tandem::plan
