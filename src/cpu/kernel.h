// How an op of a Program becomes code on the CPU: what a kernel is given, and the registry that kernels enter by
// themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/threads.h"
#include "cpu/kv_cache.h"
#include "device/batch.h"
#include "graph/op.h"

namespace tandem::cpu {

// A value a kernel reads: `rows` rows of `cols` elements, one after the other.
struct Input {
    DType dtype = DType::f32;
    int64_t rows = 0;
    int64_t cols = 0;
    const std::byte* data = nullptr;
    int64_t matrices = 1;                          // that the rows are shared out to: of experts
    std::span<const std::byte* const> parts = {};  // where they begin, if they lie apart

    // One of them.
    Input matrix(int64_t i) const {
        const int64_t each = rows / matrices;
        return {dtype, each, cols, parts.empty() ? row(i * each) : parts[static_cast<size_t>(i)]};
    }

    const std::byte* row(int64_t i) const { return data + static_cast<size_t>(i) * row_bytes(dtype, cols); }
    const float* f32(int64_t i = 0) const { return reinterpret_cast<const float*>(row(i)); }
    const int32_t* i32() const { return reinterpret_cast<const int32_t*>(data); }
};

// The value it makes: f32, or i32 for token ids.
struct Output {
    int64_t rows = 0;
    int64_t cols = 0;
    std::byte* data = nullptr;

    float* f32(int64_t i = 0) const { return reinterpret_cast<float*>(data) + i * cols; }
    int32_t* i32() const { return reinterpret_cast<int32_t*>(data); }
};

// What all kernels of a step share.
struct Step {
    const device::Batch* batch = nullptr;
    std::span<const int32_t> sequence_of_row;  // index into batch->sequences
    PagedCache* cache = nullptr;
    ThreadPool* threads = nullptr;
    std::span<std::byte> scratch;  // as many bytes as the kernel asked for, aligned to 64

    // body(begin, end, thread) over [0, count); unlike a bare std::function it never allocates.
    template <typename Body>
    void for_each_range(int64_t count, int64_t grain, const Body& body) const {
        threads->for_each_range(count, grain, std::cref(body));
    }
};

struct Args {
    std::span<const Input> in;
    Output out;
    const Step& step;
};

// The most calls that a kernel runs together.
inline constexpr size_t kMostTogether = 4;

// What is known of a node when it is compiled.
struct NodePlan {
    graph::InputTypes inputs;
    graph::TensorType output;
    graph::Extents limits;
    int threads = 1;
};

// A faster kernel than the reference, for the nodes that it supports.
template <typename T>
struct FastKernel {
    void (*run)(const T& op, const Args& args) = nullptr;
    bool (*supports)(const T& op, graph::InputTypes inputs) = nullptr;     // null: all
    size_t (*scratch_bytes)(const T& op, const NodePlan& plan) = nullptr;  // null: none
    // Several calls whose second input is the same, as one piece of work, for ops without attributes; null: one by one.
    void (*run_together)(std::span<const Args> calls) = nullptr;
};

// A kernel of any op.
struct Kernel {
    const graph::OpKind* kind = nullptr;
    bool reference = false;
    std::function<bool(const graph::Op&, graph::InputTypes)> supports;
    std::function<size_t(const graph::Op&, const NodePlan&)> scratch_bytes;
    std::function<void(const graph::Op&, const Args&)> run;
    void (*run_together)(std::span<const Args> calls) = nullptr;  // null: there are no such
};

void register_kernel(Kernel kernel);

// The fast kernel if there is one for this op and these inputs and it is not forbidden, else the reference, else null.
const Kernel* find_kernel(const graph::Op& op, graph::InputTypes inputs, bool reference_only);

// A static object in the kernel's own file: const Registration<op::RmsNorm> kRmsNormReference{rms_norm};
template <typename T>
struct Registration {
    // The reference takes inputs of any type that the op's shape rule allows.
    explicit Registration(void (*run)(const T&, const Args&)) {
        register_kernel({.kind = &graph::kind_of<T>(),
                         .reference = true,
                         .supports = [](const graph::Op&, graph::InputTypes) { return true; },
                         .scratch_bytes = [](const graph::Op&, const NodePlan&) { return size_t{0}; },
                         .run = [run](const graph::Op& op, const Args& args) { run(*op.as<T>(), args); }});
    }

    explicit Registration(FastKernel<T> fast) {
        register_kernel({.kind = &graph::kind_of<T>(),
                         .reference = false,
                         .supports =
                             [fast](const graph::Op& op, graph::InputTypes inputs) {
                                 return fast.supports == nullptr || fast.supports(*op.as<T>(), inputs);
                             },
                         .scratch_bytes =
                             [fast](const graph::Op& op, const NodePlan& plan) {
                                 return fast.scratch_bytes == nullptr ? 0 : fast.scratch_bytes(*op.as<T>(), plan);
                             },
                         .run = [fast](const graph::Op& op, const Args& args) { fast.run(*op.as<T>(), args); },
                         .run_together = fast.run_together});
    }
};

}  // namespace tandem::cpu
