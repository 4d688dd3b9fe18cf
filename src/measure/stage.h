// Stage: sequences of equal length that step together, each with cache blocks of its own, for measurements and checks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device/backend.h"
#include "models/model.h"
#include "plan/work.h"

namespace tandem::measure {

struct StageOptions {
    int sequences = 1;
    int positions = 1;  // that each sequence may reach
    int rows = 1;       // of one sequence, the most in a step
    const char* result = "next";
    std::optional<DType> kv_dtype;                // none: default_kv_dtype()
    std::function<Status(double)> progress = {};  // of bringing the weights there, from 0 to 1
};

class Stage {
  public:
    // `model` and `backend` must outlive it. A cache begins as zeros, so any position may be stepped at.
    static Result<std::unique_ptr<Stage>> open(const models::Model& model, device::Backend& backend,
                                               const StageOptions& options);

    // Runs `rows` tokens of every sequence from position `past` on: those that fixed_token() gives, or, for one row
    // each, the ones that the last step drew, several times on with those drawn if the device can (device::Batch).
    // `output`: the row of each sequence whose result is wanted.
    Status step(int past, int rows, std::optional<int> output);
    Status step_with_drawn(int past, int steps = 1);
    int max_steps() const { return executable_->max_steps(); }

    // Runs the last step again, with a clock read after each of its parts.
    Result<std::vector<device::StageTime>> profile() { return executable_->profile(batch_); }

    // Of the last step.
    const device::Batch& batch() const { return batch_; }
    plan::Work work() const { return plan::work_of(model_.program, batch_, kv_dtype_); }
    template <typename T>
    std::span<const T> result() const {
        return device::result_as<T>(*executable_, 0);
    }

  private:
    Stage(const models::Model& model, DType kv_dtype) : model_(model), kv_dtype_(kv_dtype) {}

    Status make_cache(device::Backend& backend, const StageOptions& options);
    void fill_batch(int past, int rows, std::optional<int> output);

    const models::Model& model_;
    DType kv_dtype_;
    std::shared_ptr<device::KvCache> cache_;
    std::vector<std::vector<int32_t>> tables_;  // [sequence * groups + group]
    device::Batch batch_;
    device::SamplingParams greedy_;
    std::unique_ptr<device::Executable> executable_;
};

// The token that measurements have at a position: the same in every sequence, and no two neighbours alike.
int32_t fixed_token(int position, int vocab);

}  // namespace tandem::measure
