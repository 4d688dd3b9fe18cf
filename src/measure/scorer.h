// Scorer: the logits that a model gives after every token of a text, for measurements.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"
#include "engine/runner.h"

namespace tandem::measure {

struct ScorerOptions {
    int context = 0;                     // the longest text; 0: what the model was trained for, at most 8192
    std::optional<DType> kv_dtype = {};  // none: default_kv_dtype()
};

class Scorer {
  public:
    // `model` and `backend` must outlive it.
    static Result<std::unique_ptr<Scorer>> open(const models::Model& model, device::Backend& backend,
                                                const ScorerOptions& options = {});

    int context() const { return context_; }

    // Gives the logits after each position, in order.
    Status score(std::span<const text::TokenId> tokens,
                 const std::function<Status(int position, std::span<const float> logits)>& sink);

  private:
    Scorer(int context, std::unique_ptr<engine::Runner> runner) : context_(context), runner_(std::move(runner)) {}

    int context_;
    std::unique_ptr<engine::Runner> runner_;
    std::vector<int32_t> blocks_;  // block i holds the i-th positions, in every group
    device::Batch batch_;
};

}  // namespace tandem::measure
