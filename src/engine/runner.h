// Runner: a model on a device with its cache, made ready once for any step within its limits.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "engine/kv_blocks.h"
#include "models/model.h"

namespace tandem::engine {

// f32 for a model in f32, else f16.
DType default_kv_dtype(const models::Model& model);
// `context`, or if that is 0 what the model was trained for, at most 8192.
int context_or_default(const models::Model& model, int context);
// A word in the log when the context is longer than the texts that the model was trained on.
void warn_of_long_context(const models::Model& model, int context);

// Whether a Batch has room for the model's kinds of attention window.
Status check_cache_groups(const models::Model& model);
// How many tokens a device that needs `seconds_each` for one should draw before it reports.
int tokens_at_once(double seconds_each);

// What a cache is to hold.
struct CachePlan {
    int context = 0;    // the most positions of one sequence
    int sequences = 1;  // that run at once
    int rows = 1;       // of a step
    int positions = 0;  // of all sequences together; 0: as many as they may need, if half of the free memory holds them
    DType dtype = DType::f16;
    int block_tokens = 32;
};

// Blocks for each group of layers: at least what one sequence needs. Layers with a window keep what it needs, and as
// much again so that prompts are found which came before.
std::vector<KvBlocks::Group> plan_cache(const graph::Program& program, const CachePlan& plan, uint64_t free_bytes);

device::CacheShape cache_shape(const graph::Program& program, const CachePlan& plan,
                               const std::vector<KvBlocks::Group>& groups);

// What a step is run for.
enum class Wanted : uint8_t { tokens, tokens_and_logits, logits, hidden };

class Runner {
  public:
    struct Options {
        int rows = 1;     // of a step, the most
        int outputs = 1;  //
        DType kv_dtype = DType::f16;
        int block_tokens = 32;
        std::vector<KvBlocks::Group> groups;
        bool ready = false;  // make_ready() makes all that any step may need
    };

    // `model` and `backend` must outlive it.
    static Result<std::unique_ptr<Runner>> open(const models::Model& model, device::Backend& backend, Options options);

    Status copy(std::span<const BlockCopy> copies);
    Status run(const device::Batch& batch, Wanted wanted, const device::FindAllowed& find_allowed = {});
    // After a run that failed: the cache has what it had, but for the rows of that run.
    bool sound() const { return sound_; }
    // The most Batch::steps of a step for tokens; 1 before the first.
    int max_steps() const { return executable(Wanted::tokens) ? executable(Wanted::tokens)->max_steps() : 1; }
    // Compiles what such a step needs: run() would do it too.
    Status make_ready(Wanted wanted, const std::function<Status(double)>& progress = {});

    uint64_t cache_bytes() const { return cache_ ? cache_->shape().size_bytes() : 0; }

    // Of the last step: a token per output (step after step), the logits or the hidden state of an output.
    std::span<const int32_t> drawn() const { return device::result_as<int32_t>(*executable(last_), 0); }
    std::span<const float> logits(size_t output) const { return row(last_ == Wanted::logits ? 0 : 1, output); }
    std::span<const float> hidden(size_t output) const { return row(0, output); }

  private:
    Runner(const models::Model& model, device::Backend& backend, Options options)
        : model_(model), backend_(backend), options_(std::move(options)) {}

    std::span<const float> row(size_t result, size_t output) const;
    std::unique_ptr<device::Executable>& executable(Wanted wanted) { return executables_[static_cast<size_t>(wanted)]; }
    const std::unique_ptr<device::Executable>& executable(Wanted wanted) const {
        return executables_[static_cast<size_t>(wanted)];
    }

    const models::Model& model_;
    device::Backend& backend_;
    Options options_;
    std::shared_ptr<device::KvCache> cache_;
    std::array<std::unique_ptr<device::Executable>, 4> executables_;  // made when first wanted
    Wanted last_ = Wanted::tokens;
    bool sound_ = false;
    size_t outputs_ = 0;  // of the last step
    std::vector<std::pair<int32_t, int32_t>> pairs_;
};

}  // namespace tandem::engine
