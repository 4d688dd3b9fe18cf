#include "vulkan/executable.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

#include "device/stage_times.h"
#include "device/step_check.h"
#include "graph/memory_plan.h"
#include "vulkan/host_import.h"
#include "vulkan/kernels/advance.h"
#include "vulkan/lower.h"
#include "vulkan/patterns.h"
#include "vulkan/pipeline_maker.h"
#include "vulkan/survey.h"
#include "vulkan/timestamps.h"

namespace tandem::vulkan {

namespace {

constexpr int kMaxSteps = 16;  // of one batch

Bucket bucket_of(const device::Batch& batch, const graph::Extents& limits) {
    return {.extents = {.tokens = bucket_rows(std::ssize(batch.tokens), limits.tokens),
                        .outputs = bucket_rows(std::ssize(batch.output_rows), limits.outputs)},
            .one_row_each = std::all_of(batch.sequences.begin(), batch.sequences.end(),
                                        [](const device::SequenceRows& rows) { return rows.rows == 1; })};
}

// The most bytes of a value in any bucket within the limits.
uint64_t most_bytes(const StageValue& value, const graph::Extents& limits) {
    uint64_t most = 0;
    for (int64_t rows : all_bucket_rows(extent(value.rows, limits))) {
        most = std::max(most, value.size_bytes(static_cast<uint32_t>(rows)));
    }
    return most;
}

constexpr double kWeightShare = 0.9;  // of the time that it takes to get ready; the rest waits for the compiler

// What is told of a part goes on as told of the whole.
std::function<Status(double)> part_of(const std::function<Status(double)>& whole, double begin, double end) {
    if (!whole) return {};
    return [&whole, begin, end](double done) { return whole(begin + done * (end - begin)); };
}

// Has the weights that come next read from the disk while others are repacked: a core that waits for a page repacks
// nothing. Never further ahead than kMostAhead, so that nothing that was read is pushed out again before it is used.
class ReadAhead {
  public:
    explicit ReadAhead(std::vector<std::span<const std::byte>> weights)
        : weights_(std::move(weights)), thread_([this] { run(); }) {}
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;
    ~ReadAhead() {
        used(std::numeric_limits<uint64_t>::max() / 2);
        thread_.join();
    }

    // So many bytes of all were used.
    void used(uint64_t bytes) {
        {
            const std::lock_guard lock(mutex_);
            used_bytes_ = bytes;
        }
        wake_.notify_one();
    }

  private:
    static constexpr uint64_t kMostAhead = uint64_t{256} << 20;
    static constexpr size_t kReadPiece = size_t{4} << 20;

    // Behind what is used there is nothing to read.
    uint64_t wait_for_room(uint64_t at) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return at < used_bytes_ + kMostAhead; });
        return used_bytes_;
    }

    void run() {
        const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
        uint64_t at = 0;
        for (const std::span<const std::byte> bytes : weights_) {
            for (size_t begin = 0; begin < bytes.size(); begin += kReadPiece) {
                const size_t size = std::min(kReadPiece, bytes.size() - begin);
                if (wait_for_room(at) <= at) {
                    const auto first = reinterpret_cast<uintptr_t>(bytes.data() + begin) / page * page;
                    const auto end = reinterpret_cast<uintptr_t>(bytes.data() + begin + size);
                    madvise(reinterpret_cast<void*>(first), end - first, MADV_POPULATE_READ);
                }
                at += size;
            }
        }
    }

    std::vector<std::span<const std::byte>> weights_;
    std::mutex mutex_;
    std::condition_variable wake_;
    uint64_t used_bytes_ = 0;
    std::thread thread_;
};

// Of a step. What the rows may draw is found while the part before the draws runs.
enum class Part : uint8_t { whole, before_draws, draws };

class RecordedProgram final : public device::Executable {
  public:
    explicit RecordedProgram(const CompileContext& context)
        : program_(graph::keep_results(context.program, context.options.results)),
          limits_(context.options.limits),
          step_limits_(device::step_limits(program_, limits_, context.cache.get())),
          cache_(context.cache),
          store_(context.store),
          tuning_(context.tuning),
          pipelines_(context.pipelines),
          queue_(context.queue),
          constants_(context.queue.device(), MemoryKind::shared, uint64_t{1} << 16),
          chain_memory_(context.queue.device(), MemoryKind::device, uint64_t{1} << 16),
          readback_(context.queue.device(), MemoryKind::readback, uint64_t{1} << 16) {}

    ~RecordedProgram() override {
        for (const auto& [bucket, commands] : recorded_) queue_.free(commands);
    }

    Status prepare(const CompileContext& context);

    int max_steps() const override { return step_limits_.steps; }
    Status submit(const device::Batch& batch, const device::FindAllowed& find_allowed) override;
    Status wait() override;
    Result<std::vector<device::StageTime>> profile(const device::Batch& batch) override;
    std::span<const std::byte> result(size_t index) const override {
        const graph::ValueId id = program_.results[index].value;
        const size_t times = static_cast<int>(index) == drawn_ ? static_cast<size_t>(steps_) : 1;
        return {results_[index].mapped, program_.value(id).type.size_bytes(step_) * times};
    }

  private:
    Status load_weights(const graph::Weights& weights, const std::function<Status(double)>& progress);
    Status import_shared(const device::CompileOptions& options);
    Status place_values(WorkMemory& work);
    Status make_chain();
    std::span<const Stage> stages(Part part) const;
    Result<VkCommandBuffer> record(const Bucket& bucket, Part part);
    Status record_stages(Recorder& recorder, const Bucket& bucket, std::span<const Stage> stages,
                         const std::function<void()>& after_each);
    Status record_results(Recorder& recorder, const Bucket& bucket);
    void find_drawn();
    Status check_weights(const graph::Weights& weights) const;
    Buffer value(ValueIndex index, const Bucket& bucket) const;
    Result<VkDeviceAddress> constant(std::span<const std::byte> bytes);

    graph::Program program_;
    graph::Extents limits_;
    device::StepLimits step_limits_;
    std::shared_ptr<DeviceCache> cache_;
    std::shared_ptr<WeightStore> store_;  // keeps the weights on the device
    Tuning tuning_;
    PipelineCache& pipelines_;
    Queue& queue_;
    StagedProgram staged_;
    std::shared_ptr<Arena> work_;  // where values lie
    std::unique_ptr<Arena> zeroed_;
    Arena constants_;
    Arena chain_memory_;
    Arena readback_;
    std::vector<std::unique_ptr<HostImport>> imports_;
    std::map<ValueIndex, Buffer> shared_;  // values that lie in memory of the host, which other devices see
    std::vector<Buffer> values_;           // with the most bytes that each may have
    std::vector<DeviceWeight> weights_;
    std::vector<Buffer> results_;
    Buffer chain_;         // counters
    Buffer chain_broken_;  // not 0: the device cannot
    std::map<std::vector<std::byte>, VkDeviceAddress> constant_addresses_;
    std::unique_ptr<StepState> state_;
    std::map<std::pair<decltype(Bucket{}.key()), Part>, VkCommandBuffer> recorded_;
    int drawn_ = kNone;    // which result is the tokens drawn, if it is wanted
    graph::Extents step_;  // of the step under way
    int steps_ = 1;
    uint64_t submitted_ = 0;
};

Status RecordedProgram::prepare(const CompileContext& context) {
    staged_ = TRY(lower(program_, {.cache = cache_.get(),
                                   .tuning = tuning_,
                                   .capabilities = queue_.device()->capabilities(),
                                   .exact = context.exact}));
    find_drawn();
    if (tuning_.chained_rows > 0) TRY(make_chain());
    TRY(check_weights(context.weights));
    PipelineMaker maker(pipelines_);
    if (context.options.ready) {
        maker.start([this, &context] {
            return survey({.staged = staged_,
                           .weights = context.weights,
                           .limits = limits_,
                           .cache = cache_.get(),
                           .capabilities = queue_.device()->capabilities(),
                           .tuning = tuning_,
                           .draws = drawn_ != kNone});
        });
    }
    TRY(load_weights(context.weights, part_of(context.options.progress, 0, kWeightShare)));
    TRY(import_shared(context.options));
    TRY(place_values(context.work));
    for (const graph::NamedResult& result : program_.results) {
        uint64_t size_bytes = program_.value(result.value).type.size_bytes(limits_);
        if (drawn_ == static_cast<int>(results_.size())) size_bytes *= kMaxSteps;
        const auto shared = shared_.find(staged_.results[results_.size()]);
        results_.push_back(shared != shared_.end() ? shared->second : TRY(readback_.allocate(size_bytes)));
    }
    StepLimits limits{.extents = limits_};
    if (cache_) {
        limits.groups = static_cast<int>(cache_->shape().blocks.size());
        limits.blocks = *std::max_element(cache_->shape().blocks.begin(), cache_->shape().blocks.end());
    }
    state_ = TRY(StepState::create(queue_.device(), limits));
    return maker.finish(part_of(context.options.progress, kWeightShare, 1));
}

void RecordedProgram::find_drawn() {
    for (size_t i = 0; i < program_.results.size(); ++i) {
        if (Uses(program_).maker(program_.results[i].value)->op.as<op::Sample>() == nullptr) continue;
        drawn_ = static_cast<int>(i);
        step_limits_.steps = kMaxSteps;
    }
}

// A stage has two dispatches at most that chain.
Status RecordedProgram::make_chain() {
    chain_ = TRY(chain_memory_.allocate(Recorder::chain_bytes(2 * staged_.stages.size())));
    chain_broken_ = TRY(readback_.allocate(sizeof(uint32_t)));
    std::memset(chain_broken_.mapped, 0, sizeof(uint32_t));
    return Ok{};
}

Status RecordedProgram::check_weights(const graph::Weights& weights) const {
    for (const graph::Value& value : program_.values) {
        if (value.kind != graph::Value::Kind::weight) continue;
        const graph::WeightView* view = weights.find(value.name);
        if (view == nullptr) return fail("weight '{}' is missing", value.name);
        if (view->dtype != value.type.dtype || view->size_bytes() != value.type.size_bytes({})) {
            return fail("weight '{}' is {} with {} bytes, but the Program needs {}", value.name, name(view->dtype),
                        view->size_bytes(), to_string(value.type));
        }
    }
    return Ok{};
}

Status RecordedProgram::load_weights(const graph::Weights& weights, const std::function<Status(double)>& progress) {
    uint64_t all_bytes = 0;
    std::vector<std::span<const std::byte>> all;
    for (const StageWeight& weight : staged_.weights) {
        for (const NamedWeight& part : parts_of(weight, weights)) {
            all_bytes += part.view->size_bytes();
            all.push_back(part.view->data);
            all.insert(all.end(), part.view->parts.begin(), part.view->parts.end());
        }
    }
    ReadAhead ahead(std::move(all));
    uint64_t done_bytes = 0;
    for (const StageWeight& weight : staged_.weights) {
        const std::vector<NamedWeight> parts = parts_of(weight, weights);
        weights_.push_back(TRY(store_->get(parts)));
        for (const NamedWeight& part : parts) done_bytes += part.view->size_bytes();
        ahead.used(done_bytes);
        if (progress) TRY(progress(static_cast<double>(done_bytes) / static_cast<double>(all_bytes)));
    }
    std::vector<WeightStore::Bounded> bounded;
    for (size_t i = 0; i < weights_.size(); ++i) {
        const StageWeight& weight = staged_.weights[i];
        if (weight.bounded) bounded.push_back({&weights_[i], weight.dtype, weight.rows, weight.cols});
    }
    return store_->find_bounds(bounded, pipelines_);
}

Status RecordedProgram::import_shared(const device::CompileOptions& options) {
    const auto import_value = [&](std::string_view name, ValueIndex value) -> Status {
        const device::SharedValue* const shared = options.find_shared(name);
        if (shared == nullptr) return Ok{};
        if (shared->memory.empty()) {  // a value without bytes
            shared_[value] = {};
            return Ok{};
        }
        imports_.push_back(TRY(HostImport::create(queue_.device(), shared->memory)));
        shared_[value] = imports_.back()->buffer();
        return Ok{};
    };
    for (const StagedProgram::Input& input : staged_.inputs) {
        TRY(import_value(input.name, input.value));
        if (!shared_.contains(input.value)) return fail("the input '{}' lies nowhere", input.name);
    }
    for (size_t i = 0; i < program_.results.size(); ++i)
        TRY(import_value(program_.results[i].name, staged_.results[i]));
    return Ok{};
}

// Values that never live at once share bytes; those that begin as zeros lie apart, since their bytes stay.
Status RecordedProgram::place_values(WorkMemory& work) {
    const size_t count = staged_.values.size();
    std::vector<graph::Lifetime> lifetimes(count);
    std::vector<size_t> order;  // of the values, by the stage that makes them
    std::vector<bool> seen(count, false);
    const auto touch = [&](ValueIndex index, size_t stage) {
        const auto i = static_cast<size_t>(index);
        if (!seen[i]) {
            seen[i] = true;
            order.push_back(i);
            lifetimes[i].first = stage;
        }
        lifetimes[i].last = stage;
    };
    for (size_t s = 0; s < staged_.stages.size(); ++s) {
        for (ValueIndex index : staged_.stages[s].reads) touch(index, s);
        for (ValueIndex index : staged_.stages[s].writes) touch(index, s);
    }
    for (ValueIndex result : staged_.results) lifetimes[static_cast<size_t>(result)].last = staged_.stages.size();
    uint64_t zeroed_bytes = 0;
    std::vector<graph::Lifetime> placed;
    std::erase_if(order,
                  [&](size_t i) { return staged_.values[i].zeroed || shared_.contains(static_cast<ValueIndex>(i)); });
    for (size_t i : order) {
        lifetimes[i].size_bytes = most_bytes(staged_.values[i], limits_);
        placed.push_back(lifetimes[i]);
    }
    for (const StageValue& value : staged_.values) {
        if (value.zeroed) zeroed_bytes += most_bytes(value, limits_) + Arena::kAlignment;
    }
    const graph::MemoryPlan plan = graph::place(placed);
    const WorkMemory::Piece piece = TRY(work.get(plan.size_bytes));
    const Buffer& shared = piece.buffer;
    work_ = piece.arena;
    zeroed_ = std::make_unique<Arena>(queue_.device(), MemoryKind::device, zeroed_bytes + Arena::kAlignment);
    values_.resize(count);
    for (size_t i = 0; i < order.size(); ++i) {
        values_[order[i]] = {shared.handle, shared.offset + plan.offset[i], placed[i].size_bytes,
                             shared.address + plan.offset[i], nullptr};
    }
    for (const auto& [index, buffer] : shared_) values_[static_cast<size_t>(index)] = buffer;
    for (size_t i = 0; i < count; ++i) {
        if (!staged_.values[i].zeroed) continue;
        values_[i] = TRY(zeroed_->allocate(most_bytes(staged_.values[i], limits_)));
        TRY(queue_.fill(std::span(&values_[i], 1), 0));
    }
    return Ok{};
}

Buffer RecordedProgram::value(ValueIndex index, const Bucket& bucket) const {
    Buffer buffer = values_[static_cast<size_t>(index)];
    const StageValue& value = staged_.values[static_cast<size_t>(index)];
    if (!value.zeroed) {
        buffer.size_bytes = value.size_bytes(static_cast<uint32_t>(extent(value.rows, bucket.extents)));
    }
    return buffer;
}

Result<VkDeviceAddress> RecordedProgram::constant(std::span<const std::byte> bytes) {
    std::vector<std::byte> key(bytes.begin(), bytes.end());
    if (const auto found = constant_addresses_.find(key); found != constant_addresses_.end()) return found->second;
    const Buffer buffer = TRY(constants_.allocate(bytes.size()));
    std::memcpy(buffer.mapped, bytes.data(), bytes.size());
    constant_addresses_.emplace(std::move(key), buffer.address);
    return buffer.address;
}

std::span<const Stage> RecordedProgram::stages(Part part) const {
    const std::span<const Stage> all = staged_.stages;
    if (part == Part::whole) return all;
    const ValueIndex drawn = staged_.results[static_cast<size_t>(drawn_)];
    const auto draws = std::find_if(all.begin(), all.end(), [&](const Stage& stage) {
        return std::find(stage.writes.begin(), stage.writes.end(), drawn) != stage.writes.end();
    });
    const auto before = static_cast<size_t>(draws - all.begin());
    return part == Part::draws ? all.subspan(before) : all.first(before);
}

Status RecordedProgram::record_stages(Recorder& recorder, const Bucket& bucket, std::span<const Stage> stages,
                                      const std::function<void()>& after_each) {
    const StageArgs args{.bucket = bucket,
                         .step = state_->addresses(),
                         .cache = cache_.get(),
                         .capabilities = queue_.device()->capabilities(),
                         .tuning = tuning_,
                         .value = [&](ValueIndex index) { return whole(value(index, bucket)); },
                         .weight = [&](WeightIndex index) { return weights_[static_cast<size_t>(index)]; },
                         .constant = [&](std::span<const std::byte> bytes) { return constant(bytes); }};
    for (const Stage& stage : stages) {
        if (staged_.skips(stage, bucket)) continue;
        TRY(stage.record(recorder, args));
        if (after_each) after_each();
    }
    return Ok{};
}

Status RecordedProgram::record_results(Recorder& recorder, const Bucket& bucket) {
    for (size_t i = 0; i < results_.size(); ++i) {
        const Buffer from = value(staged_.results[i], bucket);
        if (from.size_bytes == 0 || shared_.contains(staged_.results[i])) continue;
        if (static_cast<int>(i) == drawn_ && bucket.can_repeat()) {
            TRY(record_advance(recorder, state_->addresses(), whole(from), whole(results_[i])));
        } else {
            recorder.copy(from, results_[i], from.size_bytes);
        }
    }
    return Ok{};
}

Result<VkCommandBuffer> RecordedProgram::record(const Bucket& bucket, Part part) {
    const std::pair key(bucket.key(), part);
    if (const auto found = recorded_.find(key); found != recorded_.end()) return found->second;
    VkCommandBuffer commands = TRY(queue_.allocate());
    recorded_.emplace(key, commands);
    TRY(Queue::begin(commands));
    Recorder recorder(pipelines_, commands);
    if (is_chained(tuning_, bucket)) TRY(recorder.begin_chain(chain_, chain_broken_));
    TRY(record_stages(recorder, bucket, stages(part), {}));
    if (part != Part::before_draws) TRY(record_results(recorder, bucket));
    recorder.finish();
    TRY(Queue::end(commands));
    return commands;
}

Status RecordedProgram::submit(const device::Batch& batch, const device::FindAllowed& find_allowed) {
    TRY(device::check_step(batch, step_limits_));
    const Bucket bucket = bucket_of(batch, limits_);
    step_ = {.tokens = std::ssize(batch.tokens), .outputs = std::ssize(batch.output_rows)};
    TRY(state_->write(batch, bucket.extents));
    steps_ = batch.steps;
    const bool in_parts = drawn_ != kNone && batch.limits_draws();
    if (in_parts) {
        VkCommandBuffer before = TRY(record(bucket, Part::before_draws));
        TRY(queue_.submit(before));
        TRY(device::find_allowed(batch, step_limits_, find_allowed));
        state_->write_allowed(batch);
    }
    VkCommandBuffer rest = TRY(record(bucket, in_parts ? Part::draws : Part::whole));
    submitted_ = TRY(queue_.submit(rest, steps_));
    return Ok{};
}

Status RecordedProgram::wait() {
    TRY(queue_.wait(submitted_));
    uint32_t broken = 0;
    if (chain_broken_.mapped != nullptr) std::memcpy(&broken, chain_broken_.mapped, sizeof(broken));
    if (broken == 0) return Ok{};
    return fail(
        "{} does not run dispatches in their order: put \"chained_rows\": 0 into its tuning file ('tandem bench "
        "--tune')",
        queue_.device()->info().name);
}

Result<std::vector<device::StageTime>> RecordedProgram::profile(const device::Batch& batch) {
    TRY(device::check_step(batch, step_limits_));
    const Bucket bucket = bucket_of(batch, limits_);
    const auto most = static_cast<uint32_t>(staged_.stages.size()) + 1;
    const std::unique_ptr<Timestamps> times = TRY(Timestamps::create(queue_.device(), most));
    TRY(state_->write(batch, bucket.extents));
    TRY(device::find_allowed(batch, step_limits_, {}));
    state_->write_allowed(batch);
    uint32_t written = 0;
    const Status ran = queue_.run([&](VkCommandBuffer commands) -> Status {
        times->reset(commands, 0, most);
        const auto stamp = [&] { times->write(commands, written++); };
        stamp();
        Recorder recorder(pipelines_, commands);
        TRY(record_stages(recorder, bucket, staged_.stages, stamp));
        recorder.finish();
        return Ok{};
    });
    TRY(ran);
    const std::vector<double> at = TRY(times->read(written));
    device::StageTimes parts;
    uint32_t next = 0;
    for (const Stage& stage : staged_.stages) {
        if (staged_.skips(stage, bucket)) continue;
        parts.add(stage.name, (at[next + 1] - at[next]) * 1e-9, stage.weight_bytes);
        ++next;
    }
    return parts.list();
}

}  // namespace

Result<std::unique_ptr<device::Executable>> compile(const CompileContext& context) {
    auto executable = std::make_unique<RecordedProgram>(context);
    TRY(executable->prepare(context));
    return std::unique_ptr<device::Executable>(std::move(executable));
}

}  // namespace tandem::vulkan
