#include "npu/walk.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace tandem::npu {

Runs::Runs(const Access& access, const ObjectType& object) {
    const int64_t element_bytes = npu::size_bytes(object.element);
    CHECK(access.size() <= kMaxDims);
    size_bytes_ = (access.empty() ? object.count : elements(access)) * element_bytes;
    run_bytes_ = access.empty() ? size_bytes_ : element_bytes;
    auto dim = access.rbegin();
    for (; dim != access.rend() && (dim->size == 1 || dim->stride * element_bytes == run_bytes_); ++dim)
        run_bytes_ *= dim->size;
    for (auto outer = access.begin(); outer != dim.base(); ++outer)
        dims_.at(static_cast<size_t>(dim_count_++)) = {outer->size, outer->stride * element_bytes};
}

void AccessCursor::next_run() {
    for (int d = runs_->dim_count_ - 1; d >= 0; --d) {
        const auto i = static_cast<size_t>(d);
        const Runs::Dim& dim = runs_->dims_[i];
        if (++index_[i] < dim.size) {
            at_ += dim.stride_bytes;
            return;
        }
        at_ -= (dim.size - 1) * dim.stride_bytes;
        index_[i] = 0;
    }
}

void AccessCursor::advance(int64_t size_bytes) {
    left_ -= size_bytes;
    at_ += size_bytes;
    if (left_ > 0) return;
    at_ -= runs_->run_bytes_;
    left_ = runs_->run_bytes_;
    next_run();
}

void AccessCursor::copy(AccessCursor& from, AccessCursor& to, int64_t size_bytes) {
    while (size_bytes > 0) {
        const int64_t piece = std::min({size_bytes, from.left_, to.left_});
        std::memcpy(to.at_, from.at_, static_cast<size_t>(piece));
        from.advance(piece);
        to.advance(piece);
        size_bytes -= piece;
    }
}

}  // namespace tandem::npu
