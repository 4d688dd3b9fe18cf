// Differential tests of ops: the same inputs go through every device present and are compared with the reference.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/backend.h"
#include "graph/builder.h"

namespace tandem::test {

struct Device {
    std::string name;
    std::unique_ptr<device::Backend> backend;
    int64_t simd_targets = 0;  // of Highway, that the CPU may use; 0: all it has

    // The backend, made the one that runs next: the SIMD targets are a setting of the process.
    device::Backend& use() const;
};

// Every device and setting that ops are tested on. The first is the CPU reference, which the others are compared with.
const std::vector<Device>& devices();

// A tensor of any type in host memory.
struct HostTensor {
    DType dtype = DType::f32;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;

    std::vector<float> values() const;  // decoded
    HostTensor absolute() const;        // an f32 tensor of the magnitudes; one of i32 as it is
};

HostTensor tensor(std::vector<int64_t> shape, const std::vector<float>& values, DType dtype = DType::f32);
HostTensor integers(const std::vector<int32_t>& values);

// The same numbers on every machine, unlike the distributions of <random>.
class Rng {
  public:
    explicit Rng(uint64_t seed) : state_(seed) {}
    uint64_t next();
    float uniform(float low, float high);
    int below(int limit) { return static_cast<int>(next() % static_cast<uint64_t>(limit)); }

  private:
    uint64_t state_;
};

HostTensor uniform(Rng& rng, DType dtype, std::vector<int64_t> shape, float low = -1.0F, float high = 1.0F);

// How far two results may be apart: `relative` times the magnitude of what was summed, plus `absolute`.
// The magnitude of an element is what the reference gives for the magnitudes of the inputs (for a product of matrices
// the sum of |x||w|), so that cancellation in the result does not loosen or break the bound.
struct Tolerance {
    double relative = 0.0;
    double absolute = 0.0;

    static Tolerance exact() { return {}; }

    // A few roundings of f32, and the error of an approximated exp or tanh: a handful of ulps.
    static Tolerance rounding(int roundings = 8);

    // An f32 sum of n products. Each of the n additions errs by at most u = 2^-24 of a partial sum, which is at most
    // the sum of magnitudes S, with a deviation of u S / sqrt(3); independent, they add up to sqrt(n / 3) u S.
    // 8 deviations are allowed, and a few roundings. One product left out of a row would show as S / n.
    static Tolerance reduction(int64_t n);

    // A sum of n products w x of which x, uniform in [-1, 1], was rounded to 8 bits: steps of d = 1 / 127, so errors
    // with deviation d / sqrt(12) each, and sqrt(n) rms(w) d / sqrt(12) in the sum, while S = n mean|w| / 2. For w
    // uniform in [-1, 1], rms(w) = 1.155 mean|w|. Again 8 deviations.
    static Tolerance int8_activations(int64_t n);

    // Rotations and convex combinations are bounded by the largest operand, not by a sum of magnitudes.
    static Tolerance of_largest(float largest, double units);

    double bound(double magnitude) const { return relative * magnitude + absolute; }
};

// Runs what `build` makes of inputs that are all given; the shape of its result must not depend on the step.
using BuildGraph = std::function<graph::Tensor(graph::Graph&, const std::vector<graph::Tensor>&)>;
std::vector<float> run_graph(device::Backend& backend, const std::vector<HostTensor>& inputs, const BuildGraph& build);
// The same of one op.
std::vector<float> run_op(device::Backend& backend, const graph::Op& op, const std::vector<HostTensor>& inputs);

void expect_same_on_every_device(const graph::Op& op, const std::vector<HostTensor>& inputs,
                                 const Tolerance& tolerance);

// Fails, naming the first and worst element, when an element is further from what is expected than its bound.
void expect_close(const std::vector<float>& actual, const std::vector<float>& expected,
                  const std::vector<float>& magnitude, const Tolerance& tolerance);

}  // namespace tandem::test
