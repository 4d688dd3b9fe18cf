#include "plan/hybrid.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "device/host_memory.h"
#include "graph/memory_plan.h"
#include "graph/segment.h"
#include "plan/cost.h"
#include "plan/micro_batch.h"
#include "plan/pipeline.h"

namespace tandem::plan {

namespace {

// The two devices, for as long as anything compiled for them lives.
struct Devices {
    std::unique_ptr<device::Backend> main;
    std::unique_ptr<device::Backend> npu;
    HybridOptions options;
    std::atomic<bool> npu_failed = false;
    std::atomic<bool> npu_used = false;     // something was compiled for both
    std::atomic<bool> npu_spurned = false;  // something was compiled that is faster without it
    std::atomic<bool> left_noted = false;

    device::Backend& of(int device) const { return device == kNpu ? *npu : *main; }

    void give_up_npu(const Error& why) {
        npu_failed = true;
        if (!options.note) return;
        options.note(
            fmt::format("{} failed ({}); {} goes on alone", npu->describe().name, why.message, main->describe().name));
    }

    void note_left(const graph::Program& program, const Placement& placement) {
        if (!options.note || !options.obstacle) return;
        const std::vector<std::string> lines = describe_left(program, placement, options.obstacle);
        if (lines.empty() || left_noted.exchange(true)) return;
        for (const std::string& line : lines)
            options.note(fmt::format("{} keeps of {}: {}", main->describe().name, name(placement.policy), line));
    }
};

struct CompileArguments {
    const graph::Program& program;
    const graph::Weights& weights;
    std::shared_ptr<device::KvCache> cache;
    const device::CompileOptions& options;
};

// What one micro-batch needs on its way: memory for the values that cross, and executables over it.
struct Slot {
    device::HostBuffer memory;
    std::vector<device::SharedValue> shared;
    std::vector<std::unique_ptr<device::Executable>> executables;  // per segment
};

// Where a result of the whole is made.
struct ResultPlace {
    int segment = 0;
    size_t index = 0;  // among the segment's results
    size_t row_bytes = 0;
    std::vector<std::byte> bytes;  // of the last step
};

// Not only of those that bring a prompt.
bool of_every_step(Policy policy) {
    return policy == Policy::npu_alone;
}

// Where the NPU has every step nothing overlaps, so that many rows at once are best: weights are read once for them.
int rows_at_once(const HybridOptions& options, int64_t step_rows) {
    if (!of_every_step(options.policy)) return micro_rows(step_rows, options.micro_rows);
    return static_cast<int>(std::min<int64_t>(step_rows, options.micro_rows));
}

bool brings_prompt(const device::Batch& batch) {
    return std::any_of(batch.sequences.begin(), batch.sequences.end(),
                       [](const device::SequenceRows& rows) { return rows.rows > 1; });
}

class HybridExecutable final : public device::Executable {
  public:
    explicit HybridExecutable(std::shared_ptr<Devices> devices) : devices_(std::move(devices)) {}

    Status prepare(const CompileArguments& arguments, const Placement& placement, int min_rows);

    int max_steps() const override { return of_every_step(devices_->options.policy) ? 1 : whole_->max_steps(); }
    // Then the main device and the cache are sound. If it is not strict no step fails so.
    bool sound_after_failure() const override { return failed_by_npu_; }
    Status submit(const device::Batch& batch, const device::FindAllowed& find_allowed) override;
    Status wait() override;
    std::span<const std::byte> result(size_t index) const override {
        return together_ ? std::span<const std::byte>(results_[index].bytes) : whole_->result(index);
    }
    Result<std::vector<device::StageTime>> profile(const device::Batch& batch) override {
        return whole_->profile(batch);
    }

  private:
    Status prepare_slot(const CompileArguments& arguments, Slot& slot);
    std::vector<std::string> results_of(const graph::Segment& segment) const;
    void find_results();
    bool can_run_together(const device::Batch& batch) const;
    Status run_together(const device::Batch& batch, const device::FindAllowed& find_allowed);
    Status run_task(Task task, const std::vector<MicroBatch>& parts, const device::FindAllowed& find_allowed);
    void keep_results(Task task, const MicroBatch& part);

    std::shared_ptr<Devices> devices_;
    std::shared_ptr<device::KvCache> cache_;
    std::unique_ptr<device::Executable> whole_;  // on the main device: short steps, and when the NPU fails
    std::vector<std::string> wanted_;
    graph::Extents limits_;  // of a micro-batch
    int min_rows_ = 0;
    std::vector<graph::Segment> segments_;
    std::vector<int> device_of_segment_;
    std::array<Slot, kSlots> slots_;
    std::vector<ResultPlace> results_;
    bool together_ = false;  // the last step was run by both
    bool measured_ = false;  // its time says something of `auto`
    int64_t rows_ = 0;       // of it
    Timeline::Clock::time_point begin_;
    bool failed_by_npu_ = false;  // the last step
};

Status HybridExecutable::prepare(const CompileArguments& arguments, const Placement& placement, int min_rows) {
    whole_ = TRY(devices_->main->compile(arguments.program, arguments.weights, arguments.cache, arguments.options));
    cache_ = arguments.cache;
    wanted_ = arguments.options.results;
    const graph::Program program = graph::keep_results(arguments.program, wanted_);
    min_rows_ = min_rows;
    const int64_t rows = rows_at_once(devices_->options, arguments.options.limits.tokens);
    limits_ = {.tokens = rows, .outputs = std::min(rows, arguments.options.limits.outputs)};
    segments_ = graph::cut(program, place(program, placement, *devices_->npu));
    for (const graph::Segment& segment : segments_) device_of_segment_.push_back(segment.device);
    for (Slot& slot : slots_) TRY(prepare_slot(arguments, slot));
    find_results();
    return Ok{};
}

// Crossing values are named in it; results that nobody asked for are not.
std::vector<std::string> HybridExecutable::results_of(const graph::Segment& segment) const {
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

// Values that never cross at once lie in the same pages. One without bytes only orders.
Status HybridExecutable::prepare_slot(const CompileArguments& arguments, Slot& slot) {
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
    for (const graph::Segment& segment : segments_) {
        slot.executables.push_back(
            TRY(devices_->of(segment.device)
                    .compile(segment.program, arguments.weights, arguments.cache,
                             {.limits = limits_, .results = results_of(segment), .shared = slot.shared})));
    }
    return Ok{};
}

void HybridExecutable::find_results() {
    for (const std::string& name : wanted_) {
        for (size_t s = 0; s < segments_.size(); ++s) {
            const auto& made = segments_[s].program.results;
            const auto found =
                std::find_if(made.begin(), made.end(), [&](const auto& result) { return result.name == name; });
            if (found == made.end()) continue;
            const graph::TensorType& type = segments_[s].program.value(found->value).type;
            results_.push_back({.segment = static_cast<int>(s),
                                .index = static_cast<size_t>(found - made.begin()),
                                .row_bytes = type.size_bytes({.tokens = 1, .outputs = 1}),
                                .bytes = {}});
        }
    }
    CHECK(results_.size() == wanted_.size(), "every result is made by one segment");
}

bool HybridExecutable::can_run_together(const device::Batch& batch) const {
    return !devices_->npu_failed && batch.steps == 1 && std::ssize(batch.tokens) >= min_rows_ &&
           (of_every_step(devices_->options.policy) || brings_prompt(batch));
}

Status HybridExecutable::wait() {
    Status done = together_ ? Status(Ok{}) : whole_->wait();
    if (measured_ && done) {
        const double seconds = std::chrono::duration<double>(Timeline::Clock::now() - begin_).count();
        devices_->options.learned->add(rows_, together_, seconds);
    }
    measured_ = false;
    return done;
}

Status HybridExecutable::submit(const device::Batch& batch, const device::FindAllowed& find_allowed) {
    failed_by_npu_ = false;
    together_ = can_run_together(batch);
    const Learned* const learned = devices_->options.learned.get();
    measured_ = together_ && learned != nullptr;
    rows_ = std::ssize(batch.tokens);
    begin_ = Timeline::Clock::now();
    if (measured_) together_ = learned->together(rows_);
    if (!together_) return whole_->submit(batch, find_allowed);
    // Each micro-batch asks for its own draws, and all are found at once. Only the main device draws, so that one
    // thread asks.
    bool found = false;
    return run_together(batch, [&] {
        if (!found && find_allowed) find_allowed();
        found = true;
    });
}

Status HybridExecutable::run_together(const device::Batch& batch, const device::FindAllowed& find_allowed) {
    for (ResultPlace& result : results_) result.bytes.assign(result.row_bytes * batch.output_rows.size(), std::byte{0});
    TRY(cache_->settle());
    const std::vector<MicroBatch> parts = split(batch, rows_at_once(devices_->options, std::ssize(batch.tokens)));
    PipelineOrder order(static_cast<int>(parts.size()), device_of_segment_, kSlots);
    std::optional<PipelineFailure> failure =
        run_pipeline(order, [&](Task task) { return run_task(task, parts, find_allowed); });
    if (!failure) return Ok{};
    failed_by_npu_ = failure->device == kNpu;
    if (!failed_by_npu_ || devices_->options.strict) return std::move(failure->error);
    devices_->give_up_npu(failure->error);
    measured_ = false;
    together_ = false;  // what was written into the cache so far is written again
    return whole_->submit(batch, find_allowed);
}

Status HybridExecutable::run_task(Task task, const std::vector<MicroBatch>& parts,
                                  const device::FindAllowed& find_allowed) {
    const MicroBatch& part = parts[static_cast<size_t>(task.micro_batch)];
    const graph::Segment& segment = segments_[static_cast<size_t>(task.segment)];
    device::Executable& executable =
        *slots_[static_cast<size_t>(task.micro_batch) % kSlots].executables[static_cast<size_t>(task.segment)];
    const auto begin = Timeline::Clock::now();
    TRY(device::run(executable, part.batch, find_allowed));
    if (devices_->options.timeline) {
        devices_->options.timeline->add(devices_->of(segment.device).describe().name,
                                        fmt::format("segment {}, micro-batch {} ({} rows)", task.segment,
                                                    task.micro_batch, part.batch.tokens.size()),
                                        begin, Timeline::Clock::now());
    }
    keep_results(task, part);
    return Ok{};
}

void HybridExecutable::keep_results(Task task, const MicroBatch& part) {
    const Slot& slot = slots_[static_cast<size_t>(task.micro_batch) % kSlots];
    for (ResultPlace& result : results_) {
        if (result.segment != task.segment) continue;
        const std::span<const std::byte> made =
            slot.executables[static_cast<size_t>(task.segment)]->result(result.index);
        for (size_t i = 0; i < part.outputs.size(); ++i) {
            std::memcpy(result.bytes.data() + part.outputs[i] * result.row_bytes, made.data() + i * result.row_bytes,
                        result.row_bytes);
        }
    }
}

class HybridBackend final : public device::Backend {
  public:
    HybridBackend(std::unique_ptr<device::Backend> main, std::unique_ptr<device::Backend> npu, HybridOptions options)
        : devices_(std::make_shared<Devices>()) {
        devices_->main = std::move(main);
        devices_->npu = std::move(npu);
        devices_->options = std::move(options);
    }

    // Reports ask when something has run: it says who did.
    device::Description describe() const override {
        device::Description now = devices_->main->describe();
        const device::Description second = devices_->npu->describe();
        const Policy policy = devices_->options.policy;
        if (policy != Policy::main_only) now.step_rows = kMicroBatches * devices_->options.micro_rows;
        const Learned* const learned = devices_->options.learned.get();
        if (!devices_->npu_failed && learned != nullptr && learned->given_up()) {
            now.details += fmt::format("; placement auto: measured to be faster without the {}", second.name);
            return now;
        }
        if (devices_->npu_failed) {
            now.name += fmt::format(" ({} failed)", second.name);
        } else if (devices_->npu_spurned && !devices_->npu_used) {
            now.details += fmt::format("; placement auto: faster without the {}", second.name);
        } else {
            now.name += " + " + second.name;
            now.hardware += " + " + second.hardware;
            now.details += fmt::format("; {}: {}; placement {}", second.name, second.details, name(policy));
        }
        return now;
    }

    bool supports(const graph::Program& program, const graph::Node& node) const override {
        return devices_->main->supports(program, node);
    }

    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape shape) override {
        shape.shared = true;
        return devices_->main->make_cache(std::move(shape));
    }

    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override;

  private:
    struct Choice {
        Placement placement;
        int min_rows = 2;
    };
    Choice choose(const graph::Program& program, const device::KvCache& cache, int64_t rows) const;

    std::shared_ptr<Devices> devices_;
};

// A placement that is asked for by name is taken for every prompt; `auto` finds from how many rows on it pays.
HybridBackend::Choice HybridBackend::choose(const graph::Program& program, const device::KvCache& cache,
                                            int64_t rows) const {
    const HybridOptions& options = devices_->options;
    Choice choice{.placement = {.policy = options.policy, .npu_layers = options.npu_layers},
                  .min_rows = std::max(of_every_step(options.policy) ? 1 : 2, options.min_rows)};
    const bool layers_missing = options.policy == Policy::npu_prefill && options.npu_layers == 0;
    if (options.policy != Policy::automatic && !layers_missing) return choice;
    const Machine machine{.main = options.main_rates ? options.main_rates() : device::Rates{},
                          .npu = devices_->npu.get()};
    ChunkShape chunk{
        .rows = static_cast<int>(rows), .past = 0, .micro_rows = options.micro_rows, .kv_dtype = cache.shape().dtype};
    if (layers_missing) {
        choice.placement = best_npu_prefill(program, chunk, machine).placement;
        return choice;
    }
    choice.placement = best_placement(program, chunk, machine).placement;
    if (choice.placement.policy == Policy::main_only || options.min_rows > 0) return choice;
    const auto pays = [&](int count) {
        chunk.rows = count;
        return plan::predict(program, choice.placement, chunk, machine).seconds <
               plan::predict(program, {.policy = Policy::main_only}, chunk, machine).seconds;
    };
    choice.min_rows = static_cast<int>(rows);
    while (choice.min_rows > 2 && pays(choice.min_rows / 2)) choice.min_rows /= 2;
    return choice;
}

Result<std::unique_ptr<device::Executable>> HybridBackend::compile(const graph::Program& program,
                                                                   const graph::Weights& weights,
                                                                   std::shared_ptr<device::KvCache> cache,
                                                                   const device::CompileOptions& options) {
    if (devices_->options.policy == Policy::main_only || devices_->npu_failed || cache == nullptr ||
        (options.limits.tokens < 2 && !of_every_step(devices_->options.policy)))
        return devices_->main->compile(program, weights, std::move(cache), options);
    const Choice choice = choose(program, *cache, options.limits.tokens);
    if (choice.placement.policy == Policy::main_only) {
        devices_->npu_spurned = true;
        return devices_->main->compile(program, weights, std::move(cache), options);
    }
    auto executable = std::make_unique<HybridExecutable>(devices_);
    const Status prepared = executable->prepare({program, weights, cache, options}, choice.placement, choice.min_rows);
    if (prepared) {
        devices_->npu_used = true;
        devices_->note_left(program, choice.placement);
        return std::unique_ptr<device::Executable>(std::move(executable));
    }
    if (devices_->options.strict) return prepared.error();
    devices_->give_up_npu(prepared.error());
    return devices_->main->compile(program, weights, std::move(cache), options);
}

}  // namespace

std::unique_ptr<device::Backend> make_hybrid(std::unique_ptr<device::Backend> main,
                                             std::unique_ptr<device::Backend> npu, HybridOptions options) {
    return std::make_unique<HybridBackend>(std::move(main), std::move(npu), std::move(options));
}

}  // namespace tandem::plan
