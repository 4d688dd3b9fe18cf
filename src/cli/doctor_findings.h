// Findings of `tandem doctor`: what is right and wrong with a machine for running models, and what to do about it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "device/backend.h"

namespace tandem::cli {

// What is looked at; tests put a tree and devices of their own there.
struct MachineFacts {
    std::filesystem::path root = "/";
    std::function<bool(const std::filesystem::path& node)> may_open;  // for reading and writing
    uint64_t memlock_bytes = 0;                                       // the most memory that may be locked
    bool knows_vulkan = true;                                         // this build
    std::vector<device::Description> gpus = {};                       // of Vulkan

    static MachineFacts here();
};

enum class Severity : uint8_t {
    good,
    advice,  // models run, and could run better
    broken,  // something that is there cannot be used
};
std::string_view name(Severity severity);

struct Finding {
    Severity severity = Severity::good;
    std::string about;  // "GPU"
    std::string what;
    std::string remedy = {};  // empty: there is nothing to do
};

std::vector<Finding> examine(const MachineFacts& facts);

}  // namespace tandem::cli
