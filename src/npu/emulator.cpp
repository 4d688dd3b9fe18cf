#include "npu/emulator.h"

#include <algorithm>
#include <numeric>

#include "npu/machine.h"

namespace tandem::npu {
namespace {

constexpr size_t kMaxNamed = 6;  // of those that wait, in a message

// One run: hands out the transfers in order and lets everything have its turn until nothing is left to do.
class Run {
  public:
    Run(Machine& machine, std::span<const std::span<std::byte>> arguments)
        : machine_(machine), arguments_(arguments), ended_(machine.transfer_runs.size(), false) {}

    Status run() {
        for (bool got_on = true; got_on;) {
            got_on = hand_out();
            for (Stream& stream : machine_.streams) {
                just_ended_.clear();
                got_on |= stream.step(just_ended_);
                for (const size_t transfer : just_ended_) ended_[transfer] = true;
            }
            for (Core& core : machine_.cores) got_on |= TRY(core.run());
        }
        if (!done()) return fail("design '{}' cannot go on: {}", machine_.design.name, who_waits());
        return check_nothing_left();
    }

  private:
    const std::vector<Transfer>& transfers() const { return machine_.design.sequence.transfers; }

    bool waits() const { return next_ > 0 && transfers()[next_ - 1].wait && !ended_[next_ - 1]; }

    bool hand_out() {
        bool got_on = false;
        for (; next_ < transfers().size() && !waits(); ++next_) {
            const Transfer& transfer = transfers()[next_];
            const auto argument = static_cast<size_t>(transfer.argument);
            const int64_t offset_bytes =
                transfer.offset * size_bytes(machine_.design.sequence.arguments[argument].type.element);
            const Runs& runs = machine_.transfer_runs[next_];
            machine_.streams[machine_.transfer_streams[next_]].transfers.push_back(
                {.index = next_,
                 .cursor = AccessCursor(runs, arguments_[argument].data() + offset_bytes),
                 .left_bytes = runs.size_bytes()});
            got_on = true;
        }
        return got_on;
    }

    bool done() const {
        return next_ == transfers().size() && std::all_of(ended_.begin(), ended_.end(), [](bool e) { return e; }) &&
               std::all_of(machine_.cores.begin(), machine_.cores.end(), [](const Core& core) { return core.ended(); });
    }

    std::string who_waits() const {
        std::vector<std::string> names;
        for (const Core& core : machine_.cores) {
            if (!core.ended()) names.push_back(core.waits_for());
        }
        for (const Stream& stream : machine_.streams) {
            if (stream.transfers.empty()) continue;
            names.push_back(fmt::format("transfer {} waits for {} FIFO '{}'", stream.transfers.front().index,
                                        stream.source == nullptr ? "space in" : "an object of", stream.fifo->name));
        }
        if (waits()) names.push_back(fmt::format("the sequence waits for transfer {}", next_ - 1));
        const size_t shown = std::min(names.size(), kMaxNamed);
        std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<long>(shown), "; "));
        if (names.size() > shown) text += fmt::format("; and {} more", names.size() - shown);
        return text;
    }

    Status check_nothing_left() const {
        for (const auto& pool : machine_.pools) {
            if (pool->left_behind() > 0)
                return fail("design '{}' leaves {} objects of FIFO '{}' in tile {}", machine_.design.name,
                            pool->left_behind(), pool->fifo().name, text(pool->tile()));
        }
        return Ok{};
    }

    Machine& machine_;
    std::span<const std::span<std::byte>> arguments_;
    std::vector<bool> ended_;
    std::vector<size_t> just_ended_;
    size_t next_ = 0;
};

Status check_arguments(const Design& design, std::span<const std::span<std::byte>> arguments) {
    const std::vector<HostArgument>& wanted = design.sequence.arguments;
    if (arguments.size() != wanted.size())
        return fail("design '{}' takes {} buffers and got {}", design.name, wanted.size(), arguments.size());
    for (size_t i = 0; i < wanted.size(); ++i) {
        if (arguments[i].size() < static_cast<uint64_t>(wanted[i].type.size_bytes()))
            return fail("design '{}': buffer '{}' has {} bytes and needs {}", design.name, wanted[i].name,
                        arguments[i].size(), wanted[i].type.size_bytes());
    }
    return Ok{};
}

Activity activity_of(const Machine& machine) {
    Activity activity;
    activity.tiles.reserve(machine.cores.size());
    for (const Core& core : machine.cores) activity.tiles.push_back(core.activity());
    activity.streams.reserve(machine.streams.size());
    for (const Stream& stream : machine.streams) activity.add_stream(*stream.fifo, stream.objects);
    return activity;
}

}  // namespace

Emulator::Emulator(std::unique_ptr<Machine> machine) : machine_(std::move(machine)) {}
Emulator::Emulator(Emulator&&) noexcept = default;
Emulator& Emulator::operator=(Emulator&&) noexcept = default;
Emulator::~Emulator() = default;

Result<Emulator> Emulator::make(Design design, const KernelFinder& kernels) {
    std::unique_ptr<Machine> machine = TRY(Machine::make(std::move(design), kernels));
    return Emulator(std::move(machine));
}

const Design& Emulator::design() const {
    return machine_->design;
}

Result<Activity> Emulator::run(std::span<const std::span<std::byte>> arguments) {
    TRY(check_arguments(machine_->design, arguments));
    for (const auto& pool : machine_->pools) pool->reset();
    for (Core& core : machine_->cores) core.reset();
    for (Stream& stream : machine_->streams) {
        stream.transfers.clear();
        stream.objects = 0;
    }
    TRY(Run(*machine_, arguments).run());
    return activity_of(*machine_);
}

}  // namespace tandem::npu
