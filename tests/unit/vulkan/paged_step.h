// A step over a paged cache for tests of kernels: sequences with scattered blocks, on the device and on the host.
#pragma once

#include <random>
#include <vector>

#include "unit/vulkan/gpu.h"
#include "vulkan/cache.h"
#include "vulkan/step_state.h"

namespace tandem::vulkan {

struct PagedSequence {
    int past = 0;  // positions that are in the cache before the step
    int rows = 1;
};

struct PagedShape {
    int kv_heads = 1;
    int head_dim = 128;
    int block_tokens = 16;
    int padding = 0;  // rows of the bucket beyond those of the step
    DType cache = DType::f16;
    std::vector<PagedSequence> sequences = {};
};

class PagedStep {
  public:
    explicit PagedStep(PagedShape shape);

    const PagedShape& shape() const { return shape_; }
    const DeviceCache& cache() const { return *cache_; }
    const StepState::Addresses& addresses() const { return state_->addresses(); }
    std::mt19937& random() { return random_; }

    uint32_t rows() const { return static_cast<uint32_t>(sequence_of_row_.size()); }
    uint32_t bucket_rows() const { return rows() + static_cast<uint32_t>(shape_.padding); }
    int sequence(uint32_t row) const { return sequence_of_row_[row]; }
    int position(uint32_t row) const { return positions_[row]; }

    // Of the first element of a head, in keys and values.
    size_t element(int sequence, int position, int kv_head) const;

    // Fills every position up to the last of each sequence with numbers in [-1, 1); all others are NaN.
    void fill();
    void download();

    // What the cache holds, as of the last of these calls.
    const std::vector<float>& keys() const { return keys_; }
    const std::vector<float>& values() const { return values_; }

    // f16 in [-1, 1), as floats that hold them exactly.
    std::vector<float> uniform(size_t count);

  private:
    void write_step();
    // Between keys_ or values_ and the bytes of a cache.
    std::vector<std::byte> encode(std::vector<float>& values) const;
    std::vector<float> decode(const std::vector<std::byte>& bytes) const;

    PagedShape shape_;
    std::mt19937 random_{42};
    std::shared_ptr<DeviceCache> cache_;
    std::unique_ptr<StepState> state_;
    std::vector<std::vector<int32_t>> tables_;
    std::vector<int> sequence_of_row_, positions_;
    std::vector<float> keys_, values_;
};

std::vector<uint16_t> to_f16(const std::vector<float>& values);
std::vector<float> from_f16(const std::vector<uint16_t>& values);

}  // namespace tandem::vulkan
