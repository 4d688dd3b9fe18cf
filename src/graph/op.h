// Op: any of the op structs of graph/ops.h, held by value; a new kind of op needs no list to be edited.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "graph/tensor_type.h"
#include "graph/work.h"

namespace tandem::graph {

using InputTypes = std::span<const TensorType>;

// What the graph knows of a kind of op. Its address identifies the kind.
struct OpKind {
    std::string_view name;
    TensorType (*infer)(const void* op, InputTypes inputs);
    std::string (*describe)(const void* op);
    Work (*work)(const void* op, InputTypes inputs, const StepShape& step);
};

// An op struct T has: static constexpr std::string_view kName; TensorType infer(InputTypes) const, which also checks
// the inputs; std::string describe() const, its attributes as they are printed. One that reads weights or the cache, or
// computes much, also has Work work(InputTypes, const StepShape&) const; of any other nothing is counted.
template <typename T>
const OpKind& kind_of() {
    static const OpKind kind{
        .name = T::kName,
        .infer = [](const void* op, InputTypes inputs) { return static_cast<const T*>(op)->infer(inputs); },
        .describe = [](const void* op) { return static_cast<const T*>(op)->describe(); },
        .work = [](const void* op, InputTypes inputs, const StepShape& step) -> Work {
            if constexpr (requires(const T& t) { t.work(inputs, step); })
                return static_cast<const T*>(op)->work(inputs, step);
            return {};
        },
    };
    return kind;
}

class Op {
  public:
    template <typename T>
    Op(T op)  // NOLINT(google-explicit-constructor): an op struct is an Op
        : kind_(&kind_of<T>()), value_(std::make_shared<const T>(std::move(op))) {}

    const OpKind& kind() const { return *kind_; }
    std::string_view name() const { return kind_->name; }
    TensorType infer(InputTypes inputs) const { return kind_->infer(value_.get(), inputs); }
    std::string describe() const { return kind_->describe(value_.get()); }
    Work work(InputTypes inputs, const StepShape& step) const { return kind_->work(value_.get(), inputs, step); }

    // The op struct, or null when this is an op of another kind.
    template <typename T>
    const T* as() const {
        return kind_ == &kind_of<T>() ? static_cast<const T*>(value_.get()) : nullptr;
    }

  private:
    const OpKind* kind_;
    std::shared_ptr<const void> value_;
};

}  // namespace tandem::graph
