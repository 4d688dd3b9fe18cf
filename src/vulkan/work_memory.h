// WorkMemory: the device memory for what steps compute on the way, shared by all Executables of a queue. Its steps run
// one after another, so what one leaves there the next may overwrite.
#pragma once

#include <memory>

#include "vulkan/memory.h"

namespace tandem::vulkan {

class WorkMemory {
  public:
    explicit WorkMemory(std::shared_ptr<Device> device) : device_(std::move(device)) {}

    // Kept as long as its arena is.
    struct Piece {
        std::shared_ptr<Arena> arena;
        Buffer buffer;
    };
    // What was given before if that is large enough, else more; those that have the old one keep it.
    Result<Piece> get(uint64_t size_bytes);

  private:
    std::shared_ptr<Device> device_;
    std::weak_ptr<Arena> arena_;
    Buffer buffer_;
};

}  // namespace tandem::vulkan
