#include <algorithm>
#include <map>

#include "npu/machine.h"
#include "npu/tile_use.h"

namespace tandem::npu {
namespace {

bool is_shim(Tile tile) {
    return tile.row == 0;
}

class Builder {
  public:
    Builder(Machine& machine, const KernelFinder& kernels) : machine_(machine), kernels_(kernels) {}

    Status build() {
        for (const Link& link : machine_.design.links) TRY(add_link(link));
        for (const Fifo& fifo : machine_.design.fifos) TRY(add_fifo(fifo));
        for (const Worker& worker : machine_.design.workers) {
            machine_.cores.push_back(
                TRY(Core::make(machine_.design, worker, kernels_, ends_[worker.tile], *machine_.array)));
        }
        for (const Transfer& transfer : machine_.design.sequence.transfers) TRY(add_transfer(transfer));
        machine_.steps = host_schedule(machine_.design, *machine_.array);
        return Ok{};
    }

  private:
    // Where a FIFO meets a link: which of the pool's writers or readers it is, and where its part begins.
    struct Meeting {
        Pool* pool = nullptr;
        size_t index = 0;
        int64_t offset_bytes = 0;
    };

    Pool& add_pool(const Fifo& fifo, Tile tile, size_t writers, size_t readers) {
        machine_.pools.push_back(std::make_unique<Pool>(fifo, tile, writers, readers));
        return *machine_.pools.back();
    }

    Result<const Fifo*> fifo_named(const std::string& name) const {
        const Fifo* fifo = find_fifo(machine_.design, name);
        if (fifo == nullptr) return fail("design '{}' has no FIFO '{}'", machine_.design.name, name);
        return fifo;
    }

    Status add_link(const Link& link) {
        if (link.from.empty() || link.to.empty() || std::min(link.from.size(), link.to.size()) > 1)
            return fail("design '{}': a link takes one FIFO to one, one to several or several to one",
                        machine_.design.name);
        const bool joins = link.from.size() > 1;
        const Fifo* whole = TRY(fifo_named(joins ? link.to[0] : link.from[0]));
        const Fifo* after = TRY(fifo_named(link.to[0]));
        Pool& pool = add_pool(*whole, after->producer, link.from.size(), link.to.size());
        TRY(add_parts(link, link.from, joins, pool, link_in_));
        TRY(add_parts(link, link.to, link.to.size() > 1, pool, link_out_));
        return Ok{};
    }

    Status add_parts(const Link& link, const std::vector<std::string>& names, bool cut, Pool& pool,
                     std::map<std::string, Meeting>& parts) {
        for (size_t i = 0; i < names.size(); ++i) {
            const Fifo* fifo = TRY(fifo_named(names[i]));
            if (cut && link.offsets.size() != names.size())
                return fail("design '{}': the link of FIFO '{}' has {} offsets for {} parts", machine_.design.name,
                            names[i], link.offsets.size(), names.size());
            const int64_t offset_bytes = cut ? link.offsets[i] * size_bytes(fifo->object.element) : 0;
            const int64_t whole_bytes = pool.fifo().object.size_bytes();
            if (offset_bytes < 0 || offset_bytes + fifo->object.size_bytes() > whole_bytes)
                return fail("design '{}': objects of FIFO '{}' do not lie within those of '{}'", machine_.design.name,
                            names[i], pool.fifo().name);
            parts[names[i]] = {&pool, i, offset_bytes};
        }
        return Ok{};
    }

    Status add_fifo(const Fifo& fifo) {
        if (fifo.depth < 1 || fifo.object.count < 1)
            return fail("design '{}': FIFO '{}' holds no objects", machine_.design.name, fifo.name);
        if (shares_memory(fifo, *machine_.array)) {
            Pool& pool = add_pool(fifo, shared_tile(fifo, *machine_.array), 1, 1);
            ends_[fifo.producer].push_back({.pool = &pool, .index = 0, .produces = true});
            ends_[fifo.consumers[0]].push_back({.pool = &pool, .index = 0, .produces = false});
            return Ok{};
        }
        Stream stream;
        stream.fifo = &fifo;
        stream.parts = TRY(parts_of(fifo, true, fifo.to_stream, "reads"));
        if (const auto link = link_out_.find(fifo.name); link != link_out_.end()) {
            stream.source = link->second.pool;
            stream.reader = link->second.index;
            stream.offset_bytes = link->second.offset_bytes;
        } else if (!is_shim(fifo.producer)) {
            stream.source = &add_pool(fifo, fifo.producer, 1, 1);
            ends_[fifo.producer].push_back({.pool = stream.source, .index = 0, .produces = true});
        }
        for (size_t i = 0; i < fifo.consumers.size(); ++i) TRY(add_consumer(fifo, i, stream));
        if (stream.source == nullptr && stream.sinks.empty())
            return fail("design '{}': FIFO '{}' goes from the host to the host", machine_.design.name, fifo.name);
        machine_.streams.push_back(std::move(stream));
        return Ok{};
    }

    Status add_consumer(const Fifo& fifo, size_t i, Stream& stream) {
        const Tile tile = fifo.consumers[i];
        const Access access = i < fifo.from_stream.size() ? fifo.from_stream[i] : Access{};
        Stream::Sink sink;
        sink.parts = TRY(parts_of(fifo, false, access, "writes"));
        if (sink.parts.size() > 1 && stream.parts.size() > 1)
            return fail("design '{}': FIFO '{}' is joined at one end and distributed at the other",
                        machine_.design.name, fifo.name);
        const auto link = link_in_.find(fifo.name);
        if (is_shim(tile)) {
            if (fifo.consumers.size() > 1)
                return fail("design '{}': FIFO '{}' has the host and others as consumers", machine_.design.name,
                            fifo.name);
            return Ok{};
        }
        if (link != link_in_.end() && tile == link->second.pool->tile()) {
            sink.pool = link->second.pool;
            sink.writer = link->second.index;
            sink.offset_bytes = link->second.offset_bytes;
        } else {
            sink.pool = &add_pool(fifo, tile, 1, 1);
            ends_[tile].push_back({.pool = sink.pool, .index = 0, .produces = false});
        }
        stream.sinks.push_back(sink);
        return Ok{};
    }

    Result<std::vector<PartRuns>> parts_of(const Fifo& fifo, bool producer, const Access& access,
                                           std::string_view verb) const {
        std::vector<PartRuns> parts;
        for (const Part& part : parts_at(machine_.design, fifo, producer)) {
            if (!access.empty() && elements(access) != part.count)
                return fail("design '{}': FIFO '{}' {} {} elements of {}", machine_.design.name, fifo.name, verb,
                            elements(access), part.count);
            const ObjectType type{fifo.object.element, part.count};
            TRY(check_access(access, 0, type, fmt::format("design '{}': FIFO '{}'", machine_.design.name, fifo.name)));
            parts.push_back({part.offset * size_bytes(type.element), Runs(access, type)});
        }
        return parts;
    }

    Status add_transfer(const Transfer& transfer) {
        const Design& design = machine_.design;
        const size_t index = machine_.transfer_runs.size();
        const std::string what =
            fmt::format("design '{}': transfer {} of FIFO '{}'", design.name, index, transfer.fifo);
        if (transfer.argument < 0 || static_cast<size_t>(transfer.argument) >= design.sequence.arguments.size())
            return fail("{} is of argument {}, which there is none of", what, transfer.argument);
        const HostArgument& argument = design.sequence.arguments[static_cast<size_t>(transfer.argument)];
        const auto stream = std::find_if(machine_.streams.begin(), machine_.streams.end(),
                                         [&](const Stream& have) { return have.fifo->name == transfer.fifo; });
        if (stream == machine_.streams.end() || (stream->source != nullptr && !stream->sinks.empty()))
            return fail("{}: the host is at no end of it", what);
        TRY(check_access(transfer.access, transfer.offset, argument.type,
                         fmt::format("{} of argument '{}'", what, argument.name)));
        const Runs runs(transfer.access, argument.type);
        const int64_t object_bytes = stream->fifo->object.size_bytes();
        if (runs.size_bytes() % object_bytes != 0)
            return fail("{} moves {} bytes, no whole objects of {}", what, runs.size_bytes(), object_bytes);
        machine_.transfer_runs.push_back(runs);
        machine_.transfer_streams.push_back(static_cast<size_t>(stream - machine_.streams.begin()));
        return Ok{};
    }

    Machine& machine_;
    const KernelFinder& kernels_;
    std::map<std::string, Meeting> link_in_;
    std::map<std::string, Meeting> link_out_;
    std::map<Tile, std::vector<Core::End>> ends_;
};

}  // namespace

Result<std::unique_ptr<Machine>> Machine::make(Design design, const KernelFinder& kernels) {
    auto machine = std::make_unique<Machine>();
    machine->array = find_array(design.array);
    if (machine->array == nullptr) return fail("design '{}': there is no array '{}'", design.name, design.array);
    machine->design = std::move(design);
    TRY(Builder(*machine, kernels).build());
    return machine;
}

}  // namespace tandem::npu
