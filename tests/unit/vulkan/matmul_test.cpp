#include "vulkan/kernels/matmul.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include <gmock/gmock.h>

#include "base/float16.h"
#include "unit/vulkan/gpu.h"
#include "unit/vulkan/host_math.h"

namespace tandem::vulkan {
namespace {

struct MatmulCase {
    DType dtype = DType::q4_0;
    uint32_t rows = 2;
    uint32_t outputs = 64;
    uint32_t inputs = 32;
    std::optional<op::Activation> glu;
    bool bias = false;
    MatmulTuning tuning{.tile_rows = 32, .tile_cols = 64, .warp_rows = 16, .warp_cols = 32, .groups = 1};
};

// A result and how far the device may be from it.
struct Bounded {
    double value = 0;
    double error = 0;
};

class Numbers {
  public:
    float next() { return static_cast<float>(engine_() >> 8) * 0x1p-23F - 1.0F; }  // of [-1, 1)

    std::vector<float> vector(size_t count, float magnitude) {
        std::vector<float> values(count);
        for (float& value : values) value = magnitude * next();
        return values;
    }

  private:
    std::mt19937 engine_{42};
};

double activate(op::Activation kind, double x) {
    switch (kind) {
        case op::Activation::silu:
            return x / (1 + std::exp(-x));
        case op::Activation::gelu_tanh:
            return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
        case op::Activation::gelu_erf:
            return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
        case op::Activation::clamped:
            break;  // no function of the gate alone: tests/ops has it
    }
    return 0;
}

// The weight, activations and results of a case, on the host and on the device.
class Product {
  public:
    explicit Product(const MatmulCase& c) : case_(c) {
        const HostMatrix matrix = random_matrix(rng_, c.dtype, c.outputs, c.inputs, 0.1F);
        weight_ = matrix.values;
        call_.weight = upload_planes(matrix);
        make_activations();
        bias_ = numbers_.vector(c.outputs, 1.0F);
        call_.dtype = c.dtype;
        call_.outputs = c.outputs;
        call_.inputs = c.inputs;
        call_.rows = c.rows;
        call_.glu = c.glu;
        call_.bias = c.bias ? gpu().upload(bias_).address : 0;
    }

    const MatmulCall& call() const { return call_; }

    void expect_agreement() {
        const Tuning tuning{.matmul = {case_.tuning}};
        const uint32_t splits = matmul_splits(tuning, call_);
        const size_t results = size_t{case_.rows} * (case_.glu ? case_.outputs / 2 : case_.outputs);
        const float untouched = -12345.0F;
        const Buffer y = gpu().upload(std::vector<float>(splits * results + kGuard, untouched));
        call_.y = y.address;
        gpu().run(
            [&](Recorder& recorder) { return record_matmul(recorder, tuning, gpu().device()->capabilities(), call_); });
        const auto got = gpu().read<float>(y);
        for (size_t i = 0; i < kGuard; ++i) ASSERT_EQ(got[splits * results + i], untouched) << "written past the end";
        const size_t cols = results / case_.rows;
        for (size_t i = 0; i < results; ++i) {
            double sum = 0;
            for (size_t s = 0; s < splits; ++s) sum += got[s * results + i];
            const Bounded want = expected(i / cols, i % cols);
            ASSERT_NEAR(sum, want.value, want.error) << "row " << i / cols << ", output " << i % cols << " of " << cols;
        }
    }

  private:
    static constexpr size_t kGuard = 256;

    void make_activations() {
        const size_t count = size_t{case_.rows} * case_.inputs;
        std::vector<uint16_t> halves(count);
        x_.resize(count);
        for (size_t i = 0; i < count; ++i) {
            halves[i] = f32_to_f16(numbers_.next());
            x_[i] = f16_to_f32(halves[i]);
        }
        for (uint32_t row = 0; row < case_.rows; ++row)
            scales_.push_back(std::ldexp(1.0F, static_cast<int>(row % 5) - 2));
        const Buffer x = gpu().buffer(count * 2 + scales_.size() * 4);
        std::memcpy(x.mapped, halves.data(), count * 2);
        std::memcpy(x.mapped + count * 2, scales_.data(), scales_.size() * 4);
        call_.x = x.address;
    }

    // Each weight is rounded to f16: the error of a product is up to 2^-11 of it, with a deviation of 2^-11 / sqrt(3);
    // independent, those of a sum have the root of the squares' sum; 8 deviations are allowed. Below the normal numbers
    // of f16 a weight errs by 2^-25 at most. The f32 sum errs by u = 2^-24 of a partial sum at each addition.
    Bounded linear(size_t row, size_t output) const {
        double sum = 0;
        double squares = 0;
        double magnitude = 0;
        double x_magnitude = 0;
        for (size_t i = 0; i < case_.inputs; ++i) {
            const double x = x_[row * case_.inputs + i];
            const double product = x * weight_[output * case_.inputs + i];
            sum += product;
            squares += product * product;
            magnitude += std::abs(product);
            x_magnitude += std::abs(x);
        }
        const double error = 8 * 0x1p-11 / std::numbers::sqrt3 * std::sqrt(squares) + 0x1p-25 * x_magnitude +
                             0x1p-24 * case_.inputs * magnitude;
        const double bias = case_.bias ? static_cast<double>(bias_[output]) : 0.0;
        const double value = sum * scales_[row] + bias;
        return {value, error * scales_[row] + 0x1p-22 * std::abs(value)};
    }

    // No activation is steeper than 1.13, and their approximations err by less than 1e-6 of what goes in.
    Bounded expected(size_t row, size_t result) const {
        const Bounded gate = linear(row, result);
        if (!case_.glu) return gate;
        const Bounded up = linear(row, case_.outputs / 2 + result);
        const double active = activate(*case_.glu, gate.value);
        const double active_error = 1.13 * gate.error + 1e-6 * (1 + std::abs(gate.value));
        return {active * up.value, active_error * (std::abs(up.value) + up.error) + std::abs(active) * up.error};
    }

    MatmulCase case_;
    std::mt19937 rng_{43};
    Numbers numbers_;
    std::vector<float> weight_;
    std::vector<float> x_;
    std::vector<float> scales_;
    std::vector<float> bias_;
    MatmulCall call_;
};

void expect_agreement(const MatmulCase& c) {
    SCOPED_TRACE(fmt::format("{}: {} rows, {} x {}; tile {} x {} x {}, warp {} x {}, {} stages", name(c.dtype), c.rows,
                             c.outputs, c.inputs, c.tuning.tile_rows, c.tuning.tile_cols, c.tuning.depth,
                             c.tuning.warp_rows, c.tuning.warp_cols, c.tuning.stages));
    Product(c).expect_agreement();
}

// Asked for where the others are run for the sake of the matrices of a device.
TEST(DISABLED_Matmul, IsByMatrices) {
    EXPECT_TRUE(gpu().device()->capabilities().cooperative_matrix);
}

TEST(Matmul, DecodesEveryWeightType) {
    for (const DType dtype : matrix_types()) {
        for (uint32_t outputs : {70U, 80U})  // the second in tiles
            expect_agreement({.dtype = dtype, .rows = 17, .outputs = outputs, .inputs = 512});
    }
}

TEST(Matmul, TakesAnyNumberOfRows) {
    for (uint32_t rows : {2U, 3U, 8U, 17U, 33U, 64U, 65U, 130U}) {
        expect_agreement({.rows = rows, .outputs = 70, .inputs = 96});
    }
}

TEST(Matmul, TakesAnyNumberOfOutputsAndBlocks) {
    for (uint32_t outputs : {1U, 16U, 63U, 64U, 65U, 200U}) {
        for (uint32_t inputs : {32U, 96U, 320U}) {
            for (uint32_t depth : {32U, 64U, 128U}) {
                MatmulCase c{.rows = 5, .outputs = outputs, .inputs = inputs};
                c.tuning.depth = depth;
                expect_agreement(c);
            }
        }
    }
}

TEST(Matmul, GivesTheSameWithEveryTuning) {
    const MatmulTuning tunings[] = {
        {.tile_rows = 8, .tile_cols = 128, .depth = 64, .warp_rows = 8, .warp_cols = 32},
        {.tile_rows = 16, .tile_cols = 64, .depth = 128, .warp_rows = 16, .warp_cols = 64},
        {.tile_rows = 24, .tile_cols = 64, .depth = 64, .warp_rows = 24, .warp_cols = 32, .stages = 2},
        {.tile_rows = 128, .tile_cols = 128, .depth = 32, .warp_rows = 64, .warp_cols = 64},
    };
    for (const MatmulTuning& tuning : tunings) {
        expect_agreement({.rows = 65, .outputs = 200, .inputs = 160, .tuning = tuning});
    }
    const op::Activation glu = op::Activation::silu;
    expect_agreement({.rows = 20, .outputs = 140, .inputs = 96, .glu = glu, .tuning = tunings[2]});
}

TEST(Matmul, GivesTheSameInBandsOfRowTiles) {
    MatmulCase c{.rows = 300, .outputs = 70, .inputs = 64};
    c.tuning.tile_rows = 16;  // 19 tiles, of which a band has 16
    expect_agreement(c);
}

TEST(Matmul, AppliesTheGluToGateAndUp) {
    for (op::Activation glu : {op::Activation::silu, op::Activation::gelu_tanh, op::Activation::gelu_erf}) {
        for (bool bias : {false, true}) {
            expect_agreement({.rows = 19, .outputs = 2 * 75, .inputs = 128, .glu = glu, .bias = bias});
        }
    }
}

TEST(Matmul, AddsTheBias) {
    expect_agreement({.rows = 18, .outputs = 70, .inputs = 64, .bias = true});
}

TEST(Matmul, SplitsNarrowProductsAlongTheirInputs) {
    MatmulCase c{.rows = 9, .outputs = 70, .inputs = 1056, .bias = true};
    c.tuning.groups = 264;
    EXPECT_EQ(matmul_splits({.matmul = {c.tuning}}, Product(c).call()), 7U);  // 33 steps: 7 times 5 at most
    expect_agreement(c);
    c.tuning.depth = 64;
    expect_agreement(c);
    c.tuning.groups = 6;  // two tiles, so three times
    EXPECT_EQ(matmul_splits({.matmul = {c.tuning}}, Product(c).call()), 3U);
    expect_agreement(c);
}

TEST(Matmul, SplitsNeitherManyRowsNorAGlu) {
    MatmulCase c{.rows = 65, .outputs = 32, .inputs = 1024};
    c.tuning.groups = 264;
    EXPECT_EQ(matmul_splits({.matmul = {c.tuning}}, Product(c).call()), 1U);
    c.rows = 9;
    c.glu = op::Activation::silu;
    EXPECT_EQ(matmul_splits({.matmul = {c.tuning}}, Product(c).call()), 1U);
}

TEST(Matmul, ChoosesTheTuningByRows) {
    const MatmulTuning few{
        .max_rows = 8, .tile_rows = 8, .tile_cols = 32, .warp_rows = 8, .warp_cols = 32, .groups = 8};
    const MatmulTuning many{
        .max_rows = 16, .tile_rows = 16, .tile_cols = 32, .warp_rows = 16, .warp_cols = 32, .groups = 4};
    MatmulCall call{.outputs = 32, .inputs = 1024, .rows = 8};
    EXPECT_EQ(matmul_splits({.matmul = {few, many}}, call), 8U);
    call.rows = 9;
    EXPECT_EQ(matmul_splits({.matmul = {few, many}}, call), 4U);
    call.rows = 17;  // two tiles; the last tuning takes any number
    EXPECT_EQ(matmul_splits({.matmul = {few, many}}, call), 2U);
}

TEST(FitMatmul, DefaultsFitEveryDevice) {
    for (VkPhysicalDeviceType type : {VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, VK_PHYSICAL_DEVICE_TYPE_CPU}) {
        for (uint32_t subgroup : {8U, 32U, 64U}) {
            const Capabilities least{
                .min_subgroup = subgroup, .max_subgroup = subgroup, .shared_bytes = 32 << 10, .max_workgroup = 1024};
            for (const MatmulTuning& tuning : default_tuning({.type = type}).matmul) {
                const Result<MatmulTuning> fitted = fit_matmul(tuning, least);
                EXPECT_TRUE(fitted) << fitted.error().message;
            }
        }
    }
}

TEST(FitMatmul, GivesUpStagesThenDepthThenTheTile) {
    Capabilities device{.min_subgroup = 32, .max_subgroup = 32, .shared_bytes = 48 << 10, .max_workgroup = 1024};
    const MatmulTuning wanted{
        .tile_rows = 128, .tile_cols = 128, .depth = 64, .warp_rows = 64, .warp_cols = 64, .stages = 2};
    EXPECT_EQ(fit_matmul(wanted, device)->stages, 1U);
    EXPECT_EQ(fit_matmul(wanted, device)->depth, 64U);
    device.shared_bytes = 32 << 10;
    EXPECT_EQ(fit_matmul(wanted, device)->depth, 32U);
    device.shared_bytes = 16 << 10;
    EXPECT_THAT(fit_matmul(wanted, device).error().message,
                testing::HasSubstr("shared memory, the device has 1024 and 16384"));
    device = {.min_subgroup = 64, .max_subgroup = 64, .shared_bytes = 48 << 10, .max_workgroup = 128};
    EXPECT_THAT(fit_matmul(wanted, device).error().message, testing::HasSubstr("needs 256 lanes"));
}

TEST(FitMatmul, TakesWholeMatricesWhereThereAreNoNarrowOnes) {
    Capabilities device{.min_subgroup = 32,
                        .max_subgroup = 64,
                        .shared_bytes = 48 << 10,
                        .max_workgroup = 1024,
                        .cooperative_matrix = true};
    const MatmulTuning narrow{.tile_rows = 24, .tile_cols = 64, .warp_rows = 24, .warp_cols = 32};
    EXPECT_EQ(fit_matmul(narrow, device)->tile_rows, 32U);
    device.narrow_matrix = true;
    EXPECT_EQ(*fit_matmul(narrow, device), narrow);
    device.narrow_matrix = false;
    device.fragment = {.cols = 8, .rows = 8, .depth = 8};
    EXPECT_EQ(*fit_matmul(narrow, device), narrow) << "its own are as narrow";
}

TEST(FitMatmul, RefusesTilesThatAreNoMultiples) {
    const Capabilities device{.min_subgroup = 32, .max_subgroup = 32, .shared_bytes = 48 << 10, .max_workgroup = 1024};
    const MatmulTuning good{.tile_rows = 32, .tile_cols = 64, .warp_rows = 16, .warp_cols = 32};
    EXPECT_TRUE(fit_matmul(good, device));
    for (uint32_t MatmulTuning::*member : {&MatmulTuning::tile_rows, &MatmulTuning::tile_cols, &MatmulTuning::depth,
                                           &MatmulTuning::warp_rows, &MatmulTuning::warp_cols, &MatmulTuning::stages}) {
        for (uint32_t bad : {0U, 12U}) {
            MatmulTuning tuning = good;
            tuning.*member = bad;
            EXPECT_FALSE(fit_matmul(tuning, device)) << bad;
        }
    }
}

}  // namespace
}  // namespace tandem::vulkan
