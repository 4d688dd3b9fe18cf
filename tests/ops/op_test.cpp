#include "ops/op_test.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/backend.h"
#include "format/quant.h"
#include "graph/builder.h"
#ifdef TANDEM_VULKAN
#include "vulkan/backend.h"
#endif

namespace tandem::test {

namespace {

constexpr double kUnit = 0x1p-24;  // relative rounding error of f32

int64_t count(const std::vector<int64_t>& shape) {
    int64_t product = 1;
    for (int64_t extent : shape) product *= extent;
    return product;
}

graph::TensorType type_of(const HostTensor& tensor) {
    graph::TensorType type{tensor.dtype, {}};
    for (int64_t extent : tensor.shape) type.shape.push_back(graph::Dim::of(extent));
    return type;
}

Device cpu_device(const std::string& name, const cpu::Options& options) {
    auto backend = cpu::make_backend(options);
    return {.name = name, .backend = std::move(backend).value()};
}

}  // namespace

const std::vector<Device>& devices() {
    static const std::vector<Device> all = [] {
        std::vector<Device> made;
        made.push_back(cpu_device("cpu reference", {.threads = 1, .reference = true}));
        for (int threads : {1, 2, 3})
            made.push_back(cpu_device(fmt::format("cpu with {} threads", threads), {.threads = threads}));
        for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
            made.push_back(cpu_device(fmt::format("cpu with {}", hwy::TargetName(target)), {.threads = 2}));
            made.back().simd_targets = target;
        }
#ifdef TANDEM_VULKAN
        // Every op by itself, with validation; on a machine with no GPU this is the software device. Fused stages have
        // tests of their own in tests/unit/vulkan and tests/golden.
        made.push_back(
            {.name = "vulkan", .backend = vulkan::make_backend({.exact = true, .validation = true}).value()});
#endif
        return made;
    }();
    return all;
}

device::Backend& Device::use() const {
    hwy::SetSupportedTargetsForTest(simd_targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return *backend;
}

std::vector<float> HostTensor::values() const {
    std::vector<float> decoded(static_cast<size_t>(count(shape)));
    format::decode_row(dtype, bytes.data(), decoded.data(), count(shape));
    return decoded;
}

HostTensor HostTensor::absolute() const {
    if (dtype == DType::i32) return *this;
    std::vector<float> magnitudes = values();
    for (float& value : magnitudes) value = std::fabs(value);
    return tensor(shape, magnitudes);
}

HostTensor tensor(std::vector<int64_t> shape, const std::vector<float>& values, DType dtype) {
    HostTensor made{dtype, std::move(shape), {}};
    CHECK(static_cast<int64_t>(values.size()) == count(made.shape));
    made.bytes.resize(row_bytes(dtype, count(made.shape)));
    format::encode_row(dtype, values.data(), made.bytes.data(), count(made.shape));
    return made;
}

HostTensor integers(const std::vector<int32_t>& values) {
    HostTensor made{DType::i32, {static_cast<int64_t>(values.size())}, {}};
    made.bytes.resize(values.size() * sizeof(int32_t));
    std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
    return made;
}

uint64_t Rng::next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

float Rng::uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(next() >> 40) * 0x1p-24F;
}

HostTensor uniform(Rng& rng, DType dtype, std::vector<int64_t> shape, float low, float high) {
    std::vector<float> values(static_cast<size_t>(count(shape)));
    for (float& value : values) value = rng.uniform(low, high);
    return tensor(std::move(shape), values, dtype);
}

Tolerance Tolerance::rounding(int roundings) {
    return {.relative = roundings * kUnit};
}

Tolerance Tolerance::reduction(int64_t n) {
    return {.relative = (8.0 * std::sqrt(static_cast<double>(n) / 3.0) + 4.0) * kUnit};
}

Tolerance Tolerance::int8_activations(int64_t n) {
    const double deviation = 1.155 / 127.0 / std::sqrt(12.0) * 2.0 / std::sqrt(static_cast<double>(n));
    return {.relative = 8.0 * deviation + reduction(n).relative};
}

Tolerance Tolerance::of_largest(float largest, double units) {
    return {.absolute = largest * units * kUnit};
}

std::vector<float> run_op(device::Backend& backend, const graph::Op& op, const std::vector<HostTensor>& inputs) {
    return run_graph(backend, inputs, [&](graph::Graph& g, const auto& tensors) { return g.apply(op, tensors); });
}

std::vector<float> run_graph(device::Backend& backend, const std::vector<HostTensor>& inputs, const BuildGraph& build) {
    graph::Graph g;
    graph::Weights weights;
    std::vector<graph::Tensor> tensors;
    for (size_t i = 0; i < inputs.size(); ++i) {
        const std::string name = fmt::format("input {}", i);
        weights.add(name, {inputs[i].dtype, inputs[i].shape, inputs[i].bytes});
        tensors.push_back(g.weight(name, type_of(inputs[i])));
    }
    const graph::Tensor y = build(g, tensors);
    const bool integer = g.type(y).dtype == DType::i32;
    g.result("y", y);
    auto executable = backend.compile(std::move(g).finish(), weights, nullptr, {.limits = {}, .results = {"y"}});
    EXPECT_TRUE(executable) << executable.error().message;
    const Status status = device::run(**executable, {});
    EXPECT_TRUE(status) << status.error().message;
    if (integer) {
        const auto ids = device::result_as<int32_t>(**executable, 0);
        return {ids.begin(), ids.end()};
    }
    const auto values = device::result_as<float>(**executable, 0);
    return {values.begin(), values.end()};
}

void expect_close(const std::vector<float>& actual, const std::vector<float>& expected,
                  const std::vector<float>& magnitude, const Tolerance& tolerance) {
    ASSERT_EQ(actual.size(), expected.size());
    ASSERT_EQ(magnitude.size(), expected.size());
    size_t bad = 0;
    size_t worst = 0;
    double worst_ratio = 0.0;
    for (size_t i = 0; i < actual.size(); ++i) {
        if (actual[i] == expected[i]) continue;
        const double bound = tolerance.bound(magnitude[i]);
        const double error = std::fabs(double{actual[i]} - expected[i]);
        if (error <= bound) continue;  // false for NaN
        ++bad;
        const double ratio = std::isnan(error) || bound == 0.0 ? HUGE_VAL : error / bound;
        if (ratio >= worst_ratio) {
            worst_ratio = ratio;
            worst = i;
        }
    }
    EXPECT_EQ(bad, 0U) << "of " << actual.size() << " elements; the worst is element " << worst << ": "
                       << (bad > 0 ? actual[worst] : 0) << " where " << (bad > 0 ? expected[worst] : 0)
                       << " was expected, " << worst_ratio << " times the bound";
}

void expect_same_on_every_device(const graph::Op& op, const std::vector<HostTensor>& inputs,
                                 const Tolerance& tolerance) {
    std::vector<HostTensor> magnitudes;
    magnitudes.reserve(inputs.size());
    for (const HostTensor& input : inputs) magnitudes.push_back(input.absolute());
    const std::vector<float> expected = run_op(devices().front().use(), op, inputs);
    const std::vector<float> magnitude = run_op(devices().front().use(), op, magnitudes);
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        expect_close(run_op(device.use(), op, inputs), expected, magnitude, tolerance);
    }
}

}  // namespace tandem::test
