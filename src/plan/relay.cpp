#include "plan/relay.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "graph/memory_plan.h"
#include "graph/ops.h"

namespace tandem::plan {

namespace {

using Clock = Timeline::Clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
}

// Crossing values are named in it; results that nobody asked for are not.
std::vector<std::string> results_of(const graph::Segment& segment) {
    std::vector<std::string> names;
    for (const graph::NamedResult& result : segment.program.results) names.push_back(result.name);
    return names;
}

// A value that crosses, from the segment that makes it to the last that reads it.
struct Crossing {
    std::string name;
    graph::Lifetime lifetime;
};

std::vector<Crossing> crossings(const std::vector<graph::Segment>& segments, const std::vector<std::string>& wanted,
                                const graph::Extents& limits) {
    std::vector<Crossing> list;
    for (size_t s = 0; s < segments.size(); ++s) {
        const graph::Program& program = segments[s].program;
        for (const graph::NamedResult& result : program.results) {
            if (std::find(wanted.begin(), wanted.end(), result.name) != wanted.end()) continue;
            list.push_back({result.name, {program.value(result.value).type.size_bytes(limits), s, s}});
        }
        for (Crossing& crossing : list) {
            const bool read = std::any_of(program.values.begin(), program.values.end(), [&](const graph::Value& value) {
                return value.kind == graph::Value::Kind::input && value.name == crossing.name;
            });
            if (read) crossing.lifetime.last = s;
        }
    }
    return list;
}

bool is_drawn(const graph::Program& program, graph::ValueId value) {
    return std::any_of(program.nodes.begin(), program.nodes.end(), [&](const graph::Node& node) {
        return node.output == value && node.op.as<op::Sample>() != nullptr;
    });
}

// The part of the progress from `begin` to `end`.
std::function<Status(double)> part_of(const std::function<Status(double)>& progress, double begin, double end) {
    if (!progress) return {};
    return [=](double done) { return progress(begin + done * (end - begin)); };
}

}  // namespace

Relay::Relay(RelayArguments arguments)
    : segments_(std::move(arguments.segments)),
      wanted_(arguments.options.results),
      limits_(arguments.options.limits),
      timeline_(std::move(arguments.timeline)),
      device_times_(arguments.devices.size()) {
    for (const graph::Segment& segment : segments_) device_of_segment_.push_back(segment.device);
    slots_.resize(std::set<int>(device_of_segment_.begin(), device_of_segment_.end()).size());  // one on each at once
    for (const RelayDevice& device : arguments.devices) device_names_.push_back(device.backend->describe().name);
}

Relay::~Relay() = default;

Outcome<std::unique_ptr<Relay>, PipelineFailure> Relay::compile(RelayArguments arguments) {
    std::unique_ptr<Relay> relay(new Relay(arguments));
    for (Slot& slot : relay->slots_) TRY(relay->compile_slot(slot, arguments));
    relay->find_results();
    return relay;
}

// Values that never cross at once lie in the same pages. One without bytes only orders.
Status Relay::place_crossings(Slot& slot) const {
    const std::vector<Crossing> crossing = crossings(segments_, wanted_, limits_);
    std::vector<graph::Lifetime> lifetimes;
    lifetimes.reserve(crossing.size());
    for (const Crossing& each : crossing) lifetimes.push_back(each.lifetime);
    const graph::MemoryPlan memory = graph::place(lifetimes, device::HostBuffer::kPageBytes);
    slot.memory = TRY(device::HostBuffer::allocate(memory.size_bytes, "what the devices hand over",
                                                   "choose a smaller chunk of the prompt"));
    const std::span<std::byte> pages = slot.memory.pages();
    std::fill(pages.begin(), pages.end(), std::byte{0});
    for (size_t i = 0; i < crossing.size(); ++i) {
        const size_t bytes = device::HostBuffer::whole_pages(lifetimes[i].size_bytes);
        slot.shared.push_back(
            {crossing[i].name, bytes == 0 ? std::span<std::byte>() : pages.subspan(memory.offset[i], bytes)});
    }
    return Ok{};
}

// Weights come with the first slot; the others share them.
Outcome<Ok, PipelineFailure> Relay::compile_slot(Slot& slot, const RelayArguments& arguments) {
    if (Status placed = place_crossings(slot); !placed) return PipelineFailure{0, std::move(placed).error()};
    const auto count = static_cast<double>(segments_.size());
    for (size_t s = 0; s < segments_.size(); ++s) {
        const RelayDevice& device = arguments.devices[static_cast<size_t>(segments_[s].device)];
        device::CompileOptions options{.limits = limits_,
                                       .results = results_of(segments_[s]),
                                       .ready = arguments.options.ready,
                                       .shared = slot.shared};
        const auto done = static_cast<double>(s);
        if (&slot == &slots_.front())
            options.progress = part_of(arguments.options.progress, done / count, (done + 1) / count);
        auto compiled = device.backend->compile(segments_[s].program, arguments.weights, device.cache, options);
        if (!compiled) return PipelineFailure{segments_[s].device, std::move(compiled).error()};
        slot.executables.push_back(std::move(*compiled));
    }
    return Ok{};
}

void Relay::find_results() {
    for (const std::string& name : wanted_) {
        for (size_t s = 0; s < segments_.size(); ++s) {
            const graph::Program& program = segments_[s].program;
            const auto found = std::find_if(program.results.begin(), program.results.end(),
                                            [&](const auto& result) { return result.name == name; });
            if (found == program.results.end()) continue;
            results_.push_back({.segment = static_cast<int>(s),
                                .index = static_cast<size_t>(found - program.results.begin()),
                                .row_bytes = program.value(found->value).type.size_bytes({.tokens = 1, .outputs = 1}),
                                .drawn = is_drawn(program, found->value),
                                .bytes = {}});
        }
    }
    CHECK(results_.size() == wanted_.size(), "every result is made by one segment");
}

bool Relay::draws() const {
    return std::any_of(results_.begin(), results_.end(), [](const ResultPlace& result) { return result.drawn; });
}

std::optional<PipelineFailure> Relay::run(const device::Batch& batch, int rows,
                                          const device::FindAllowed& find_allowed) {
    const auto begin = Clock::now();
    outputs_ = batch.output_rows.size();
    rounds_ = batch.steps;
    for (ResultPlace& result : results_) {
        const size_t times = result.drawn ? static_cast<size_t>(rounds_) : 1;
        result.bytes.assign(result.row_bytes * outputs_ * times, std::byte{0});
    }
    std::fill(device_times_.begin(), device_times_.end(), DeviceTime{});
    // Each micro-batch asks for its own draws, and all are found at once. One device draws, so that one thread asks.
    bool found = false;
    const device::FindAllowed find_once = [&] {
        if (!found && find_allowed) find_allowed();
        found = true;
    };
    std::vector<MicroBatch> parts = split(batch, rows);
    PipelineOrder order({.micro_batches = static_cast<int>(parts.size()),
                         .device_of_segment = device_of_segment_,
                         .slots = static_cast<int>(slots_.size()),
                         .rounds = rounds_});
    std::optional<PipelineFailure> failure = run_pipeline(
        order, [&](Task task) { return run_task(task, parts[static_cast<size_t>(task.micro_batch)], find_once); });
    seconds_ = seconds_between(begin, Clock::now());
    return failure;
}

Status Relay::run_task(Task task, MicroBatch& part, const device::FindAllowed& find_allowed) {
    const auto segment = static_cast<size_t>(task.segment);
    const auto device = static_cast<size_t>(device_of_segment_[segment]);
    const auto begin = Clock::now();
    TRY(device::run(*slot_of(task).executables[segment], part.batch, find_allowed));
    const auto end = Clock::now();
    device_times_[device].busy_s += seconds_between(begin, end);
    device_times_[device].tasks += 1;
    if (timeline_) {
        timeline_->add(device_names_[device],
                       fmt::format("segment {}, micro-batch {} ({} rows)", task.segment, task.micro_batch,
                                   part.batch.tokens.size()),
                       begin, end);
    }
    keep_results(task, part);
    if (segment + 1 == segments_.size() && task.round + 1 < rounds_) go_on_with_drawn(task, part);
    return Ok{};
}

void Relay::keep_results(Task task, const MicroBatch& part) {
    for (ResultPlace& result : results_) {
        if (result.segment != task.segment) continue;
        const std::span<const std::byte> made =
            slot_of(task).executables[static_cast<size_t>(task.segment)]->result(result.index);
        const size_t first = result.drawn ? static_cast<size_t>(task.round) * outputs_ : 0;
        for (size_t i = 0; i < part.outputs.size(); ++i) {
            std::memcpy(result.bytes.data() + (first + part.outputs[i]) * result.row_bytes,
                        made.data() + i * result.row_bytes, result.row_bytes);
        }
    }
}

// Every row is an output then, and the one row of its sequence.
void Relay::go_on_with_drawn(Task task, MicroBatch& part) {
    const auto drawn =
        std::find_if(results_.begin(), results_.end(), [](const ResultPlace& result) { return result.drawn; });
    CHECK(drawn != results_.end(), "several steps go on with what they draw");
    const auto* tokens =
        reinterpret_cast<const int32_t*>(drawn->bytes.data()) + static_cast<size_t>(task.round) * outputs_;
    device::Batch& batch = part.batch;
    for (size_t row = 0; row < batch.tokens.size(); ++row) {
        batch.tokens[row] = tokens[part.outputs[row]];
        batch.positions[row] += 1;
        batch.sequences[row].past += 1;
        batch.sampling[row].draw += 1;
    }
}

Result<std::vector<device::StageTime>> Relay::profile(const device::Batch& batch, int rows) {
    std::vector<device::StageTime> times;
    for (const MicroBatch& part : split(batch, rows)) {
        for (size_t s = 0; s < segments_.size(); ++s) {
            const std::string& device = device_names_[static_cast<size_t>(segments_[s].device)];
            for (device::StageTime& time : TRY(slots_.front().executables[s]->profile(part.batch))) {
                time.name = device + " " + time.name;
                times.push_back(std::move(time));
            }
        }
    }
    return times;
}

}  // namespace tandem::plan
