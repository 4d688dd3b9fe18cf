// Uploader: repacks tensors with all threads, right where they are to lie if the host can write there; else into
// staging memory while the GPU copies what was repacked before.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "base/threads.h"
#include "graph/weights.h"
#include "vulkan/memory.h"
#include "vulkan/planes.h"
#include "vulkan/queue.h"

namespace tandem::vulkan {

// Planes of a number of elements in one buffer, and where in it each begins.
struct PlanePlace {
    Buffer buffer;
    std::array<uint64_t, Planes::count> offset{};
};

class Uploader {
  public:
    static constexpr uint64_t kSlotBytes = uint64_t{64} << 20;

    explicit Uploader(Queue& queue, uint64_t slot_bytes = kSlotBytes);
    Uploader(const Uploader&) = delete;
    Uploader& operator=(const Uploader&) = delete;
    ~Uploader();

    // Brings a tensor to the elements of `place` from `first` on, in tiles or not. It is there after finish(); `view`
    // need not live so long.
    Status put(const graph::WeightView& view, const PlanePlace& place, int64_t first, bool tiled);
    // Waits for all that was put, and gives staging memory and threads back.
    Status finish();

  private:
    // A part of the staging memory, filled with pieces of tensors and copied by one submission.
    struct Slot {
        Buffer staging;
        VkCommandBuffer commands = VK_NULL_HANDLE;
        bool recording = false;
        uint64_t used_bytes = 0;
        uint64_t submitted = 0;  // what to wait for before it is filled again
    };

    Status prepare();
    Status stage(const graph::WeightView& view, const PlanePlace& place, int64_t first, bool tiled);
    // Makes the current slot ready to take more, the next one if this is full.
    Result<Slot*> open_slot();
    Status submit(Slot& slot);
    // What is repacked and copied at once.
    struct Piece {
        DType dtype;
        int64_t unit;        // elements that stay together
        int64_t tiled_cols;  // as repack() takes them
    };
    static Piece piece_of(const graph::WeightView& view, bool tiled);
    int64_t room(const Slot& slot, const Piece& piece) const;  // in elements
    void repack_parallel(const Piece& piece, std::span<const std::byte> blocks, const PlaneTargets& targets);

    Queue& queue_;
    uint64_t slot_bytes_;
    std::unique_ptr<ThreadPool> threads_;  // as the staging memory, only while there is something to do
    std::unique_ptr<Arena> arena_;
    std::array<Slot, 3> slots_;
    size_t current_ = 0;
};

}  // namespace tandem::vulkan
