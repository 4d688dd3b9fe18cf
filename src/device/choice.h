// What --device auto takes: the best device of the machine that can hold a model, and why it is not a better one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "device/backend.h"

namespace tandem::device {

// A graphics processor as the system sees it, whether or not there is a driver for it.
struct GraphicsCard {
    std::string vendor;  // "AMD"
    std::string remedy;  // when there is no Vulkan driver for it
};

// What the choice is made from.
struct Candidates {
    std::vector<Description> gpus;  // of Vulkan, in the order of their numbers
    std::vector<GraphicsCard> cards;
};

struct DeviceChoice {
    const Description* gpu = nullptr;  // of the candidates; null: the CPU
    std::string why;                   // what a person with this machine should know; empty: there is nothing better
};

// `weight_bytes`: of the model; 0: not known.
DeviceChoice choose_device(const Candidates& candidates, uint64_t weight_bytes);

// Cards of vendors whose GPUs have Vulkan, by the bus under `root` ("/" but for tests). `may_open` tells whether this
// process may use a node of /dev/dri.
std::vector<GraphicsCard> find_cards(const std::filesystem::path& root,
                                     const std::function<bool(const std::filesystem::path&)>& may_open);

}  // namespace tandem::device
