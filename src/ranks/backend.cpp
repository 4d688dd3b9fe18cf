#include "ranks/backend.h"

#include <algorithm>
#include <chrono>

#include "device/step_check.h"
#include "ranks/order.h"

namespace tandem::ranks {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostSteps = 16;

// What is shared by all caches and executables of the device.
struct Job {
    std::shared_ptr<Ranks> ranks;
    std::unique_ptr<device::Backend> local;
    std::vector<int> cuts;  // chosen when the first Program is compiled
    bool has_cuts = false;

    void order(OrderKind kind, uint32_t id) const {
        Writer writer;
        writer.put(static_cast<uint8_t>(kind));
        writer.put(id);
        ranks->order(writer.bytes());
    }
};

// The caches of the ranks are made when something is compiled for them: only then it is known who has which layers.
class RanksCache final : public device::KvCache {
  public:
    RanksCache(device::CacheShape shape, std::shared_ptr<Job> job)
        : device::KvCache(std::move(shape)), job_(std::move(job)), id_(job_->ranks->next_id()) {}
    ~RanksCache() override { job_->order(OrderKind::drop_cache, id_); }

    uint32_t id() const { return id_; }
    Result<std::shared_ptr<device::KvCache>> local(const Part& part) {
        made_ = true;
        if (part.program.caches.empty()) return std::shared_ptr<device::KvCache>();
        if (!local_) {
            device::CacheShape own = shape();
            own.layers = part.program.caches;
            local_ = TRY(job_->local->make_cache(std::move(own)));
        }
        return local_;
    }

    Status copy_blocks(int group, std::span<const std::pair<int32_t, int32_t>> from_to) override {
        TRY(device::check_copies(shape(), group, from_to));
        if (!made_) return Ok{};  // nothing was written yet
        Writer writer;
        CopyOrder{.cache = id_, .group = group, .from_to = {from_to.begin(), from_to.end()}}.write(writer);
        job_->ranks->order(writer.bytes());
        return local_ ? local_->copy_blocks(group, from_to) : Status(Ok{});
    }

  private:
    std::shared_ptr<Job> job_;
    uint32_t id_;
    bool made_ = false;
    std::shared_ptr<device::KvCache> local_;
};

class RanksExecutable final : public device::Executable {
  public:
    explicit RanksExecutable(std::shared_ptr<Job> job) : job_(std::move(job)), id_(job_->ranks->next_id()) {}
    ~RanksExecutable() override { job_->order(OrderKind::drop_executable, id_); }

    Status prepare(const graph::Program& program, const graph::Weights& weights,
                   const std::shared_ptr<device::KvCache>& cache, const device::CompileOptions& options);

    int max_steps() const override { return kMostSteps; }
    Status submit(const device::Batch& batch, const device::FindAllowed& find_allowed) override;
    Status wait() override { return Ok{}; }
    std::span<const std::byte> result(size_t index) const override { return results_[index].bytes; }

  private:
    struct ResultBytes {
        bool is_next = false;
        size_t row_bytes = 0;
        std::vector<std::byte> bytes;
    };

    void find_results(const graph::Program& program, const std::vector<std::string>& names);
    int micro_rows(const device::Batch& batch, bool grouped) const;
    void order_step(const device::Batch& batch, int rows);
    void keep(const plan::MicroBatch& part, int step, size_t result, std::span<const std::byte> bytes);

    std::shared_ptr<Job> job_;
    uint32_t id_;
    device::StepLimits limits_;
    std::vector<Part> parts_;
    std::shared_ptr<device::KvCache> whole_cache_;
    std::unique_ptr<Stage> stage_;
    std::vector<BatchWriter> writers_;  // of each of the others
    std::vector<ResultBytes> results_;
    size_t outputs_ = 0;
    plan::Learned groups_;  // whether decoding in groups, which keep all ranks busy, pays for reading weights again
};

Status RanksExecutable::prepare(const graph::Program& program, const graph::Weights& weights,
                                const std::shared_ptr<device::KvCache>& cache, const device::CompileOptions& options) {
    Ranks& ranks = *job_->ranks;
    auto* const whole = dynamic_cast<RanksCache*>(cache.get());
    CHECK(cache == nullptr || whole != nullptr, "the cache belongs to another device");
    const graph::WeightView* const embedding = weights.find("token_embd.weight");
    CompileOrder order{
        .executable = id_,
        .limits = options.limits,
        .results = options.results,
        .ready = options.ready,
        .exact_rows = ranks.options().exact_rows || (embedding != nullptr && embedding->dtype == DType::f32),
        .cuts = {job_->cuts.begin(), job_->cuts.end()},
        .fingerprint = fingerprint(program, weights)};
    if (whole != nullptr) {
        order.cache = whole->id();
        order.cache_dtype = cache->shape().dtype;
        order.block_tokens = cache->shape().block_tokens;
        order.blocks.assign(cache->shape().blocks.begin(), cache->shape().blocks.end());
    }
    const graph::Program kept = graph::keep_results(program, options.results);
    parts_ = TRY(cut_into_parts(kept, order.cuts));
    limits_ = device::step_limits(kept, options.limits, cache.get());
    limits_.steps = kMostSteps;
    Writer writer;
    order.write(writer);
    ranks.order(writer.bytes());
    ranks.note_parts(kept, parts_, weights);
    whole_cache_ = cache;
    const auto open = [&]() -> Result<std::unique_ptr<Stage>> {
        std::shared_ptr<device::KvCache> local;
        if (whole != nullptr) local = TRY(whole->local(parts_[0]));
        return Stage::open({.post = ranks.post(),
                            .parts = parts_,
                            .weights = weights,
                            .backend = *job_->local,
                            .cache = std::move(local),
                            .results = options.results,
                            .limits = options.limits,
                            .exact_rows = order.exact_rows,
                            .ready = options.ready,
                            .progress = options.progress});
    };
    Result<std::unique_ptr<Stage>> stage = open();
    TRY(ranks.await_done({}));  // also of those that were quicker than a rank 0 that failed
    stage_ = TRY(std::move(stage));
    writers_.resize(static_cast<size_t>(ranks.post().size()) - 1);
    find_results(kept, options.results);
    return Ok{};
}

void RanksExecutable::find_results(const graph::Program& program, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        const auto found = std::ranges::find(program.results, name, &graph::NamedResult::name);
        const graph::TensorType& type = program.value(found->value).type;
        results_.push_back(
            {.is_next = name == "next", .row_bytes = type.size_bytes({.tokens = 1, .outputs = 1}), .bytes = {}});
    }
}

int RanksExecutable::micro_rows(const device::Batch& batch, bool grouped) const {
    const auto rows = static_cast<int>(batch.tokens.size());
    const int ranks = job_->ranks->post().size();
    if (batch.sequences.size() == batch.tokens.size()) return grouped ? plan::group_rows(rows, ranks) : rows;
    return plan::prompt_rows(rows, ranks, job_->ranks->options().prompt_rows);
}

void RanksExecutable::order_step(const device::Batch& batch, int rows) {
    for (size_t i = 0; i < writers_.size(); ++i) {
        Writer writer;
        writer.put(static_cast<uint8_t>(OrderKind::step));
        writer.put(id_);
        writer.put(static_cast<int32_t>(rows));
        writers_[i].write(writer, batch, i + 1 == writers_.size());
        job_->ranks->post().send(static_cast<int>(i) + 1, Channel::command, writer.bytes());
    }
}

Status RanksExecutable::submit(const device::Batch& batch, const device::FindAllowed& find_allowed) {
    TRY(device::check_step(batch, limits_));
    if (batch.tokens.empty()) return Ok{};
    const auto begin = Clock::now();
    Ranks& ranks = *job_->ranks;
    const bool draws = batch.sequences.size() == batch.tokens.size() && batch.sequences.size() > 1;
    const auto rows = static_cast<int64_t>(batch.tokens.size());
    const bool grouped = draws && groups_.together(rows);
    const int micro = micro_rows(batch, grouped);
    outputs_ = batch.output_rows.size();
    for (ResultBytes& result : results_) {
        const size_t times = result.is_next ? static_cast<size_t>(batch.steps) : 1;
        result.bytes.assign(result.row_bytes * outputs_ * times, std::byte{0});
    }
    order_step(batch, micro);
    Status allowed = Ok{};
    const auto send_masks = [&] {
        if (!batch.limits_draws()) return;
        allowed = device::find_allowed(batch, limits_, find_allowed);
        Writer writer;
        write_masks(writer, batch);
        ranks.post().send(ranks.post().size() - 1, Channel::masks, writer.bytes());
    };
    StageSeconds own;
    bool broken = false;
    Status ran =
        stage_->run({.batch = batch,
                     .micro_rows = micro,
                     .find_allowed = send_masks,
                     .on_result = [this](const plan::MicroBatch& part, int step, size_t result,
                                         std::span<const std::byte> bytes) { keep(part, step, result, bytes); }},
                    own, broken);
    if (broken) return ran;
    TRY(ranks.await_done(own));
    TRY(std::move(allowed));
    TRY(std::move(ran));
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    ranks.note_step(batch, micro, whole_cache_ ? whole_cache_->shape().dtype : DType::f16, seconds);
    if (draws) groups_.add(rows, grouped, seconds / batch.steps);
    return Ok{};
}

void RanksExecutable::keep(const plan::MicroBatch& part, int step, size_t result, std::span<const std::byte> bytes) {
    ResultBytes& to = results_[result];
    if (bytes.size() != part.outputs.size() * to.row_bytes) return;  // a version that differs was refused before
    const size_t first = to.is_next ? static_cast<size_t>(step) * outputs_ : 0;
    for (size_t i = 0; i < part.outputs.size(); ++i) {
        std::memcpy(to.bytes.data() + (first + part.outputs[i]) * to.row_bytes, bytes.data() + i * to.row_bytes,
                    to.row_bytes);
    }
}

class RanksBackend final : public device::Backend {
  public:
    RanksBackend(std::shared_ptr<Ranks> ranks, std::unique_ptr<device::Backend> local) : job_(std::make_shared<Job>()) {
        job_->ranks = std::move(ranks);
        job_->local = std::move(local);
    }

    device::Description describe() const override {
        device::Description now = job_->local->describe();
        const int size = job_->ranks->post().size();
        now.name += fmt::format(", {} ranks", size);
        const uint64_t free = job_->ranks->free_bytes();
        now.pools = {{"memory of all ranks", free, free}};
        now.step_rows = std::max(now.step_rows, 8 * job_->ranks->options().prompt_rows);
        for (const StageReport& stage : job_->ranks->report()) {
            now.details +=
                fmt::format("; rank {} on {} ({}): {}", stage.rank, stage.host, stage.device, stage.layers());
        }
        return now;
    }

    bool supports(const graph::Program& program, const graph::Node& node) const override {
        return job_->local->supports(program, node);
    }

    Result<std::shared_ptr<device::KvCache>> make_cache(device::CacheShape shape) override {
        TRY(shape.check());
        if (const std::string lost = job_->ranks->post().failure(); !lost.empty()) return Error{lost};
        return std::shared_ptr<device::KvCache>(std::make_shared<RanksCache>(std::move(shape), job_));
    }

    Result<std::unique_ptr<device::Executable>> compile(const graph::Program& program, const graph::Weights& weights,
                                                        std::shared_ptr<device::KvCache> cache,
                                                        const device::CompileOptions& options) override {
        CHECK(options.shared.empty(), "ranks share no memory");
        if (!job_->has_cuts) {
            job_->cuts = TRY(job_->ranks->choose_cuts(program, static_cast<int>(options.limits.outputs)));
            job_->has_cuts = true;
        }
        auto executable = std::make_unique<RanksExecutable>(job_);
        TRY(executable->prepare(program, weights, cache, options));
        return std::unique_ptr<device::Executable>(std::move(executable));
    }

  private:
    std::shared_ptr<Job> job_;
};

}  // namespace

std::unique_ptr<device::Backend> make_backend(std::shared_ptr<Ranks> ranks, std::unique_ptr<device::Backend> local) {
    return std::make_unique<RanksBackend>(std::move(ranks), std::move(local));
}

}  // namespace tandem::ranks
