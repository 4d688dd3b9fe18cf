#include "npu/check.h"

#include <algorithm>
#include <set>

#include "npu/check_parts.h"
#include "npu/flow.h"
#include "npu/host_schedule.h"
#include "npu/tile_use.h"

namespace tandem::npu {
namespace {

// Also what MLIR and C take for a name.
bool is_name(std::string_view name) {
    constexpr size_t kMaxLength = 64;
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    return !name.empty() && name.size() <= kMaxLength && letter(name.front()) &&
           std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

// Names of one kind: well formed and each there once.
class Names {
  public:
    explicit Names(std::string_view kind) : kind_(kind) {}

    Status add(const std::string& name) {
        if (!is_name(name)) return fail("{} '{}' is no name: use letters, digits and _", kind_, name);
        if (!names_.insert(name).second)
            return fail("there are two of {} '{}': name one of them differently", kind_, name);
        return Ok{};
    }

  private:
    std::string_view kind_;
    std::set<std::string> names_;
};

Status check_object(std::string_view what, const std::string& name, const ObjectType& object) {
    constexpr int64_t kMaxCount = int64_t{1} << 40;
    if (object.count < 1 || object.count > kMaxCount)
        return fail("{} '{}' has {} elements: it must be 1 to {}", what, name, object.count, kMaxCount);
    return Ok{};
}

Status check_tile(const Array& array, const std::string& whose, Tile tile) {
    if (array.has(tile)) return Ok{};
    return fail("{} lies on tile ({}, {}), but {} has columns 0 to {} and rows 0 to {}", whose, tile.column, tile.row,
                array.name, array.columns - 1, array.rows - 1);
}

Status check_fifo(const Array& array, const Fifo& fifo) {
    constexpr int kMaxDepth = 1024;
    const std::string whose = fmt::format("an end of FIFO '{}'", fifo.name);
    TRY(check_object("FIFO", fifo.name, fifo.object));
    TRY(check_tile(array, whose, fifo.producer));
    if (fifo.object.size_bytes() % kWordBytes != 0)
        return fail("FIFO '{}' has objects of {} bytes at {}, but DMA moves words of {}: pad them", fifo.name,
                    fifo.object.size_bytes(), describe(array, fifo.producer), kWordBytes);
    if (fifo.depth < 1 || fifo.depth > kMaxDepth)
        return fail("FIFO '{}' has depth {}: it must be 1 to {}", fifo.name, fifo.depth, kMaxDepth);
    if (fifo.consumers.empty()) return fail("FIFO '{}' has no consumer", fifo.name);
    if (fifo.from_stream.size() > fifo.consumers.size())
        return fail("FIFO '{}' has {} ways to write objects for {} consumers", fifo.name, fifo.from_stream.size(),
                    fifo.consumers.size());
    std::set<Tile> seen{fifo.producer};
    bool host = array.kind(fifo.producer) == TileKind::shim;
    for (const Tile consumer : fifo.consumers) {
        TRY(check_tile(array, whose, consumer));
        if (!seen.insert(consumer).second)
            return fail("FIFO '{}' comes to {} twice or back to it", fifo.name, describe(array, consumer));
        if (array.kind(consumer) != TileKind::shim) continue;
        if (host || fifo.consumers.size() > 1)
            return fail("FIFO '{}' goes to the host at {}: then it comes from within the array and goes nowhere else",
                        fifo.name, describe(array, consumer));
        host = true;
    }
    return Ok{};
}

// The FIFOs of one side of a link; every one ends (from) or begins (to) at `tile`, a mem tile.
Result<std::vector<const Fifo*>> link_side(const Design& design, const Array& array, const Link& link, bool from) {
    std::vector<const Fifo*> side;
    const std::vector<std::string>& names = from ? link.from : link.to;
    side.reserve(names.size());
    for (const std::string& name : names) {
        const Fifo* fifo = find_fifo(design, name);
        if (fifo == nullptr) return fail("a link names FIFO '{}', which is not there", name);
        const Tile tile = from ? fifo->consumers.front() : fifo->producer;
        if ((from && fifo->consumers.size() != 1) || array.kind(tile) != TileKind::mem)
            return fail("FIFO '{}' is linked at {}: links pass objects on within one mem tile", name,
                        describe(array, tile));
        side.push_back(fifo);
    }
    return side;
}

Status check_parts_of(const Link& link, const Fifo& whole, const std::vector<const Fifo*>& parts) {
    if (parts.size() == 1 && link.offsets.empty()) {
        if (parts.front()->object.size_bytes() == whole.object.size_bytes()) return Ok{};
        return fail("FIFOs '{}' and '{}' are linked with objects of {} and {} bytes: they must be equal", whole.name,
                    parts.front()->name, whole.object.size_bytes(), parts.front()->object.size_bytes());
    }
    if (link.offsets.size() != parts.size())
        return fail("the link of FIFO '{}' has {} offsets for {} parts", whole.name, link.offsets.size(), parts.size());
    int64_t at = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
        const Fifo& part = *parts[i];
        if (part.object.element != whole.object.element)
            return fail("FIFO '{}' of {} is a part of '{}' of {}: they must be equal", part.name,
                        name(part.object.element), whole.name, name(whole.object.element));
        if (link.offsets[i] != at)
            return fail("part '{}' of FIFO '{}' begins at element {}, but the part before it ends at {}", part.name,
                        whole.name, link.offsets[i], at);
        at += part.object.count;
    }
    if (at != whole.object.count)
        return fail("the parts of FIFO '{}' have {} elements, but its objects have {}", whole.name, at,
                    whole.object.count);
    return Ok{};
}

Status check_link(const Design& design, const Array& array, const Link& link) {
    if (link.from.empty() || link.to.empty() || (link.from.size() > 1 && link.to.size() > 1))
        return fail("a link from {} to {} FIFOs: one side has exactly one", link.from.size(), link.to.size());
    const auto from = TRY(link_side(design, array, link, true));
    const auto to = TRY(link_side(design, array, link, false));
    const Tile tile = from.front()->consumers.front();
    for (const Fifo* fifo : from)
        if (fifo->consumers.front() != tile)
            return fail("FIFO '{}' is linked at {}, the others at {}", fifo->name,
                        describe(array, fifo->consumers.front()), describe(array, tile));
    for (const Fifo* fifo : to)
        if (fifo->producer != tile)
            return fail("FIFO '{}' is linked at {}, the others at {}", fifo->name, describe(array, fifo->producer),
                        describe(array, tile));
    return from.size() > 1 ? check_parts_of(link, *to.front(), from) : check_parts_of(link, *from.front(), to);
}

// What arrives at a mem tile or leaves it has to be linked, once.
Status check_linked_once(const Design& design, const Array& array) {
    std::map<std::string, int> in;
    std::map<std::string, int> out;
    for (const Link& link : design.links) {
        for (const std::string& name : link.from) ++in[name];
        for (const std::string& name : link.to) ++out[name];
    }
    for (const Fifo& fifo : design.fifos) {
        const bool leaves_mem = array.kind(fifo.producer) == TileKind::mem;
        if (leaves_mem && out[fifo.name] != 1)
            return fail("FIFO '{}' leaves {} with {} links: it needs one", fifo.name, describe(array, fifo.producer),
                        out[fifo.name]);
        for (const Tile consumer : fifo.consumers)
            if (array.kind(consumer) == TileKind::mem && in[fifo.name] != 1)
                return fail("FIFO '{}' comes to {} with {} links: it needs one", fifo.name, describe(array, consumer),
                            in[fifo.name]);
    }
    return Ok{};
}

template <typename CheckTile>
Status check_tiles(const Design& design, const Array& array, const CheckTile& check_tile) {
    for (const auto& [tile, use] : tile_use(design, array))
        TRY(check_tile(array.kind(tile), array.limits(array.kind(tile)), use, describe(array, tile)));
    return Ok{};
}

Status check_memory(const Design& design, const Array& array) {
    return check_tiles(
        design, array, [](TileKind kind, const TileLimits& limits, const TileUse& use, auto where) -> Status {
            if (use.memory_bytes > limits.memory_bytes)
                return fail("{} needs {} bytes of memory and has {}: use smaller objects, less depth or fewer buffers",
                            where, use.memory_bytes, limits.memory_bytes);
            if (kind == TileKind::compute && use.memory_bytes > limits.memory_bytes - kLinkerBytes)
                return fail(
                    "{} needs {} bytes of memory of {}, and {} are left to the linker for data: use smaller objects",
                    where, use.memory_bytes, limits.memory_bytes, kLinkerBytes);
            return Ok{};
        });
}

Status check_channels(const Design& design, const Array& array) {
    return check_tiles(design, array, [](TileKind, const TileLimits& limits, const TileUse& use, auto where) -> Status {
        if (use.channels_in > limits.channels_in)
            return fail("{} needs {} DMA channels for what arrives and has {}: join streams before it", where,
                        use.channels_in, limits.channels_in);
        if (use.channels_out > limits.channels_out)
            return fail("{} needs {} DMA channels for what leaves and has {}: join streams in it", where,
                        use.channels_out, limits.channels_out);
        return Ok{};
    });
}

Status check_descriptors(const Design& design, const Array& array) {
    return check_tiles(
        design, array, [](TileKind kind, const TileLimits& limits, const TileUse& use, auto where) -> Status {
            if (use.descriptors > limits.descriptors)
                return fail("{} needs {} buffer descriptors and has {}: use less depth", where, use.descriptors,
                            limits.descriptors);
            // A mem tile's even channels reach one half of the descriptors, its odd channels the other.
            const int most = std::max(use.descriptors_even, use.descriptors - use.descriptors_even);
            if (kind == TileKind::mem && most > limits.descriptors / 2)
                return fail("{} needs {} buffer descriptors for every second DMA channel and has {}: use less depth",
                            where, most, limits.descriptors / 2);
            return Ok{};
        });
}

Status check_locks(const Design& design, const Array& array) {
    return check_tiles(design, array, [](TileKind, const TileLimits& limits, const TileUse& use, auto where) -> Status {
        if (use.locks > limits.locks)
            return fail("{} needs {} locks and has {}: use fewer FIFOs there", where, use.locks, limits.locks);
        return Ok{};
    });
}

Status check_flow(const Design& design, const Array& array) {
    TRY(flow_of(design, array));
    return Ok{};
}

Status check_waits(const Design& design, const Array& array) {
    return check_tokens(design, array, host_schedule(design, array));
}

constexpr Rule kRules[] = {{"names", check_structure},
                           {"accesses", check_accesses},
                           {"workers", check_workers},
                           {"flow", check_flow},
                           {"memory", check_memory},
                           {"channels", check_channels},
                           {"descriptors", check_descriptors},
                           {"locks", check_locks},
                           {"tokens", check_waits},
                           {"routes", check_routes}};

Status check_all(const Design& design, const Array& array) {
    if (design.array != array.name) return fail("it is for '{}', not for '{}'", design.array, array.name);
    for (const Rule& rule : kRules) TRY(rule.check(design, array));
    return Ok{};
}

}  // namespace

std::string describe(const Array& array, Tile tile) {
    return fmt::format("{} ({}, {})", name(array.kind(tile)), tile.column, tile.row);
}

Status check_structure(const Design& design, const Array& array) {
    Names fifos("FIFO");
    for (const Fifo& fifo : design.fifos) {
        TRY(fifos.add(fifo.name));
        TRY(check_fifo(array, fifo));
    }
    for (const Link& link : design.links) TRY(check_link(design, array, link));
    TRY(check_linked_once(design, array));
    Names kernels("kernel");
    for (const KernelUse& kernel : design.kernels) TRY(kernels.add(kernel.symbol));
    std::set<Tile> taken;
    for (const Worker& worker : design.workers) {
        TRY(check_tile(array, "a worker", worker.tile));
        const std::string where = describe(array, worker.tile);
        if (array.kind(worker.tile) != TileKind::compute) return fail("a worker lies on {}, which has no core", where);
        if (!taken.insert(worker.tile).second) return fail("two workers lie on {}", where);
        if (worker.stack_bytes < kLeastStackBytes || worker.stack_bytes % kBufferAlignment != 0)
            return fail(
                "the stack of {} is {} bytes: it must be a multiple of {} and {} at least, since nothing notices "
                "when it overflows",
                where, worker.stack_bytes, kBufferAlignment, kLeastStackBytes);
        Names buffers("buffer");
        for (const LocalBuffer& buffer : worker.buffers) {
            TRY(buffers.add(buffer.name));
            TRY(check_object("buffer", buffer.name, buffer.type));
        }
    }
    Names arguments("argument");
    for (const HostArgument& argument : design.sequence.arguments) {
        TRY(arguments.add(argument.name));
        TRY(check_object("argument", argument.name, argument.type));
    }
    return Ok{};
}

std::span<const Rule> rules() {
    return kRules;
}

Status check(const Design& design, const Array& array) {
    const Status status = check_all(design, array);
    if (!status) return fail("design '{}': {}", design.name, status.error().message);
    return Ok{};
}

Status check(const Design& design) {
    const Array* const array = TRY(array_named(design.array));
    return check(design, *array);
}

}  // namespace tandem::npu
