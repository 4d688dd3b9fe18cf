#include "npu/emulator.h"

#include <algorithm>
#include <numeric>

#include "npu/machine.h"

namespace tandem::npu {
namespace {

constexpr size_t kMaxNamed = 6;  // of those that wait, in a message

// One run: does what the host does, step by step, and lets everything have its turn in between. The run ends with the
// host's last step, as it does on the device: what has not arrived by then is missing.
class Run {
  public:
    Run(Machine& machine, std::span<const std::span<std::byte>> arguments)
        : machine_(machine), arguments_(arguments), ended_(machine.transfer_runs.size(), false) {}

    Status run() {
        for (bool got_on = true; got_on;) {
            got_on = TRY(run_host());
            if (next_ == machine_.steps.size()) break;
            for (Stream& stream : machine_.streams) {
                just_ended_.clear();
                got_on |= stream.step(just_ended_);
                for (const size_t transfer : just_ended_) ended_[transfer] = true;
            }
            for (Core& core : machine_.cores) got_on |= TRY(core.run());
        }
        if (next_ < machine_.steps.size())
            return fail("design '{}' cannot go on: {}", machine_.design.name, who_waits());
        TRY(check_arrived());
        return check_nothing_left();
    }

  private:
    const std::vector<Transfer>& transfers() const { return machine_.design.sequence.transfers; }
    Stream& stream_of(size_t transfer) { return machine_.streams[machine_.transfer_streams[transfer]]; }

    // Steps up to a wait for a token that is not there yet.
    Result<bool> run_host() {
        bool got_on = false;
        for (; next_ < machine_.steps.size(); ++next_) {
            const HostStep& step = machine_.steps[next_];
            Stream& stream = stream_of(step.transfer);
            if (step.kind == HostStep::Kind::wait && stream.tokens == 0) break;
            if (step.kind == HostStep::Kind::wait)
                --stream.tokens;
            else
                TRY(issue(step, stream));
            got_on = true;
        }
        return got_on;
    }

    Status issue(const HostStep& step, Stream& stream) {
        const Transfer& transfer = transfers()[step.transfer];
        for (const ActiveTransfer& other : stream.transfers) {
            if (other.descriptor == step.descriptor)
                return fail("design '{}': transfer {} takes descriptor {}, which transfer {} still uses",
                            machine_.design.name, step.transfer, step.descriptor, other.index);
        }
        const auto argument = static_cast<size_t>(transfer.argument);
        const int64_t offset_bytes =
            transfer.offset * size_bytes(machine_.design.sequence.arguments[argument].type.element);
        const Runs& runs = machine_.transfer_runs[step.transfer];
        stream.transfers.push_back({.index = step.transfer,
                                    .descriptor = step.descriptor,
                                    .token = step.token || goes_to_host(machine_.design, transfer),
                                    .cursor = AccessCursor(runs, arguments_[argument].data() + offset_bytes),
                                    .left_bytes = runs.size_bytes()});
        return Ok{};
    }

    Status check_arrived() const {
        for (size_t i = 0; i < ended_.size(); ++i) {
            if (!ended_[i])
                return fail(
                    "design '{}': the run ends before transfer {} of FIFO '{}' is done: the host has to wait for it",
                    machine_.design.name, i, transfers()[i].fifo);
        }
        for (const Core& core : machine_.cores) {
            if (!core.idle())
                return fail("design '{}' ends in the middle of a round: {}", machine_.design.name, core.waits_for());
        }
        return Ok{};
    }

    std::string who_waits() const {
        std::vector<std::string> names;
        for (const Core& core : machine_.cores) {
            if (core.is_stuck()) names.push_back(core.waits_for());
        }
        for (const Stream& stream : machine_.streams) {
            if (stream.transfers.empty()) continue;
            names.push_back(fmt::format("transfer {} waits for {} FIFO '{}'", stream.transfers.front().index,
                                        stream.source == nullptr ? "space in" : "an object of", stream.fifo->name));
        }
        names.push_back(fmt::format("the sequence waits for transfer {}", machine_.steps[next_].transfer));
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
    size_t next_ = 0;  // step of the host
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

Result<Emulator> Emulator::make(Design design, const KernelFinder& kernels, std::vector<HostStep> steps) {
    std::unique_ptr<Machine> machine = TRY(Machine::make(std::move(design), kernels));
    if (!steps.empty()) machine->steps = std::move(steps);
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
        stream.tokens = 0;
        stream.objects = 0;
    }
    TRY(Run(*machine_, arguments).run());
    return activity_of(*machine_);
}

}  // namespace tandem::npu
