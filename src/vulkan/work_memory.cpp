#include "vulkan/work_memory.h"

#include <algorithm>

namespace tandem::vulkan {

Result<WorkMemory::Piece> WorkMemory::get(uint64_t size_bytes) {
    std::shared_ptr<Arena> arena = arena_.lock();
    if (!arena || buffer_.size_bytes < size_bytes) {
        const uint64_t bytes = std::max(size_bytes, Arena::kAlignment);
        arena = std::make_shared<Arena>(device_, MemoryKind::device, bytes);
        buffer_ = TRY(arena->allocate(bytes));
        arena_ = arena;
    }
    return Piece{std::move(arena), buffer_};
}

}  // namespace tandem::vulkan
