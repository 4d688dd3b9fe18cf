#include "npu/flow.h"

#include "npu/check_parts.h"

namespace tandem::npu {
namespace {

class FlowFinder {
  public:
    FlowFinder(const Design& design, const Array& array) : design_(design), array_(array) {
        for (const Worker& worker : design.workers) of_round_[worker.tile] = released_objects(worker);
    }

    Result<Flow> find() {
        std::map<std::string, int64_t> moved;
        for (const Transfer& transfer : design_.sequence.transfers) {
            const HostArgument& argument = design_.sequence.arguments[static_cast<size_t>(transfer.argument)];
            moved[transfer.fifo] += elements(transfer.access) * size_bytes(argument.type.element);
        }
        for (const auto& [fifo, bytes] : moved)
            TRY(set(fifo, bytes / find_fifo(design_, fifo)->object.size_bytes(), "the host"));
        for (bool got_on = true; got_on;) {
            const size_t known = flow_.objects.size();
            for (const Link& link : design_.links) TRY(pass_link(link));
            for (const auto& [tile, objects] : of_round_) TRY(pass_core(tile, objects));
            got_on = flow_.objects.size() > known;
        }
        for (const Fifo& fifo : design_.fifos) {
            if (flow_.objects.count(fifo.name) == 0)
                return fail("FIFO '{}' gets no object from {}", fifo.name, describe(array_, fifo.producer));
        }
        return std::move(flow_);
    }

  private:
    Status set(const std::string& fifo, int64_t objects, const std::string& by) {
        const auto [known, is_new] = flow_.objects.emplace(fifo, objects);
        if (is_new || known->second == objects) return Ok{};
        return fail("{} moves {} objects of FIFO '{}' in a run, but the other end {}: what is sent must be taken", by,
                    objects, fifo, known->second);
    }

    Status pass_link(const Link& link) {
        for (const auto* names : {&link.from, &link.to}) {
            for (const std::string& name : *names) {
                const auto known = flow_.objects.find(name);
                if (known == flow_.objects.end()) continue;
                const int64_t objects = known->second;
                for (const auto* others : {&link.from, &link.to})
                    for (const std::string& other : *others) TRY(set(other, objects, "a mem tile"));
            }
        }
        return Ok{};
    }

    Status pass_core(Tile tile, const std::map<std::string, int64_t>& of_round) {
        for (const auto& [fifo, released] : of_round) {
            const auto known = flow_.objects.find(fifo);
            if (known == flow_.objects.end()) continue;
            if (known->second % released != 0)
                return fail("FIFO '{}' has {} objects in a run, but a round of {} takes {}: what is sent must be taken",
                            fifo, known->second, describe(array_, tile), released);
            const int64_t rounds = known->second / released;
            flow_.rounds[tile] = rounds;
            for (const auto& [other, count] : of_round) TRY(set(other, rounds * count, describe(array_, tile)));
        }
        return Ok{};
    }

    const Design& design_;
    const Array& array_;
    std::map<Tile, std::map<std::string, int64_t>> of_round_;
    Flow flow_;
};

}  // namespace

Result<Flow> flow_of(const Design& design, const Array& array) {
    return FlowFinder(design, array).find();
}

}  // namespace tandem::npu
