// Discovery: whether the machine has an NPU that can be used, and if not, why and what to do about it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tandem::npu {

struct NpuDevice {
    std::string array;     // the name of its array: "npu1", "npu2"
    std::string hardware;  // "AMD XDNA NPU 1022:1502 rev 00"
    std::string pci;       // its address: "0000:c5:00.1"
    std::string node;      // "/dev/accel/accel0"; empty: none
};

// Why an NPU cannot be used, and the remedy: one line.
struct Obstacle {
    std::string what;
    std::string remedy;
};

struct Discovery {
    std::optional<NpuDevice> device;
    std::vector<Obstacle> obstacles;  // none: it can be used
    std::string xrt;                  // the version of the library, as its file is named; empty: none

    // The obstacles in one line.
    Status usable() const;
};

// What is looked at; tests put a tree of their own there.
struct System {
    std::filesystem::path root = "/";
    uint64_t memlock_bytes = 0;                                       // the most memory that may be locked
    std::function<bool(const std::filesystem::path& node)> may_open;  // for reading and writing

    static System here();
};

Discovery discover(const System& system);

}  // namespace tandem::npu
