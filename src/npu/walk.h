// AccessCursor: walks over the bytes of an Access, run by run, as a DMA does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "npu/design.h"

namespace tandem::npu {

// An Access in bytes, with what lies together made one run. No Access: the whole object.
class Runs {
  public:
    static constexpr int kMaxDims = 8;

    Runs() = default;
    Runs(const Access& access, const ObjectType& object);

    int64_t run_bytes() const { return run_bytes_; }
    int64_t size_bytes() const { return size_bytes_; }  // of all runs together

  private:
    friend class AccessCursor;
    struct Dim {
        int64_t size = 1;
        int64_t stride_bytes = 0;
    };
    std::array<Dim, kMaxDims> dims_{};  // outermost first, without the run itself
    int dim_count_ = 0;
    int64_t run_bytes_ = 0;
    int64_t size_bytes_ = 0;
};

// A place in such a walk. Copies are independent.
class AccessCursor {
  public:
    AccessCursor(const Runs& runs, std::byte* base) : runs_(&runs), at_(base), left_(runs.run_bytes_) {}

    // Copies `size_bytes` from the one to the other and moves both on.
    static void copy(AccessCursor& from, AccessCursor& to, int64_t size_bytes);

  private:
    void advance(int64_t size_bytes);
    void next_run();

    const Runs* runs_;
    std::byte* at_;
    int64_t left_;  // of this run
    std::array<int64_t, Runs::kMaxDims> index_{};
};

}  // namespace tandem::npu
