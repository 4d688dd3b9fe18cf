#include "engine/runner.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"

namespace tandem::engine {

namespace {

std::vector<std::string> results_of(Wanted wanted) {
    switch (wanted) {
        case Wanted::tokens:
            return {"next"};
        case Wanted::tokens_and_logits:
            return {"next", "logits"};
        case Wanted::logits:
            return {"logits"};
        case Wanted::hidden:
            return {"hidden"};
    }
    return {};
}

bool has_result(const graph::Program& program, std::string_view name) {
    return std::any_of(program.results.begin(), program.results.end(),
                       [&](const graph::NamedResult& result) { return result.name == name; });
}

std::vector<int> block_counts(const std::vector<KvBlocks::Group>& groups) {
    std::vector<int> counts;
    counts.reserve(groups.size());
    for (const KvBlocks::Group& group : groups) counts.push_back(group.blocks);
    return counts;
}

}  // namespace

DType default_kv_dtype(const models::Model& model) {
    const graph::WeightView* embedding = model.weights.find("token_embd.weight");
    return embedding != nullptr && embedding->dtype == DType::f32 ? DType::f32 : DType::f16;
}

int context_or_default(const models::Model& model, int context) {
    constexpr int kDefaultContext = 8192;
    return context > 0 ? context : std::min(model.context_length, kDefaultContext);
}

void warn_of_long_context(const models::Model& model, int context) {
    if (model.context_length <= 0 || context <= model.context_length) return;
    log::warn(
        "a context of {} is longer than the {} tokens that {} was trained for: past those its answers get worse; "
        "use --context {}, or a file of the model with rope scaling for longer texts",
        context, model.context_length, model.name, model.context_length);
}

Status check_cache_groups(const models::Model& model) {
    if (model.program.cache_groups() <= device::kMaxCacheGroups) return Ok{};
    return fail("{}: {} kinds of attention window, at most {} are supported", model.name, model.program.cache_groups(),
                device::kMaxCacheGroups);
}

// As many as pass in a moment that no reader or Ctrl-C notices.
int tokens_at_once(double seconds_each) {
    constexpr double kMomentSeconds = 0.03;
    constexpr double kMostTokens = 16;
    return static_cast<int>(std::lround(std::clamp(kMomentSeconds / std::max(seconds_each, 1e-9), 1.0, kMostTokens)));
}

std::vector<KvBlocks::Group> plan_cache(const graph::Program& program, const CachePlan& plan, uint64_t free_bytes) {
    std::vector<KvBlocks::Group> groups(static_cast<size_t>(program.cache_groups()));
    for (const graph::CacheLayer& layer : program.caches)
        groups[static_cast<size_t>(layer.group)].window = layer.window;
    const auto fill = [&](int sequences, int64_t positions) {
        const int all = blocks_of(positions, plan.block_tokens) + 2;  // one is copied, one is begun
        for (KvBlocks::Group& group : groups) {
            const int live = sequences * (blocks_of(group.window, plan.block_tokens) + 2);
            const int kept = 2 * (live + blocks_of(plan.rows, plan.block_tokens));
            group.blocks = group.window == 0 ? all : std::min(all, kept);
        }
    };
    if (plan.positions > 0) {
        fill(plan.sequences, std::max(plan.positions, plan.context));
        return groups;
    }
    for (int sequences = plan.sequences; sequences > 0; sequences /= 2) {
        fill(sequences, int64_t{sequences} * plan.context);
        if (cache_shape(program, plan, groups).size_bytes() <= free_bytes / 2) break;
    }
    return groups;
}

device::CacheShape cache_shape(const graph::Program& program, const CachePlan& plan,
                               const std::vector<KvBlocks::Group>& groups) {
    return {.layers = program.caches,
            .dtype = plan.dtype,
            .block_tokens = plan.block_tokens,
            .blocks = block_counts(groups)};
}

Result<std::unique_ptr<Runner>> Runner::open(const models::Model& model, device::Backend& backend, Options options) {
    TRY(check_cache_groups(model));
    std::unique_ptr<Runner> runner(new Runner(model, backend, std::move(options)));
    runner->cache_ = TRY(backend.make_cache({.layers = model.program.caches,
                                             .dtype = runner->options_.kv_dtype,
                                             .block_tokens = runner->options_.block_tokens,
                                             .blocks = block_counts(runner->options_.groups)}));
    return runner;
}

Status Runner::make_ready(Wanted wanted, const std::function<Status(double)>& progress) {
    std::unique_ptr<device::Executable>& slot = executable(wanted);
    if (slot) return Ok{};
    for (const std::string& name : results_of(wanted)) {
        if (!has_result(model_.program, name)) return fail("{}: the model gives no result '{}'", model_.name, name);
    }
    const int outputs = wanted == Wanted::hidden ? options_.rows : options_.outputs;
    slot = TRY(backend_.compile(model_.program, model_.weights, cache_,
                                {.limits = {.tokens = options_.rows, .outputs = outputs},
                                 .results = results_of(wanted),
                                 .ready = options_.ready,
                                 .progress = progress}));
    return Ok{};
}

Status Runner::copy(std::span<const BlockCopy> copies) {
    for (int group = 0; group < std::ssize(options_.groups) && !copies.empty(); ++group) {
        pairs_.clear();
        for (const BlockCopy& copy : copies) {
            if (copy.group == group) pairs_.emplace_back(copy.from, copy.to);
        }
        if (!pairs_.empty()) TRY(cache_->copy_blocks(group, pairs_));
    }
    return Ok{};
}

Status Runner::run(const device::Batch& batch, Wanted wanted, const device::FindAllowed& find_allowed) {
    sound_ = false;
    TRY(make_ready(wanted));
    last_ = wanted;
    outputs_ = batch.output_rows.size();
    Status done = device::run(*executable(wanted), batch, find_allowed);
    sound_ = done || executable(wanted)->sound_after_failure();
    return done;
}

std::span<const float> Runner::row(size_t result, size_t output) const {
    const auto all = device::result_as<float>(*executable(last_), result);
    const size_t width = all.size() / outputs_;
    return all.subspan(output * width, width);
}

}  // namespace tandem::engine
