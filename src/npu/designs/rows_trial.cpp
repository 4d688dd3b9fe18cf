// Trials of the designs that work row by row: random rows, and what doubles make of them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "npu/designs/trials.h"

namespace tandem::npu {
namespace {

// Relative to the size of what is computed from: products of the array are within 2^-21, roots within 2^-18, powers,
// and what is multiplied with them, within 2^-14.
constexpr double kProductError = 1.0 / (1 << 18);
constexpr double kPowerError = 1.0 / (1 << 12);

using Floats = std::vector<float>;

// What was drawn for a trial: its operands, the results not among them.
struct RowProblem {
    RowFamily family;
    std::vector<int64_t> shape;
    std::vector<Floats> inputs;  // as long as the arguments of the design
    int64_t rows = 0;            // of which results are compared
    int64_t cols = 0;
};

struct Expected {
    double value = 0;
    double allowed = 0;
};

Expected expected_norm(const RowProblem& problem, int64_t row, int64_t col) {
    const float* const x = problem.inputs[0].data() + row * problem.cols;
    double squares = 0;
    for (int64_t i = 0; i < problem.cols; ++i) squares += static_cast<double>(x[i]) * x[i];
    const double root = std::sqrt(squares / static_cast<double>(problem.cols) + static_cast<double>(kTrialEps));
    const double value = x[col] / root * problem.inputs[1][static_cast<size_t>(col)];
    return {value, std::abs(value) * kProductError + 1e-30};
}

Expected expected_softmax(const RowProblem& problem, int64_t row, int64_t col) {
    const float* const x = problem.inputs[0].data() + row * problem.cols;
    const double most = *std::max_element(x, x + problem.cols);
    double sum = 0;
    for (int64_t i = 0; i < problem.cols; ++i) sum += std::exp(x[i] - most);
    const double value = std::exp(x[col] - most) / sum;
    return {value, value * kPowerError};
}

// Cosines and sines of a token come one after the other; element i of a head pairs with i + half.
Expected expected_rope(const RowProblem& problem, int64_t row, int64_t col) {
    const int64_t dim = problem.shape[2];
    const int64_t half = dim / 2;
    const float* const head = problem.inputs[0].data() + row * problem.cols + col / dim * dim;
    const float* const turns = problem.inputs[1].data() + row * dim;
    const int64_t pair = col % half;
    const double a = head[pair];
    const double b = head[pair + half];
    const double cosine = turns[pair];
    const double sine = turns[half + pair];
    const double value = col % dim < half ? a * cosine - b * sine : a * sine + b * cosine;
    return {value, (std::abs(a) + std::abs(b)) * kProductError};
}

Expected expected_elementwise(const RowProblem& problem, int64_t at) {
    const double a = problem.inputs[0][static_cast<size_t>(at)];
    const double b = problem.inputs[1][static_cast<size_t>(at)];
    if (problem.family == RowFamily::add) return {a + b, std::abs(a + b) / (1 << 24)};
    const double inner = std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a);
    const double activated =
        problem.family == RowFamily::silu_glu ? a / (1 + std::exp(-a)) : 0.5 * a * (1 + std::tanh(inner));
    return {activated * b, std::abs(a * b) * kPowerError};
}

Expected expected_at(const RowProblem& problem, int64_t row, int64_t col) {
    switch (problem.family) {
        case RowFamily::rms_norm:
            return expected_norm(problem, row, col);
        case RowFamily::softmax:
            return expected_softmax(problem, row, col);
        case RowFamily::rope:
            return expected_rope(problem, row, col);
        default:
            return expected_elementwise(problem, row * problem.cols + col);
    }
}

float float_at(const std::vector<std::byte>& bytes, int64_t index) {
    float value = 0;
    std::memcpy(&value, bytes.data() + index * static_cast<int64_t>(sizeof value), sizeof value);
    return value;
}

// All results of a small one, of a large one as many as take a moment.
Result<int64_t> compare_rows(const RowProblem& problem, const std::vector<std::byte>& y) {
    constexpr int64_t kMostCompared = 1 << 16;
    const int64_t total = problem.rows * problem.cols;
    const int64_t compared = std::min(total, kMostCompared);
    for (int64_t i = 0; i < compared; ++i) {
        const int64_t at = compared == total ? i : (i * 7919) % total;  // a prime spreads them
        const Expected expected = expected_at(problem, at / problem.cols, at % problem.cols);
        const float got = float_at(y, at);
        if (!(std::abs(got - expected.value) <= expected.allowed))
            return fail("result ({}, {}) is {}, but a plain computation has {}", at / problem.cols, at % problem.cols,
                        got, expected.value);
    }
    return compared;
}

// What comes back must be x again within half a step, and the steps those of the largest elements.
Result<int64_t> compare_quantized(const RowProblem& problem, const std::vector<std::vector<std::byte>>& arguments) {
    for (int64_t row = 0; row < problem.rows; ++row) {
        const float scale = float_at(arguments[2], row);
        for (int64_t col = 0; col < problem.cols; ++col) {
            const int64_t at = row * problem.cols + col;
            const double got = static_cast<double>(scale) * static_cast<int8_t>(arguments[1][static_cast<size_t>(at)]);
            const double wanted = problem.inputs[0][static_cast<size_t>(at)];
            if (!(std::abs(got - wanted) <= 0.501 * scale))
                return fail("result ({}, {}) is {}, but a plain computation has {} within half of {}", row, col, got,
                            wanted, scale);
        }
    }
    return problem.rows * problem.cols;
}

void fill_inputs(RowProblem& problem, std::mt19937& random, Trial& trial) {
    std::uniform_real_distribution<float> value(-2, 2);
    const auto& arguments = trial.design.sequence.arguments;
    trial.arguments.resize(arguments.size());
    const size_t outputs = problem.family == RowFamily::quantize ? 2 : 1;
    for (size_t i = 0; i < arguments.size(); ++i) {
        const auto bytes = static_cast<size_t>(arguments[i].type.size_bytes());
        if (i + outputs >= arguments.size()) {
            trial.arguments[i].assign(bytes, std::byte{0xff});  // not a number
            continue;
        }
        Floats& numbers = problem.inputs.emplace_back(bytes / sizeof(float));
        for (float& number : numbers) number = value(random);
        trial.arguments[i].resize(bytes);
        std::memcpy(trial.arguments[i].data(), numbers.data(), bytes);
    }
}

}  // namespace

Result<RowDesign> row_family_design(RowFamily family, const std::vector<int64_t>& shape, const std::string& array) {
    switch (family) {
        case RowFamily::rms_norm:
            return rms_norm_design({.rows = shape[0], .cols = shape[1], .eps = kTrialEps, .array = array});
        case RowFamily::softmax:
            return softmax_design({.rows = shape[0], .cols = shape[1], .array = array});
        case RowFamily::rope:
            return rope_design({.tokens = shape[0], .heads = shape[1], .head_dim = shape[2], .array = array});
        case RowFamily::add:
            return add_design({.count = shape[0], .array = array});
        case RowFamily::silu_glu:
            return glu_design({.count = shape[0], .array = array}, 0);
        case RowFamily::gelu_glu:
            return glu_design({.count = shape[0], .array = array}, 1);
        case RowFamily::quantize:
            return quantize_design({.rows = shape[0], .cols = shape[1], .array = array});
    }
    CHECK(false, "every family has a design");
}

Result<Trial> row_trial(RowFamily family, const std::vector<int64_t>& shape, const std::string& array, uint32_t seed) {
    RowDesign made = TRY(row_family_design(family, shape, array));
    int64_t bytes = 0;
    for (const auto& argument : made.design.sequence.arguments) bytes += argument.type.size_bytes();
    if (bytes > kMaxTrialBytes)
        return fail("these rows need more than {} bytes of data: take fewer of them", kMaxTrialBytes);
    const auto problem = std::make_shared<RowProblem>();
    problem->family = family;
    problem->shape = shape;
    problem->rows = shape[0];
    problem->cols = std::accumulate(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies<>());
    Trial trial;
    trial.design = std::move(made.design);
    std::mt19937 random(seed);
    fill_inputs(*problem, random, trial);
    trial.compare = [problem](const auto& arguments) {
        return problem->family == RowFamily::quantize ? compare_quantized(*problem, arguments)
                                                      : compare_rows(*problem, arguments.back());
    };
    return trial;
}

}  // namespace tandem::npu
