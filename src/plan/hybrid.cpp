#include "plan/hybrid.h"

#include <algorithm>
#include <atomic>

#include "graph/segment.h"
#include "plan/cost.h"
#include "plan/micro_batch.h"
#include "plan/relay.h"

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

// Not only of those that bring a prompt.
bool of_every_step(Policy policy) {
    return policy == Policy::npu_alone;
}

// Where the NPU has every step nothing overlaps, so that many rows at once are best: weights are read once for them.
int rows_at_once(const HybridOptions& options, int64_t step_rows) {
    if (!of_every_step(options.policy)) return micro_rows(step_rows, options.micro_rows);
    return static_cast<int>(std::min<int64_t>(step_rows, options.micro_rows));
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
        return together_ ? relay_->result(index) : whole_->result(index);
    }
    Result<std::vector<device::StageTime>> profile(const device::Batch& batch) override {
        return whole_->profile(batch);
    }

  private:
    bool can_run_together(const device::Batch& batch) const;
    Status run_together(const device::Batch& batch, const device::FindAllowed& find_allowed);

    std::shared_ptr<Devices> devices_;
    std::shared_ptr<device::KvCache> cache_;
    std::unique_ptr<device::Executable> whole_;  // on the main device: short steps, and when the NPU fails
    std::unique_ptr<Relay> relay_;               // on both
    int min_rows_ = 0;
    bool together_ = false;  // the last step was run by both
    bool measured_ = false;  // its time says something of `auto`
    int64_t rows_ = 0;       // of it
    Timeline::Clock::time_point begin_;
    bool failed_by_npu_ = false;  // the last step
};

Status HybridExecutable::prepare(const CompileArguments& arguments, const Placement& placement, int min_rows) {
    whole_ = TRY(devices_->main->compile(arguments.program, arguments.weights, arguments.cache, arguments.options));
    cache_ = arguments.cache;
    const graph::Program program = graph::keep_results(arguments.program, arguments.options.results);
    min_rows_ = min_rows;
    const int64_t rows = rows_at_once(devices_->options, arguments.options.limits.tokens);
    auto relay = Relay::compile(
        {.segments = graph::cut(program, place(program, placement, *devices_->npu)),
         .devices = {{devices_->main.get(), cache_}, {devices_->npu.get(), cache_}},
         .weights = arguments.weights,
         .options = {.limits = {.tokens = rows, .outputs = std::min(rows, arguments.options.limits.outputs)},
                     .results = arguments.options.results},
         .timeline = devices_->options.timeline});
    if (!relay) return std::move(relay).error().error;
    relay_ = std::move(*relay);
    return Ok{};
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
    return run_together(batch, find_allowed);
}

Status HybridExecutable::run_together(const device::Batch& batch, const device::FindAllowed& find_allowed) {
    TRY(cache_->settle());
    std::optional<PipelineFailure> failure =
        relay_->run(batch, rows_at_once(devices_->options, std::ssize(batch.tokens)), find_allowed);
    if (!failure) return Ok{};
    failed_by_npu_ = failure->device == kNpu;
    if (!failed_by_npu_ || devices_->options.strict) return std::move(failure->error);
    devices_->give_up_npu(failure->error);
    measured_ = false;
    together_ = false;  // what was written into the cache so far is written again
    return whole_->submit(batch, find_allowed);
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
