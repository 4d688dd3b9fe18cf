#include "plan/several.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/units.h"
#include "device/step_check.h"
#include "graph/memory_plan.h"
#include "plan/learned.h"
#include "plan/parts.h"
#include "plan/relay.h"

namespace tandem::plan {

namespace {

constexpr int kMostSteps = 16;         // of one batch
constexpr double kMemoryShare = 0.95;  // of what is free: drivers and steps need some that nobody counts

// Which layers are whose: found when a model is first compiled, and the same for all that is compiled of it.
struct Layout {
    std::vector<SplitStage> stages;  // in units of Parts
    std::vector<std::string> texts;  // "layers 0 to 11", of each stage
    int measured_rows = 0;           // of the prompt that the stages' seconds are of; 0: not measured
};

// For as long as anything compiled for them lives.
struct Members {
    std::vector<std::unique_ptr<device::Backend>> list;
    std::vector<std::string> names;
    SeveralOptions options;
    mutable std::mutex mutex;  // of what follows
    std::map<const graph::Weights*, std::weak_ptr<const Layout>> layouts;
    std::weak_ptr<const Layout> last;
};

class SeveralCache final : public device::KvCache {
  public:
    explicit SeveralCache(device::CacheShape shape) : device::KvCache(std::move(shape)) {}

    // Before there are layers there is nothing to copy.
    Status copy_blocks(int group, std::span<const std::pair<int32_t, int32_t>> from_to) override {
        TRY(device::check_copies(shape(), group, from_to));
        for (const auto& part : parts_) {
            if (part) TRY(part->copy_blocks(group, from_to));
        }
        return Ok{};
    }
    Status settle() override {
        for (const auto& part : parts_) {
            if (part) TRY(part->settle());
        }
        return Ok{};
    }

    // The caches of the segments' layers; made with the first Program that is compiled for it.
    Result<std::vector<std::shared_ptr<device::KvCache>>> make(const Members& devices,
                                                               std::shared_ptr<const Layout> layout,
                                                               std::vector<graph::Segment>& segments);

  private:
    std::shared_ptr<const Layout> layout_;
    std::vector<std::shared_ptr<device::KvCache>> parts_;  // by device
    std::vector<std::vector<int>> numbers_;                // of their layers in the whole
};

Result<std::vector<std::shared_ptr<device::KvCache>>> SeveralCache::make(const Members& devices,
                                                                         std::shared_ptr<const Layout> layout,
                                                                         std::vector<graph::Segment>& segments) {
    std::vector<std::vector<int>> numbers(devices.list.size());
    for (graph::Segment& segment : segments)
        numbers[static_cast<size_t>(segment.device)] = graph::take_caches(segment.program);
    if (!parts_.empty()) {
        CHECK(numbers == numbers_, "all Programs of a model are split alike");
        return parts_;
    }
    std::vector<std::shared_ptr<device::KvCache>> made(devices.list.size());
    for (const graph::Segment& segment : segments) {
        const auto device = static_cast<size_t>(segment.device);
        device::CacheShape own = shape();
        own.layers = segment.program.caches;
        auto cache = devices.list[device]->make_cache(std::move(own));
        if (!cache) return fail("{}: {}", devices.names[device], cache.error().message);
        made[device] = std::move(*cache);
    }
    layout_ = std::move(layout);
    parts_ = std::move(made);
    numbers_ = std::move(numbers);
    return parts_;
}

class SeveralExecutable final : public device::Executable {
  public:
    struct Parts {
        std::shared_ptr<const Members> devices;
        std::shared_ptr<const Layout> layout;
        std::unique_ptr<Relay> relay;
        device::StepLimits limits;  // of a step
        int micro_rows = 0;         // of a micro-batch, the most
    };
    explicit SeveralExecutable(Parts parts) : parts_(std::move(parts)) {}

    int max_steps() const override { return parts_.limits.steps; }
    Status submit(const device::Batch& batch, const device::FindAllowed& find_allowed) override;
    Status wait() override { return Ok{}; }  // submit() returns when all is done
    std::span<const std::byte> result(size_t index) const override { return parts_.relay->result(index); }
    Result<std::vector<device::StageTime>> profile(const device::Batch& batch) override {
        TRY(device::check_step(batch, parts_.limits));
        return parts_.relay->profile(batch, rows_of(batch, 1));
    }

  private:
    int rows_of(const device::Batch& batch, int groups) const;
    double predicted_seconds(const PartSeconds& stage) const;
    StepShares shares() const;

    Parts parts_;
    Learned grouped_;  // of sequences that draw: all at once, or in groups
    // of the last step
    int rows_ = 0;
    int rows_each_ = 1;
    int steps_ = 1;
};

// Of each micro-batch.
int SeveralExecutable::rows_of(const device::Batch& batch, int groups) const {
    const auto rows = static_cast<int>(batch.tokens.size());
    if (brings_prompt(batch)) return micro_rows(rows, parts_.devices->options.micro_rows);
    return std::clamp((rows + groups - 1) / groups, 1, parts_.micro_rows);
}

// Groups of sequences keep several devices busy, but each reads the weights again. Where tokens are drawn without the
// host in between no device has to wait for the step's end, so groups cannot lose.
Status SeveralExecutable::submit(const device::Batch& batch, const device::FindAllowed& find_allowed) {
    TRY(device::check_step(batch, parts_.limits));
    const int forced = parts_.devices->options.groups;
    const auto stages = static_cast<int>(parts_.layout->stages.size());
    rows_ = static_cast<int>(batch.tokens.size());
    steps_ = batch.steps;
    const bool open = forced == 0 && rows_ > 1 && steps_ == 1 && !brings_prompt(batch);
    const bool in_groups = !open || grouped_.together(rows_);
    rows_each_ = rows_of(batch, forced > 0 ? forced : in_groups ? stages : 1);
    std::optional<PipelineFailure> failure = parts_.relay->run(batch, rows_each_, find_allowed);
    if (failure) {
        return fail("{}: {}", parts_.devices->names[static_cast<size_t>(failure->device)], failure->error.message);
    }
    if (open) grouped_.add(rows_, in_groups, parts_.relay->seconds());
    if (parts_.devices->options.shares) parts_.devices->options.shares->set(shares());
    return Ok{};
}

// Between the two numbers of rows that were measured, and beyond, along a line.
double SeveralExecutable::predicted_seconds(const PartSeconds& stage) const {
    double seconds = 0;
    for (int first = 0; first < rows_; first += rows_each_) {
        const int rows = std::min(rows_each_, rows_ - first);
        const double share = static_cast<double>(rows - 1) / (parts_.layout->measured_rows - 1);
        seconds += stage.decode + share * std::max(0.0, stage.prompt - stage.decode);
    }
    return seconds * steps_;
}

StepShares SeveralExecutable::shares() const {
    StepShares shares{.devices = {}, .seconds = parts_.relay->seconds()};
    const Layout& layout = *parts_.layout;
    for (size_t i = 0; i < layout.stages.size(); ++i) {
        const auto device = static_cast<size_t>(layout.stages[i].device);
        shares.devices.push_back(
            {.device = parts_.devices->names[device],
             .part = layout.texts[i],
             .busy_s = parts_.relay->device_times()[device].busy_s,
             .predicted_s = layout.measured_rows > 1 ? predicted_seconds(layout.stages[i].seconds) : 0});
    }
    return shares;
}

bool shares_host_memory(const device::Description& device) {
    return device.kind != device::Kind::gpu;
}

// All memory together; what several devices have of the host counts once.
device::MemoryPool pool_of(const std::vector<device::Description>& devices, std::string name) {
    device::MemoryPool all{.name = std::move(name)};
    device::MemoryPool host;
    std::vector<std::string> seen;
    for (const device::Description& device : devices) {
        if (std::find(seen.begin(), seen.end(), device.name) != seen.end()) continue;
        seen.push_back(device.name);
        uint64_t size_bytes = 0;
        for (const device::MemoryPool& pool : device.pools) size_bytes += pool.size_bytes;
        if (shares_host_memory(device)) {
            host.size_bytes = std::max(host.size_bytes, size_bytes);
            host.free_bytes = std::max(host.free_bytes, device.free_bytes());
        } else {
            all.size_bytes += size_bytes;
            all.free_bytes += device.free_bytes();
        }
    }
    all.size_bytes += host.size_bytes;
    all.free_bytes += host.free_bytes;
    return all;
}

// A software device among them makes the whole one: it must not pass for a GPU.
device::Kind kind_of(const std::vector<device::Description>& devices) {
    for (const device::Kind kind :
         {device::Kind::software_gpu, device::Kind::gpu, device::Kind::integrated_gpu, device::Kind::npu}) {
        if (std::any_of(devices.begin(), devices.end(), [&](const auto& device) { return device.kind == kind; }))
            return kind;
    }
    return device::Kind::cpu;
}

bool has_slow_rows(const device::Description& device) {
    return device.kind == device::Kind::cpu || device.kind == device::Kind::software_gpu;
}

class SeveralBackend final : public device::Backend {
  public:
    SeveralBackend(std::vector<std::unique_ptr<device::Backend>> devices, SeveralOptions options)
        : devices_(std::make_shared<Members>()) {
        CHECK(devices.size() > 1, "one device needs no split");
        devices_->list = std::move(devices);
        for (const auto& device : devices_->list) devices_->names.push_back(device->describe().name);
        devices_->options = std::move(options);
    }

    device::Description describe() const override;

    bool supports(const graph::Program& program, const graph::Node& node) const override {
        return std::all_of(devices_->list.begin(), devices_->list.end(),
                           [&](const auto& device) { return device->supports(program, node); });
    }

    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape shape) override {
        TRY(shape.check());
        return std::shared_ptr<device::KvCache>(std::make_shared<SeveralCache>(std::move(shape)));
    }

    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override;

  private:
    struct Wanted {
        const graph::Program& program;
        const Parts& parts;
        const graph::Weights& weights;
        const device::CacheShape& cache;
        graph::Extents limits;  // of a micro-batch
    };
    Result<std::shared_ptr<const Layout>> layout_of(const Wanted& wanted);
    std::vector<SplitDevice> split_devices(const Wanted& wanted) const;
    Status measure(const Wanted& wanted, int rows, std::vector<SplitDevice>& devices) const;
    void tell_left_out(const Layout& layout, const PartBytes& bytes, const std::vector<SplitDevice>& devices) const;

    std::shared_ptr<Members> devices_;
};

// Reports ask when a model is there: then it says which layers are whose.
device::Description SeveralBackend::describe() const {
    std::vector<device::Description> all;
    for (const auto& device : devices_->list) all.push_back(device->describe());
    std::shared_ptr<const Layout> layout;
    {
        const std::lock_guard lock(devices_->mutex);
        layout = devices_->last.lock();
    }
    device::Description together;
    together.kind = kind_of(all);
    const auto add = [](std::string& text, std::string_view separator, std::string_view more) {
        text += fmt::format("{}{}", text.empty() ? "" : separator, more);
    };
    for (const device::Description& device : all) {
        add(together.name, " + ", device.name);
        add(together.hardware, " + ", device.hardware);
        if (!layout) add(together.details, "; ", fmt::format("{}: {}", device.name, device.details));
    }
    for (size_t i = 0; layout && i < layout->stages.size(); ++i) {
        const SplitStage& stage = layout->stages[i];
        const device::Description& device = all[static_cast<size_t>(stage.device)];
        add(together.details, "; ",
            fmt::format("{} on {} ({}), {}", layout->texts[i], device.name, device.details, format_bytes(stage.bytes)));
    }
    together.pools = {pool_of(all, together.name)};
    if (std::none_of(all.begin(), all.end(), has_slow_rows))
        together.step_rows = kMicroBatches * devices_->options.micro_rows;
    return together;
}

std::vector<SplitDevice> SeveralBackend::split_devices(const Wanted& wanted) const {
    std::map<std::string, uint64_t> times;
    for (const auto& device : devices_->list) ++times[device->describe().name];
    const uint64_t work = devices_->list.size() * graph::plan_memory(wanted.program, wanted.limits).size_bytes;
    std::vector<SplitDevice> devices;
    for (const auto& device : devices_->list) {
        const device::Description now = device->describe();
        const auto usable = static_cast<uint64_t>(kMemoryShare * static_cast<double>(now.free_bytes()));
        devices.push_back({.name = now.name,
                           .layers = std::vector<PartSeconds>(wanted.parts.units.size()),
                           .memory_bytes = usable / times[now.name],
                           .work_bytes = work});
    }
    return devices;
}

Status SeveralBackend::measure(const Wanted& wanted, int rows, std::vector<SplitDevice>& devices) const {
    for (size_t i = 0; i < devices.size(); ++i) {
        auto times = measure_parts(wanted.parts, *devices_->list[i], wanted.weights, wanted.cache, rows);
        if (!times) return fail("{}: measuring a layer: {}", devices[i].name, times.error().message);
        devices[i].layers = std::move(times->units);
        devices[i].last = times->last;
    }
    return Ok{};
}

void SeveralBackend::tell_left_out(const Layout& layout, const PartBytes& bytes,
                                   const std::vector<SplitDevice>& devices) const {
    if (!devices_->options.note) return;
    const uint64_t smallest = *std::min_element(bytes.layers.begin(), bytes.layers.end());
    for (size_t i = 0; i < devices.size(); ++i) {
        const bool used = std::any_of(layout.stages.begin(), layout.stages.end(),
                                      [&](const SplitStage& stage) { return static_cast<size_t>(stage.device) == i; });
        if (used) continue;
        const bool room = smallest + devices[i].work_bytes <= devices[i].memory_bytes;
        devices_->options.note(
            fmt::format("{} is left out: {}", devices[i].name,
                        room ? "with it the model would be slower (--split gives it layers)"
                             : fmt::format("its {} do not hold a layer", format_bytes(devices[i].memory_bytes))));
    }
}

Result<std::shared_ptr<const Layout>> SeveralBackend::layout_of(const Wanted& wanted) {
    const std::lock_guard lock(devices_->mutex);
    std::weak_ptr<const Layout>& known = devices_->layouts[&wanted.weights];
    if (std::shared_ptr<const Layout> layout = known.lock()) return layout;
    auto layout = std::make_shared<Layout>();
    const PartBytes bytes = part_bytes(wanted.parts, wanted.cache);
    std::vector<SplitDevice> devices = split_devices(wanted);
    if (devices_->options.cuts.empty()) {
        layout->measured_rows = kMeasuredRows;
        TRY(measure(wanted, layout->measured_rows, devices));
        layout->stages = TRY(split_layers(bytes, devices, {.micro_batches = kMicroBatches}));
    } else {
        const std::vector<int> cuts =
            TRY(parse_cuts(devices_->options.cuts, static_cast<int>(devices.size()), wanted.parts.layers));
        const std::vector<int> units = TRY(units_at(wanted.parts, cuts));
        layout->stages = TRY(split_at(bytes, devices, units));
    }
    for (const SplitStage& stage : layout->stages) {
        layout->texts.push_back(fmt::format("layers {} to {}", wanted.parts.first_layer(stage.first_layer),
                                            wanted.parts.first_layer(stage.end_layer) - 1));
    }
    tell_left_out(*layout, bytes, devices);
    known = layout;
    devices_->last = layout;
    return std::shared_ptr<const Layout>(layout);
}

Result<std::unique_ptr<device::Executable>> SeveralBackend::compile(const graph::Program& program,
                                                                    const graph::Weights& weights,
                                                                    std::shared_ptr<device::KvCache> cache,
                                                                    const device::CompileOptions& options) {
    if (cache == nullptr) return devices_->list.front()->compile(program, weights, nullptr, options);
    const auto several = std::dynamic_pointer_cast<SeveralCache>(cache);
    CHECK(several != nullptr, "the cache belongs to another device");
    const graph::Program wanted = graph::keep_results(program, options.results);
    const Parts parts = TRY(parts_of(wanted));
    const int64_t rows = std::max<int64_t>(micro_rows(options.limits.tokens, devices_->options.micro_rows),
                                           std::min(options.limits.tokens, options.limits.outputs));
    device::CompileOptions of_part = options;
    of_part.limits = {.tokens = rows, .outputs = std::min(rows, options.limits.outputs)};
    const auto layout = TRY(layout_of({wanted, parts, weights, cache->shape(), of_part.limits}));
    std::vector<graph::Segment> segments = cut_at(wanted, parts, layout->stages);
    const auto caches = TRY(several->make(*devices_, layout, segments));
    if (segments.size() == 1) {
        const auto only = static_cast<size_t>(segments.front().device);
        return devices_->list[only]->compile(segments.front().program, weights, caches[only], options);
    }
    std::vector<RelayDevice> devices;
    for (size_t i = 0; i < caches.size(); ++i) devices.push_back({devices_->list[i].get(), caches[i]});
    auto relay = Relay::compile({.segments = std::move(segments),
                                 .devices = std::move(devices),
                                 .weights = weights,
                                 .options = of_part,
                                 .timeline = devices_->options.timeline});
    if (!relay) {
        return fail("{}: {}", devices_->names[static_cast<size_t>(relay.error().device)], relay.error().error.message);
    }
    device::StepLimits limits = device::step_limits(wanted, options.limits, cache.get());
    if ((*relay)->draws()) limits.steps = kMostSteps;
    return std::unique_ptr<device::Executable>(
        std::make_unique<SeveralExecutable>(SeveralExecutable::Parts{.devices = devices_,
                                                                     .layout = layout,
                                                                     .relay = std::move(*relay),
                                                                     .limits = std::move(limits),
                                                                     .micro_rows = static_cast<int>(rows)}));
}

}  // namespace

double StepShares::bubble() const {
    double busy_s = 0;
    for (const Share& share : devices) busy_s += share.busy_s;
    const double all_s = static_cast<double>(devices.size()) * seconds;
    return all_s > 0 ? 1 - busy_s / all_s : 0;
}

std::unique_ptr<device::Backend> make_several(std::vector<std::unique_ptr<device::Backend>> devices,
                                              SeveralOptions options) {
    return std::make_unique<SeveralBackend>(std::move(devices), std::move(options));
}

}  // namespace tandem::plan
