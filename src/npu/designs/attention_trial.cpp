#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "npu/designs/quantize_row.h"
#include "npu/designs/trials.h"

namespace tandem::npu {
namespace {

constexpr int64_t kTrialScaleBlock = 32;

// Queries, keys and values as the array gets them: rounded to int8.
struct AttentionProblem {
    AttentionShape shape;
    AttentionLayout layout;
    std::vector<float> q;     // [tokens][heads][head_dim]
    std::vector<float> k, v;  // [keys][kv_heads][head_dim]

    float scale() const { return 1 / std::sqrt(static_cast<float>(shape.head_dim)); }
    int64_t first_position() const { return shape.keys - shape.tokens; }
    const float* row(const std::vector<float>& of, int64_t key, int64_t kv_head) const {
        return of.data() + (key * shape.kv_heads + kv_head) * shape.head_dim;
    }
};

void make_random_queries(AttentionProblem& problem, std::mt19937& random, std::vector<std::byte>& packed) {
    const AttentionShape& shape = problem.shape;
    std::uniform_real_distribution<float> value(-1, 1);
    problem.q.resize(static_cast<size_t>(shape.tokens * shape.heads * shape.head_dim));
    for (float& number : problem.q) number = value(random);
    pack_queries(problem.layout,
                 {.values = problem.q.data(),
                  .tokens = shape.tokens,
                  .stride = shape.heads * shape.head_dim,
                  .first_position = static_cast<int32_t>(problem.first_position()),
                  .scale = problem.scale()},
                 packed);
    std::vector<int8_t> row(static_cast<size_t>(shape.head_dim));
    for (size_t at = 0; at < problem.q.size(); at += row.size()) {
        const float scale = quantize_row({problem.q.data() + at, row.size()}, row);
        for (size_t i = 0; i < row.size(); ++i) problem.q[at + i] = static_cast<float>(row[i]) * scale;
    }
}

// A row of int8 with its scales; what it means goes to `numbers`.
struct RandomRow {
    std::vector<int8_t> values;
    std::vector<float> scales;

    RandomRow(int64_t head_dim, std::mt19937& random, std::vector<float>& numbers)
        : values(static_cast<size_t>(head_dim)), scales(static_cast<size_t>(head_dim / kTrialScaleBlock)) {
        std::uniform_int_distribution<int> value(-127, 127);
        std::uniform_real_distribution<float> scale(0.2F / 127, 1.0F / 127);
        for (float& block : scales) block = scale(random);
        for (size_t i = 0; i < values.size(); ++i) {
            values[i] = static_cast<int8_t>(value(random));
            numbers.push_back(static_cast<float>(values[i]) * scales[i / kTrialScaleBlock]);
        }
    }
};

void make_random_keys(AttentionProblem& problem, std::mt19937& random, std::vector<std::byte>& packed) {
    const AttentionShape& shape = problem.shape;
    for (int64_t index = 0; index < shape.keys; ++index) {
        for (int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
            const RandomRow key(shape.head_dim, random, problem.k);
            const RandomRow value(shape.head_dim, random, problem.v);
            put_key_value(problem.layout,
                          {.kv_head = kv_head,
                           .index = index,
                           .key = key.values,
                           .value = value.values,
                           .key_scales = key.scales,
                           .value_scales = value.scales},
                          packed);
        }
    }
    set_keys(problem.layout, 0, shape.keys, packed);
}

// Values are below 1: a weight is off by half of 1/255 of the largest (and 2^-14), the power of two and the sum by 2^-8
// each, a score by 2^-15 of the magnitudes in it.
Status compare_row(const AttentionProblem& problem, int64_t token, int64_t head, const float* got) {
    const AttentionShape& shape = problem.shape;
    const int64_t kv_head = head / (shape.heads / shape.kv_heads);
    const float* const q = problem.q.data() + (token * shape.heads + head) * shape.head_dim;
    std::vector<double> weights(static_cast<size_t>(problem.first_position() + token + 1));
    for (size_t key = 0; key < weights.size(); ++key) {
        const float* const k = problem.row(problem.k, static_cast<int64_t>(key), kv_head);
        for (int64_t i = 0; i < shape.head_dim; ++i) weights[key] += static_cast<double>(q[i]) * k[i] * problem.scale();
    }
    const double largest = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    const double bound = (0.5 / 255 + std::ldexp(1.0, -14)) * static_cast<double>(shape.keys) / sum +
                         4 * (std::ldexp(1.0, -8) + 2.0 * static_cast<double>(shape.head_dim) * std::ldexp(1.0, -15));
    for (int64_t i = 0; i < shape.head_dim; ++i) {
        double wanted = 0;
        for (size_t key = 0; key < weights.size(); ++key)
            wanted += weights[key] / sum * problem.row(problem.v, static_cast<int64_t>(key), kv_head)[i];
        if (!(std::abs(got[i] - wanted) <= bound))
            return fail("element {} of token {}, head {} is {}, but a plain computation has {} (within {})", i, token,
                        head, got[i], wanted, bound);
    }
    return Ok{};
}

// As many rows as take a moment.
Result<int64_t> compare_attention(const AttentionProblem& problem, const std::vector<std::byte>& y) {
    constexpr int64_t kWork = int64_t{1} << 27;
    const AttentionShape& shape = problem.shape;
    const AttentionLayout& layout = problem.layout;
    const int64_t group = shape.heads / shape.kv_heads;
    const int64_t total = shape.tokens * shape.heads;
    const int64_t step = std::max<int64_t>(1, total * shape.keys * shape.head_dim / kWork);
    std::vector<float> row(static_cast<size_t>(shape.head_dim));
    int64_t compared = 0;
    for (int64_t at = 0; at < total; at += step) {
        const int64_t token = at / shape.heads;
        const int64_t head = at % shape.heads;
        const int64_t place =
            ((token * layout.kv_heads + head / group) * layout.group + head % group) * layout.head_dim;
        std::memcpy(row.data(), y.data() + place * 4, row.size() * sizeof(float));
        TRY(compare_row(problem, token, head, row.data()));
        compared += shape.head_dim;
    }
    return compared;
}

}  // namespace

Result<Trial> attention_trial(const AttentionShape& shape, uint32_t seed) {
    if (shape.keys < shape.tokens)
        return fail("{} tokens are to see {} keys: they see themselves", shape.tokens, shape.keys);
    const auto problem = std::make_shared<AttentionProblem>();
    problem->shape = shape;
    problem->layout = TRY(attention_layout(shape));
    const AttentionLayout& layout = problem->layout;
    if (layout.q_bytes() + layout.kv_bytes() + layout.y_bytes() > kMaxTrialBytes)
        return fail("this attention needs more than {} bytes of data: take a smaller one", kMaxTrialBytes);
    Trial trial;
    trial.design = TRY(attention_i8(layout));
    trial.arguments.resize(3);
    trial.arguments[0].resize(static_cast<size_t>(layout.q_bytes()));
    trial.arguments[1].resize(static_cast<size_t>(layout.kv_bytes()));
    trial.arguments[2].assign(static_cast<size_t>(layout.y_bytes()), std::byte{0xff});  // not a number
    std::mt19937 random(seed);
    make_random_queries(*problem, random, trial.arguments[0]);
    make_random_keys(*problem, random, trial.arguments[1]);
    trial.compare = [problem](const auto& arguments) { return compare_attention(*problem, arguments[2]); };
    return trial;
}

}  // namespace tandem::npu
