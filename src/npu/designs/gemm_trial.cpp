#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "npu/designs/trials.h"

namespace tandem::npu {
namespace {

// x and w in int8 with a scale for each row, and what x w^T is.
struct GemmProblem {
    GemmShape shape;
    GemmLayout layout;
    std::vector<int8_t> x, w;
    std::vector<float> x_scales, w_scales, bias;

    double product(int64_t row, int64_t column) const {
        int64_t sum = 0;
        const int8_t* const a = x.data() + row * shape.k;
        const int8_t* const b = w.data() + column * shape.k;
        for (int64_t i = 0; i < shape.k; ++i) sum += a[i] * b[i];
        return static_cast<double>(sum) * x_scales[static_cast<size_t>(row)] * w_scales[static_cast<size_t>(column)];
    }
    double added(int64_t column) const { return bias[static_cast<size_t>(column)]; }
};

void fill_random(GemmProblem& problem, std::mt19937& random) {
    std::uniform_int_distribution<int> value(-127, 127);
    std::uniform_real_distribution<float> scale(0.001F, 0.1F);
    problem.x.resize(static_cast<size_t>(problem.shape.m * problem.shape.k));
    problem.w.resize(static_cast<size_t>(problem.shape.n * problem.shape.k));
    problem.x_scales.resize(static_cast<size_t>(problem.shape.m));
    problem.w_scales.resize(static_cast<size_t>(problem.shape.n));
    for (int8_t& v : problem.x) v = static_cast<int8_t>(value(random));
    for (int8_t& v : problem.w) v = static_cast<int8_t>(value(random));
    for (float& v : problem.x_scales) v = scale(random);
    for (float& v : problem.w_scales) v = scale(random);
    problem.bias.resize(problem.w_scales.size());
    for (float& v : problem.bias) v = 1000 * scale(random);
}

// All results of a small product, as many of a large one as take a moment. Sums are exact; two products of floats
// follow, each with up to three roundings on the array, and the sum with the bias.
Result<int64_t> compare_gemm(const GemmProblem& problem, const std::vector<std::byte>& y) {
    constexpr int64_t kWork = int64_t{1} << 28;
    const double tolerance = 6 * std::ldexp(1.0, -24);
    const int64_t total = problem.shape.m * problem.shape.n;
    const int64_t compared = std::max<int64_t>(1, std::min(total, kWork / problem.shape.k));
    for (int64_t i = 0; i < compared; ++i) {
        // Spread over all of them: 7919 is a prime that divides none of our sizes.
        const int64_t at = compared == total ? i : (i * 7919) % total;
        const int64_t row = at / problem.shape.n;
        const int64_t column = at % problem.shape.n;
        float got = 0;
        std::memcpy(&got, y.data() + (row * problem.layout.n + column) * 4, sizeof(got));
        const double product = problem.product(row, column);
        const double wanted = product + problem.added(column);
        const double size = std::abs(product) + std::abs(problem.added(column));
        if (!(std::abs(got - wanted) <= size * tolerance))
            return fail("result ({}, {}) is {}, but a plain computation has {}", row, column, got, wanted);
    }
    return compared;
}

}  // namespace

Result<Trial> gemm_trial(const GemmShape& shape, uint32_t seed) {
    const auto problem = std::make_shared<GemmProblem>();
    problem->shape = shape;
    problem->layout = TRY(gemm_layout(shape));
    const GemmLayout& layout = problem->layout;
    if (layout.x_bytes() + layout.w_bytes() + layout.y_bytes() > kMaxTrialBytes)
        return fail("this product needs more than {} bytes of data: take a smaller one", kMaxTrialBytes);
    std::mt19937 random(seed);
    fill_random(*problem, random);
    Trial trial;
    trial.design = TRY(gemm_i8(layout));
    trial.arguments.resize(3);
    trial.arguments[0].resize(static_cast<size_t>(layout.x_bytes()));
    trial.arguments[1].resize(static_cast<size_t>(layout.w_bytes()));
    trial.arguments[2].assign(static_cast<size_t>(layout.y_bytes()), std::byte{0xff});  // not a number
    pack_x(layout, {problem->x, problem->x_scales, problem->shape.k}, trial.arguments[0]);
    pack_w(layout, {problem->w, problem->w_scales, problem->shape.k, problem->bias}, trial.arguments[1]);
    trial.compare = [problem](const auto& arguments) { return compare_gemm(*problem, arguments[2]); };
    return trial;
}

}  // namespace tandem::npu
