// Emulator: runs a Design on the host, with the same kernels and the FIFOs, locks and access patterns of the array.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "npu/activity.h"
#include "npu/design.h"
#include "npu/host_schedule.h"

namespace tandem::npu {

struct Machine;  // npu/machine.h
using KernelFinder = std::function<const Kernel*(std::string_view)>;

// Cores run in turns, each until it has to wait, so every run of a Design with the same data is the same. A core that
// acquires gets `count` objects more than it holds. An error leaves the arguments half written.
class Emulator {
  public:
    // The host does `steps`; none: what host_schedule() says.
    static Result<Emulator> make(Design design, const KernelFinder& kernels = find_kernel,
                                 std::vector<HostStep> steps = {});
    Emulator(Emulator&&) noexcept;
    Emulator& operator=(Emulator&&) noexcept;
    ~Emulator();

    const Design& design() const;

    // One buffer for each argument of the sequence, at least as large, read and written in place. Refuses what cannot
    // end, what writes past a buffer of a tile, and what leaves objects behind in a FIFO.
    Result<Activity> run(std::span<const std::span<std::byte>> arguments);

  private:
    explicit Emulator(std::unique_ptr<Machine> machine);

    std::unique_ptr<Machine> machine_;
};

}  // namespace tandem::npu
