// What buffer descriptors can walk over: objects at either end of a FIFO, and the host's memory.
#include "npu/access.h"
#include "npu/check_parts.h"
#include "npu/tile_use.h"

namespace tandem::npu {
namespace {

// An access that someone wrote, with what a message about it needs.
struct Walk {
    std::string what;  // "FIFO 'a' at mem tile (0, 1)"
    const Access& access;
    Element element;
    int64_t count;  // elements there are to walk over, from where the walk begins
    const TileLimits& limits;
    bool host = false;
};

// Sizes and strides are small enough that nothing below overflows.
Status check_plausible(const Walk& walk) {
    constexpr int64_t kMost = int64_t{1} << 40;
    if (std::ssize(walk.access) > walk.limits.dimensions)
        return fail("{} walks over {} dimensions, but descriptors have {} there", walk.what, walk.access.size(),
                    walk.limits.dimensions);
    int64_t total = 1;
    for (const AccessDim& dim : walk.access) {
        if (dim.size < 1 || dim.size > kMost || dim.stride < 0 || dim.stride > kMost)
            return fail("{} has a dimension of {} steps of {} elements: neither may be negative", walk.what, dim.size,
                        dim.stride);
        if (__builtin_mul_overflow(total, dim.size, &total) || total > kMost)
            return fail("{} walks over more than {} elements", walk.what, kMost);
    }
    return Ok{};
}

Status check_bounds(const Walk& walk) {
    int64_t last = 0;
    for (const AccessDim& dim : walk.access) {
        int64_t distance = 0;
        if (__builtin_mul_overflow(dim.size - 1, dim.stride, &distance) ||
            __builtin_add_overflow(last, distance, &last))
            return fail("{} walks out of all bounds", walk.what);
    }
    if (last >= walk.count) return fail("{} walks to element {}, but there are {}", walk.what, last, walk.count);
    return Ok{};
}

// Addresses and runs are of whole words.
Status check_words(const Walk& walk, const Access& access) {
    const int64_t bytes = size_bytes(walk.element);
    for (size_t i = 0; i + 1 < access.size(); ++i) {
        if (access[i].stride * bytes % kWordBytes != 0)
            return fail("{} has steps of {} bytes, but DMA addresses words of {}", walk.what, access[i].stride * bytes,
                        kWordBytes);
    }
    const AccessDim& inner = access.back();
    if (bytes < kWordBytes && (inner.stride != 1 || inner.size * bytes % kWordBytes != 0))
        return fail(
            "{} has an innermost run of {} {} with stride {}: runs are contiguous and of whole words of {} bytes",
            walk.what, inner.size, name(walk.element), inner.stride, kWordBytes);
    return Ok{};
}

// `access` is what descriptors hold. The outermost dimension goes on until the length is reached, so its steps are not
// counted; the vendor's compiler sets a limit all the same. A shim counts those of its two inner ones.
Status check_steps(const Walk& walk, const Access& access) {
    constexpr int64_t kCompilerMost = 1023;
    const int64_t bytes = size_bytes(walk.element);
    for (size_t i = 0; i < access.size(); ++i) {
        const AccessDim& dim = access[i];
        const size_t inner = access.size() - 1 - i;
        const int64_t stride = inner == 0 ? dim.stride : dim.stride * bytes / kWordBytes;
        const int64_t size = inner == 0 ? dim.size * bytes / kWordBytes : dim.size;
        if (dim.stride == 0)
            return fail("{} has {} steps of 0 elements: only the outermost dimension of a transfer may repeat",
                        walk.what, dim.size);
        if (stride > walk.limits.max_stride)
            return fail("{} has steps of {} words, but descriptors take {}: lay the data out differently", walk.what,
                        stride, walk.limits.max_stride);
        const bool counted = walk.host ? inner < 2 : i > 0;
        if ((counted && size > walk.limits.max_size) || (!walk.host && size > kCompilerMost))
            return fail("{} has a dimension of {} steps, but descriptors take {}: split it into two", walk.what, size,
                        counted ? walk.limits.max_size : kCompilerMost);
    }
    return Ok{};
}

Status check_repeat(const Walk& walk, const AccessDim& repeat) {
    if (repeat.size > walk.limits.max_repeat)
        return fail("{} repeats {} times, but descriptors take {}: use several transfers", walk.what, repeat.size,
                    walk.limits.max_repeat);
    const int64_t stride = repeat.stride * size_bytes(walk.element) / kWordBytes;
    if (stride > walk.limits.max_stride)
        return fail("{} has steps of {} words, but descriptors take {}: lay the data out differently", walk.what,
                    stride, walk.limits.max_stride);
    return Ok{};
}

Status check_walk(const Walk& walk) {
    TRY(check_plausible(walk));
    TRY(check_bounds(walk));
    const int64_t words = elements(walk.access) * size_bytes(walk.element) / kWordBytes;
    if (!walk.host && words > walk.limits.max_words)
        return fail("{} has objects of {} words, but descriptors move {}: use smaller objects", walk.what, words,
                    walk.limits.max_words);
    if (!walk.host) {
        const Access access = compact(walk.access);
        if (access.empty()) return Ok{};
        TRY(check_words(walk, access));
        return check_steps(walk, access);
    }
    const HostAccess host = host_access(walk.access);
    TRY(check_repeat(walk, host.repeat));
    TRY(check_words(walk, host.inner));
    const bool linear = host.inner.size() == 1 && host.inner.front().stride == 1;
    return linear ? Status(Ok{}) : check_steps(walk, host.inner);
}

// One descriptor for each part, so that an access walks over one.
Status check_part(const Array& array, const Fifo& fifo, Tile tile, const Access& access, const Part& part) {
    const TileKind kind = array.kind(tile);
    const bool whole = part.count == fifo.object.count;
    const std::string what =
        fmt::format("{}FIFO '{}' at {}", whole ? "" : "each part of ", fifo.name, describe(array, tile));
    if (kind == TileKind::shim) {
        if (access.empty()) return Ok{};
        return fail("{} has an access: there, transfers say it", what);
    }
    const Access plain{{part.count, 1}};
    const Access& walked = access.empty() ? plain : access;
    TRY(check_walk({.what = what,
                    .access = walked,
                    .element = fifo.object.element,
                    .count = part.count,
                    .limits = array.limits(kind)}));
    if (elements(walked) != part.count)
        return fail("{} walks over {} of the {} elements of an object: it must be all", what, elements(walked),
                    part.count);
    if (part.offset * size_bytes(fifo.object.element) % kWordBytes != 0)
        return fail("{} begins at byte {}, but DMA addresses words of {}", what,
                    part.offset * size_bytes(fifo.object.element), kWordBytes);
    return Ok{};
}

Status check_end(const Design& design, const Array& array, const Fifo& fifo, Tile tile, const Access& access) {
    for (const Part& part : parts_at(design, fifo, tile == fifo.producer))
        TRY(check_part(array, fifo, tile, access, part));
    return Ok{};
}

Status check_transfer(const Design& design, const Array& array, const Transfer& transfer) {
    const Fifo* fifo = find_fifo(design, transfer.fifo);
    if (fifo == nullptr) return fail("a transfer names FIFO '{}', which is not there", transfer.fifo);
    const bool fill = array.kind(fifo->producer) == TileKind::shim;
    const Tile shim = fill ? fifo->producer : fifo->consumers.front();
    if (array.kind(shim) != TileKind::shim)
        return fail("a transfer names FIFO '{}', which neither comes from the host nor goes to it", fifo->name);
    if (transfer.argument < 0 || transfer.argument >= std::ssize(design.sequence.arguments))
        return fail("a transfer of FIFO '{}' names argument {} of {}", fifo->name, transfer.argument,
                    design.sequence.arguments.size());
    const HostArgument& argument = design.sequence.arguments[static_cast<size_t>(transfer.argument)];
    const int64_t bytes = size_bytes(argument.type.element);
    const std::string what = fmt::format("a transfer between argument '{}' and FIFO '{}' at {}", argument.name,
                                         fifo->name, describe(array, shim));
    if (transfer.access.empty()) return fail("{} has no access: say how many elements it moves", what);
    if (transfer.offset < 0 || transfer.offset >= argument.type.count)
        return fail("{} begins at element {}, but there are {}", what, transfer.offset, argument.type.count);
    if (transfer.offset * bytes % kWordBytes != 0)
        return fail("{} begins at byte {}, but DMA addresses words of {}", what, transfer.offset * bytes, kWordBytes);
    TRY(check_walk({.what = what,
                    .access = transfer.access,
                    .element = argument.type.element,
                    .count = argument.type.count - transfer.offset,
                    .limits = array.shim,
                    .host = true}));
    const int64_t moved = elements(transfer.access) * bytes;
    if (moved % fifo->object.size_bytes() != 0)
        return fail("{} moves {} bytes, which is no multiple of its objects of {}", what, moved,
                    fifo->object.size_bytes());
    return Ok{};
}

}  // namespace

Status check_accesses(const Design& design, const Array& array) {
    for (const Fifo& fifo : design.fifos) {
        if (shares_memory(fifo, array)) continue;
        TRY(check_end(design, array, fifo, fifo.producer, fifo.to_stream));
        for (size_t i = 0; i < fifo.consumers.size(); ++i)
            TRY(check_end(design, array, fifo, fifo.consumers[i],
                          i < fifo.from_stream.size() ? fifo.from_stream[i] : Access{}));
    }
    for (const Transfer& transfer : design.sequence.transfers) TRY(check_transfer(design, array, transfer));
    return Ok{};
}

}  // namespace tandem::npu
