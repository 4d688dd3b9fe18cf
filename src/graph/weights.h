// Weights: the named tensors a Program refers to, as views of a mapped file or as bytes of our own.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"

namespace tandem::graph {

struct WeightView {
    DType dtype = DType::f32;
    std::vector<int64_t> shape;  // outermost first
    std::span<const std::byte> data;
    // The matrices of experts that lie apart in their file, one for each; `data` is empty then.
    std::vector<std::span<const std::byte>> parts = {};

    size_t size_bytes() const {
        size_t bytes = data.size();
        for (const std::span<const std::byte> part : parts) bytes += part.size();
        return bytes;
    }

    int64_t elements() const {
        int64_t count = 1;
        for (int64_t extent : shape) count *= extent;
        return count;
    }
};

// Views stay valid as long as this lives, and, for those not owned, the file they point into.
class Weights {
  public:
    void add(std::string name, WeightView view) { views_.insert_or_assign(std::move(name), std::move(view)); }

    // Keeps `bytes` and views them.
    void add_owned(std::string name, DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes) {
        owned_.push_back(std::move(bytes));
        add(std::move(name), {dtype, std::move(shape), owned_.back()});
    }

    uint64_t size_bytes() const {
        uint64_t bytes = 0;
        for (const auto& [name, view] : views_) bytes += view.size_bytes();
        return bytes;
    }

    // Null when there is none of that name.
    const WeightView* find(std::string_view name) const {
        const auto found = views_.find(std::string(name));
        return found == views_.end() ? nullptr : &found->second;
    }

    const std::unordered_map<std::string, WeightView>& all() const { return views_; }

  private:
    std::unordered_map<std::string, WeightView> views_;
    std::deque<std::vector<std::byte>> owned_;
};

}  // namespace tandem::graph
