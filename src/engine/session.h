// Session: one sequence of tokens on a device, with its cache; it runs the model over them.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/backend.h"
#include "models/model.h"
#include "text/tokenizer.h"

namespace tandem::engine {

using text::TokenId;

struct SessionOptions {
    int context = 0;                // positions the cache holds; 0: what the model was trained for, at most 8192
    int chunk = 256;                // tokens of a prompt that are run at once
    std::optional<DType> kv_dtype;  // f16 or f32; none: default_kv_dtype()
};

// f32 for a model in f32, else f16.
DType default_kv_dtype(const models::Model& model);

class Session {
  public:
    // `model` and `backend` must outlive the session.
    static Result<std::unique_ptr<Session>> open(const models::Model& model, device::Backend& backend,
                                                 const SessionOptions& options = {});

    int context() const { return context_; }
    int cached_tokens(std::span<const TokenId> tokens) const;  // of `tokens`, how many advance() need not run again

    // Runs what the cache does not hold of `tokens` yet, and draws the token that follows. `tokens` must not be empty.
    // Returns nothing when `cancelled` was set meanwhile; what has been run stays in the cache.
    Result<std::optional<TokenId>> advance(std::span<const TokenId> tokens, const device::SamplingRow& sampling,
                                           const std::atomic<bool>* cancelled = nullptr);

    // As advance(), but draws up to `most` tokens, each from those before, where the device can go on without the host:
    // at least one, or none when cancelled. What the caller does not take into its next `tokens` is forgotten.
    Result<std::vector<TokenId>> advance_by(int most, std::span<const TokenId> tokens,
                                            const device::SamplingRow& sampling,
                                            const std::atomic<bool>* cancelled = nullptr);

    // Runs `tokens` from the start and gives the logits after each position, in order.
    Status score(std::span<const TokenId> tokens,
                 const std::function<Status(int position, std::span<const float> logits)>& sink);

    // Forgets what the cache holds.
    void clear() { held_.clear(); }

  private:
    Session(const models::Model& model, device::Backend& backend) : model_(model), backend_(backend) {}

    Status check_fits(std::span<const TokenId> tokens) const;
    // Runs the batch. After an error nothing of the device is trusted any more: it may be lost, and making the cache
    // again is what brings it back.
    Status run(device::Executable& executable);
    Status make_cache();
    int block_count() const;  // of the cache
    Result<device::Executable*> executable(std::unique_ptr<device::Executable>& slot, const char* result,
                                           graph::Extents limits);
    void fill_batch(std::span<const TokenId> tokens, int past);

    const models::Model& model_;
    device::Backend& backend_;
    int context_ = 0;
    int chunk_ = 0;
    DType kv_dtype_ = DType::f16;
    std::shared_ptr<device::KvCache> cache_;  // null after an error
    std::vector<int32_t> blocks_;             // the sequence owns the whole cache, block i holding its i-th positions
    std::vector<TokenId> held_;               // the tokens whose keys and values are in the cache
    device::Batch batch_;
    std::unique_ptr<device::Executable> sampler_;  // made at the first advance()
    std::unique_ptr<device::Executable> scorer_;   // made at the first score()
};

}  // namespace tandem::engine
