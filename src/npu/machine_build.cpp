#include <algorithm>
#include <map>

#include "npu/check.h"
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
        const Design& design = machine_.design;
        for (const Link& link : design.links) add_link(link);
        for (const Fifo& fifo : design.fifos) add_fifo(fifo);
        for (const Worker& worker : design.workers)
            machine_.cores.push_back(TRY(Core::make(design, worker, kernels_, ends_[worker.tile], *machine_.array)));
        for (const Transfer& transfer : design.sequence.transfers) add_transfer(transfer);
        machine_.steps = host_schedule(design, *machine_.array);
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

    void add_link(const Link& link) {
        const Fifo& after = *find_fifo(machine_.design, link.to[0]);
        const Fifo& whole = link.from.size() > 1 ? after : *find_fifo(machine_.design, link.from[0]);
        Pool& pool = add_pool(whole, after.producer, link.from.size(), link.to.size());
        const auto add_parts = [&](const std::vector<std::string>& names, std::map<std::string, Meeting>& parts) {
            for (size_t i = 0; i < names.size(); ++i) {
                const int64_t offset = names.size() > 1 ? link.offsets[i] : 0;
                parts[names[i]] = {&pool, i, offset * size_bytes(whole.object.element)};
            }
        };
        add_parts(link.from, link_in_);
        add_parts(link.to, link_out_);
    }

    void add_fifo(const Fifo& fifo) {
        if (shares_memory(fifo, *machine_.array)) {
            Pool& pool = add_pool(fifo, shared_tile(fifo, *machine_.array), 1, 1);
            ends_[fifo.producer].push_back({.pool = &pool, .index = 0, .produces = true});
            ends_[fifo.consumers[0]].push_back({.pool = &pool, .index = 0, .produces = false});
            return;
        }
        Stream stream;
        stream.fifo = &fifo;
        stream.parts = parts_of(fifo, true, fifo.to_stream);
        if (const auto link = link_out_.find(fifo.name); link != link_out_.end()) {
            stream.source = link->second.pool;
            stream.reader = link->second.index;
            stream.offset_bytes = link->second.offset_bytes;
        } else if (!is_shim(fifo.producer)) {
            stream.source = &add_pool(fifo, fifo.producer, 1, 1);
            ends_[fifo.producer].push_back({.pool = stream.source, .index = 0, .produces = true});
        }
        for (size_t i = 0; i < fifo.consumers.size(); ++i)
            if (!is_shim(fifo.consumers[i])) add_consumer(fifo, i, stream);
        machine_.streams.push_back(std::move(stream));
    }

    void add_consumer(const Fifo& fifo, size_t i, Stream& stream) {
        const Tile tile = fifo.consumers[i];
        Stream::Sink sink;
        sink.parts = parts_of(fifo, false, i < fifo.from_stream.size() ? fifo.from_stream[i] : Access{});
        const auto link = link_in_.find(fifo.name);
        if (link != link_in_.end() && tile == link->second.pool->tile()) {
            sink.pool = link->second.pool;
            sink.writer = link->second.index;
            sink.offset_bytes = link->second.offset_bytes;
        } else {
            sink.pool = &add_pool(fifo, tile, 1, 1);
            ends_[tile].push_back({.pool = sink.pool, .index = 0, .produces = false});
        }
        stream.sinks.push_back(sink);
    }

    std::vector<PartRuns> parts_of(const Fifo& fifo, bool producer, const Access& access) const {
        std::vector<PartRuns> parts;
        for (const Part& part : parts_at(machine_.design, fifo, producer)) {
            const ObjectType type{fifo.object.element, part.count};
            parts.push_back({part.offset * size_bytes(type.element), Runs(access, type)});
        }
        return parts;
    }

    void add_transfer(const Transfer& transfer) {
        const auto stream = std::find_if(machine_.streams.begin(), machine_.streams.end(),
                                         [&](const Stream& have) { return have.fifo->name == transfer.fifo; });
        const HostArgument& argument = machine_.design.sequence.arguments[static_cast<size_t>(transfer.argument)];
        machine_.transfer_runs.emplace_back(transfer.access, argument.type);
        machine_.transfer_streams.push_back(static_cast<size_t>(stream - machine_.streams.begin()));
    }

    Machine& machine_;
    const KernelFinder& kernels_;
    std::map<std::string, Meeting> link_in_;
    std::map<std::string, Meeting> link_out_;
    std::map<Tile, std::vector<Core::End>> ends_;
};

}  // namespace

Result<std::unique_ptr<Machine>> Machine::make(Design design, const KernelFinder& kernels) {
    TRY(check(design));
    auto machine = std::make_unique<Machine>();
    machine->array = find_array(design.array);
    machine->design = std::move(design);
    TRY(Builder(*machine, kernels).build());
    return machine;
}

}  // namespace tandem::npu
