// Routers and experts: hand-worked examples, an independent computation of random ones, and every device against the
// reference, also where one expert has all rows and others none.
#include <algorithm>
#include <cmath>
#include <set>

#include "format/quant.h"
#include "graph/ops.h"
#include "ops/op_test.h"

namespace tandem::test {

namespace {

device::Backend& first_device() {
    return devices().front().use();
}

// What a row's experts weigh, written out for one expert at a time: an expert is chosen if fewer than `used` are
// better.
std::vector<float> expected_routing(const op::Route& op, const std::vector<float>& logits,
                                    const std::vector<float>& bias) {
    const auto experts = static_cast<int>(logits.size());
    double exps = 0.0;
    for (const float logit : logits) exps += std::exp(double{logit});
    std::vector<double> score;
    std::vector<double> value;
    for (int e = 0; e < experts; ++e) {
        const double x = logits[e];
        score.push_back(op.score == op::Score::softmax   ? std::exp(x) / exps
                        : op.score == op::Score::sigmoid ? 1.0 / (1.0 + std::exp(-x))
                                                         : x);
        value.push_back(score.back() + (bias.empty() ? 0.0 : bias[e]));
    }
    const int size = experts / op.groups;
    const auto worth = [&](int group) {
        std::multiset<double, std::greater<>> members(value.begin() + group * size, value.begin() + (group + 1) * size);
        return *members.begin() + (size > 1 ? *std::next(members.begin()) : 0.0);
    };
    const auto group_kept = [&](int group) {
        int better = 0;
        for (int g = 0; g < op.groups; ++g) better += worth(g) > worth(group) ? 1 : 0;
        return better < op.used_groups;
    };
    std::vector<float> routing(static_cast<size_t>(2 * op.used));
    double sum = 0.0;
    for (int e = 0; e < experts; ++e) {
        if (!group_kept(e / size)) continue;
        int better = 0;
        for (int other = 0; other < experts; ++other)
            better += group_kept(other / size) && value[other] > value[e] ? 1 : 0;
        if (better >= op.used) continue;
        const double weight = op.score == op::Score::chosen_softmax ? std::exp(score[e]) : score[e];
        routing[better] = static_cast<float>(e);
        routing[op.used + better] = static_cast<float>(weight);
        sum += weight;
    }
    const bool divided = op.normalize || op.score == op::Score::chosen_softmax;
    for (int s = 0; s < op.used; ++s) routing[op.used + s] *= static_cast<float>(op.scale / (divided ? sum : 1.0));
    return routing;
}

struct Case {
    int64_t experts, rows, out, in;
    int used;
    bool same_x;  // for all experts of a row
    op::ExpertLinear op;
};

// [rows, 2 * used] with `used` experts of each row chosen by `pick(row, slot)`, all of them different.
template <class Pick>
HostTensor routing_of(Rng& rng, int64_t rows, int used, const Pick& pick) {
    std::vector<float> values;
    for (int64_t r = 0; r < rows; ++r) {
        for (int s = 0; s < used; ++s) values.push_back(static_cast<float>(pick(r, s)));
        for (int s = 0; s < used; ++s) values.push_back(rng.uniform(0.05F, 1.0F));
    }
    return tensor({rows, 2 * used}, values);
}

HostTensor random_routing(Rng& rng, int64_t rows, int64_t experts, int used) {
    std::vector<int> order;
    return routing_of(rng, rows, used, [&](int64_t, int slot) {
        if (slot == 0) {
            order.resize(static_cast<size_t>(experts));
            for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
            for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.next() % i]);
        }
        return order[static_cast<size_t>(slot)];
    });
}

std::vector<HostTensor> inputs_of(Rng& rng, const Case& c, DType dtype, const HostTensor& routing) {
    std::vector<HostTensor> inputs = {uniform(rng, dtype, {c.experts, c.out, c.in}),
                                      uniform(rng, DType::f32, {c.rows, c.same_x ? c.in : c.used * c.in}), routing};
    if (c.op.scaled) inputs.push_back(uniform(rng, DType::f32, {c.experts}, 0.5F, 2.0F));
    if (c.op.biased) inputs.push_back(uniform(rng, DType::f32, {c.experts, c.out}));
    return inputs;
}

std::vector<float> expected_products(const Case& c, const std::vector<HostTensor>& inputs) {
    const std::vector<float> w = inputs[0].values();
    const std::vector<float> x = inputs[1].values();
    const std::vector<float> routing = inputs[2].values();
    std::vector<float> y;
    for (int64_t r = 0; r < c.rows; ++r) {
        for (int s = 0; s < c.used; ++s) {
            const auto e = static_cast<int64_t>(routing[r * 2 * c.used + s]);
            const float* const from = x.data() + (c.same_x ? r * c.in : (r * c.used + s) * c.in);
            for (int64_t o = c.op.first; o < c.op.first + c.op.count; ++o) {
                double sum = 0.0;
                for (int64_t i = 0; i < c.in; ++i) sum += double{w[(e * c.out + o) * c.in + i]} * from[i];
                if (c.op.scaled) sum *= inputs[3].values()[e];
                if (c.op.biased) sum += inputs[c.op.bias_at()].values()[e * c.out + o];
                y.push_back(static_cast<float>(sum));
            }
        }
    }
    return y;
}

// Those that are multiplied with activations of 8 bits on the CPU.
Tolerance expert_tolerance(DType dtype, int64_t cols) {
    constexpr DType kPlain[] = {DType::f32, DType::f16, DType::bf16};
    return std::find(std::begin(kPlain), std::end(kPlain), dtype) == std::end(kPlain)
               ? Tolerance::int8_activations(cols)
               : Tolerance::reduction(cols);
}

void expect_experts(Rng& rng, const Case& c, DType dtype, const HostTensor& routing) {
    const std::vector<HostTensor> inputs = inputs_of(rng, c, dtype, routing);
    const std::vector<float> expected = expected_products(c, inputs);
    std::vector<HostTensor> magnitudes;
    for (const HostTensor& input : inputs) magnitudes.push_back(input.absolute());
    const std::vector<float> magnitude = expected_products(c, magnitudes);
    for (const Device& device : devices()) {
        SCOPED_TRACE(fmt::format("{}: {} {}", device.name, name(dtype), c.op.describe()));
        expect_close(run_op(device.use(), c.op, inputs), expected, magnitude, expert_tolerance(dtype, c.in));
    }
}

}  // namespace

TEST(Route, ReferenceChoosesAndWeighsByHand) {
    const HostTensor logits = tensor({1, 4}, {0.0F, std::log(3.0F), std::log(4.0F), -100.0F});
    EXPECT_EQ(run_op(first_device(), op::Route{.used = 2, .score = op::Score::softmax}, {logits}),
              (std::vector<float>{2, 1, 0.5F, 0.375F}));
    const auto normalized = run_op(first_device(), op::Route{.used = 2, .normalize = true, .scale = 7.0F}, {logits});
    EXPECT_FLOAT_EQ(normalized[2], 4.0F);
    EXPECT_FLOAT_EQ(normalized[3], 3.0F);
    // A bias of 10 chooses the last, whose weight is next to nothing all the same.
    const auto corrected =
        run_op(first_device(), op::Route{.used = 2, .score = op::Score::sigmoid}, {logits, tensor({4}, {0, 0, 0, 10})});
    EXPECT_EQ(corrected[0], 3.0F);
    EXPECT_LT(corrected[2], 1e-30F);
    // Equal logits: the first ones.
    EXPECT_EQ(run_op(first_device(), op::Route{.used = 2}, {tensor({1, 4}, {1, 1, 1, 1})}),
              (std::vector<float>{0, 1, 0.25F, 0.25F}));
    // Groups of two: the first is worth 3, the second 4 though it has not the best expert.
    EXPECT_EQ(run_op(first_device(), op::Route{.used = 1, .score = op::Score::chosen_softmax, .groups = 2},
                     {tensor({1, 4}, {3, 0, 2, 2.5F})}),
              (std::vector<float>{3, 1}));
}

TEST(Route, AgreesWithAnIndependentComputationOnEveryDevice) {
    Rng rng(21);
    const op::Route ops[] = {
        {.used = 2, .normalize = true},
        {.used = 8},
        {.used = 3, .score = op::Score::sigmoid, .normalize = true, .scale = 2.5F},
        {.used = 4, .score = op::Score::chosen_softmax},
        {.used = 6, .score = op::Score::sigmoid, .normalize = true, .groups = 4, .used_groups = 2},
    };
    for (const op::Route& op : ops) {
        for (const int64_t experts : {12, 128}) {
            constexpr int64_t kRows = 19;
            const HostTensor logits = uniform(rng, DType::f32, {kRows, experts}, -4.0F, 4.0F);
            std::vector<HostTensor> inputs = {logits};
            std::vector<float> bias;
            if (op.score == op::Score::sigmoid) {
                inputs.push_back(uniform(rng, DType::f32, {experts}, -0.3F, 0.3F));
                bias = inputs[1].values();
            }
            std::vector<float> expected;
            const std::vector<float> all = logits.values();
            for (int64_t r = 0; r < kRows; ++r) {
                const auto row =
                    expected_routing(op, {all.begin() + r * experts, all.begin() + (r + 1) * experts}, bias);
                expected.insert(expected.end(), row.begin(), row.end());
            }
            for (const Device& device : devices()) {
                SCOPED_TRACE(fmt::format("{}: {} of {}", device.name, op.describe(), experts));
                expect_close(run_op(device.use(), op, inputs), expected, expected, Tolerance::rounding(32));
            }
        }
    }
}

TEST(Route, OfWhatIsNoNumberChoosesDifferentExperts) {
    for (const Device& device : devices()) {
        SCOPED_TRACE(device.name);
        const auto routing = run_op(device.use(), op::Route{.used = 3}, {tensor({2, 5}, std::vector<float>(10, NAN))});
        for (size_t row = 0; row < 2; ++row) {
            std::set<float> chosen(routing.begin() + row * 6, routing.begin() + row * 6 + 3);
            EXPECT_EQ(chosen.size(), 3U);
            EXPECT_GE(*chosen.begin(), 0.0F);
            EXPECT_LE(*chosen.rbegin(), 4.0F);
        }
    }
}

TEST(ExpertLinear, RandomRoutingsOfEveryType) {
    Rng rng(22);
    for (const DType dtype : kAllDTypes) {
        if (!format::has_encoder(dtype)) continue;
        for (const int64_t rows : {1, 3, 33}) {
            const Case shared{5, rows, 40, 256, 2, true, {.count = 40}};
            expect_experts(rng, shared, dtype, random_routing(rng, rows, 5, 2));
        }
        const Case each{4, 9, 48, 256, 3, false, {.first = 8, .count = 20, .scaled = true, .biased = true}};
        expect_experts(rng, each, dtype, random_routing(rng, 9, 4, 3));
    }
}

TEST(ExpertLinear, OneExpertTakesAllRowsAndOthersNone) {
    Rng rng(23);
    for (const DType dtype :
         {DType::f32, DType::f16, DType::q8_0, DType::q4_k, DType::q6_k, DType::iq4_nl, DType::mxfp4}) {
        for (const int64_t rows : {1, 7, 70}) {
            const Case one{6, rows, 96, 512, 1, true, {.count = 96, .biased = true}};
            expect_experts(rng, one, dtype, routing_of(rng, rows, 1, [](int64_t, int) { return 4; }));
            const Case two{6, rows, 96, 512, 2, false, {.first = 32, .count = 64}};
            expect_experts(rng, two, dtype,
                           routing_of(rng, rows, 2, [](int64_t r, int s) { return s == 0 ? 5 : r % 5; }));
        }
    }
}

TEST(ExpertLinear, RaggedSizes) {
    Rng rng(24);
    for (const int64_t in : {1, 31, 66}) {
        const Case c{3, 11, 13, in, 2, false, {.first = 2, .count = 7, .scaled = true}};
        expect_experts(rng, c, DType::f32, random_routing(rng, 11, 3, 2));
    }
}

// The feed-forward part of a mixture, which devices make in one stage.
struct Block {
    int64_t experts, rows, dim, ffn;
    int used;
    DType gate_dtype, down_dtype;
    op::Activation activation;
    bool biased = false;
};

std::vector<HostTensor> inputs_of(Rng& rng, const Block& b, const HostTensor& routing) {
    std::vector<HostTensor> inputs = {
        uniform(rng, DType::f32, {b.rows, b.dim}), routing, uniform(rng, b.gate_dtype, {b.experts, b.ffn, b.dim}),
        uniform(rng, b.gate_dtype, {b.experts, b.ffn, b.dim}), uniform(rng, b.down_dtype, {b.experts, b.dim, b.ffn})};
    if (!b.biased) return inputs;
    for (const int64_t outputs : {b.ffn, b.ffn, b.dim})
        inputs.push_back(uniform(rng, DType::f32, {b.experts, outputs}));
    return inputs;
}

graph::Tensor build_block(const Block& b, graph::Graph& g, const std::vector<graph::Tensor>& in) {
    const graph::Tensor x = g.apply(op::Scale{1.0F}, {in[0]});
    const graph::Tensor routing = g.apply(op::Scale{1.0F}, {in[1]});
    const auto product = [&](size_t matrix, graph::Tensor from, int64_t outputs) {
        const op::ExpertLinear op = {.first = 0, .count = outputs, .biased = b.biased};
        return b.biased ? g.apply(op, {in[matrix], from, routing, in[matrix + 3]})
                        : g.apply(op, {in[matrix], from, routing});
    };
    const graph::Tensor made = g.glu(product(2, x, b.ffn), product(3, x, b.ffn), b.activation);
    return g.expert_sum(product(4, made, b.dim), routing);
}

double activated(double gate, double up, op::Activation activation) {
    if (activation == op::Activation::silu) return gate / (1 + std::exp(-gate)) * up;
    gate = std::min(gate, 7.0);
    return gate / (1 + std::exp(-1.702 * gate)) * (std::clamp(up, -7.0, 7.0) + 1);
}

// One row, by loops over its experts.
std::vector<double> expected_row(const Block& b, const std::vector<std::vector<float>>& in, int64_t row) {
    std::vector<double> sum(static_cast<size_t>(b.dim));
    const auto product = [&](size_t matrix, int64_t expert, int64_t output, const auto* from, int64_t cols) {
        const int64_t outputs = matrix == 4 ? b.dim : b.ffn;
        double y = b.biased ? in[matrix + 3][static_cast<size_t>(expert * outputs + output)] : 0;
        const float* const weights = in[matrix].data() + (expert * outputs + output) * cols;
        for (int64_t i = 0; i < cols; ++i) y += double{weights[i]} * from[i];
        return y;
    };
    for (int s = 0; s < b.used; ++s) {
        const float* const routing = in[1].data() + row * 2 * b.used;
        const auto expert = static_cast<int64_t>(routing[s]);
        std::vector<double> made;
        for (int64_t o = 0; o < b.ffn; ++o) {
            const float* const x = in[0].data() + row * b.dim;
            made.push_back(activated(product(2, expert, o, x, b.dim), product(3, expert, o, x, b.dim), b.activation));
        }
        for (int64_t o = 0; o < b.dim; ++o)
            sum[static_cast<size_t>(o)] += routing[b.used + s] * product(4, expert, o, made.data(), b.ffn);
    }
    return sum;
}

// What a row is off, as a share of its length. Rounding x, uniform in [-1, 1], to 8 bits has an error of 1 / 127 /
// sqrt(12) each, 0.4 % of it; that of what the GLU makes, whose largest of 32 is about four times the usual one, 0.9 %
// or so. f16 is 8 times as fine at least. Another expert, or one left out, is off by tens of percent.
constexpr double kBlockError = 0.03;

void expect_block(Rng& rng, const Block& b, const HostTensor& routing) {
    const std::vector<HostTensor> inputs = inputs_of(rng, b, routing);
    std::vector<std::vector<float>> values;
    for (const HostTensor& input : inputs) values.push_back(input.values());
    std::vector<std::vector<double>> expected;
    for (int64_t row = 0; row < b.rows; ++row) expected.push_back(expected_row(b, values, row));
    for (const Device& device : devices()) {
        SCOPED_TRACE(
            fmt::format("{}: {} and {}, {} rows", device.name, name(b.gate_dtype), name(b.down_dtype), b.rows));
        const auto y =
            run_graph(device.use(), inputs, [&](graph::Graph& g, const auto& in) { return build_block(b, g, in); });
        ASSERT_EQ(y.size(), static_cast<size_t>(b.rows * b.dim));
        double worst = 0;
        for (size_t row = 0; row < expected.size(); ++row) {
            double error = 0;
            double length = 0;
            for (size_t i = 0; i < expected[row].size(); ++i) {
                const double difference = y[row * expected[row].size() + i] - expected[row][i];
                error += difference * difference;
                length += expected[row][i] * expected[row][i];
            }
            worst = std::max(worst, std::isfinite(error) ? std::sqrt(error / length) : HUGE_VAL);
        }
        EXPECT_LT(worst, kBlockError);
    }
}

TEST(ExpertBlock, AgreesWithAnIndependentComputationOnEveryDevice) {
    Rng rng(27);
    const std::pair<DType, DType> types[] = {{DType::f16, DType::f16},       {DType::q8_0, DType::q8_0},
                                             {DType::q4_0, DType::q5_0},     {DType::q4_k, DType::q6_k},
                                             {DType::iq4_xs, DType::iq4_nl}, {DType::mxfp4, DType::mxfp4}};
    for (const auto& [gate, down] : types) {
        const bool is_mxfp4 = gate == DType::mxfp4;
        for (const int64_t rows : {1, 70}) {
            const Block block{.experts = 6,
                              .rows = rows,
                              .dim = 256,
                              .ffn = 256,
                              .used = 2,
                              .gate_dtype = gate,
                              .down_dtype = down,
                              .activation = is_mxfp4 ? op::Activation::clamped : op::Activation::silu,
                              .biased = is_mxfp4};
            expect_block(rng, block, random_routing(rng, rows, 6, 2));
            // One has all rows; of the others one has few, and most none.
            expect_block(rng, block,
                         routing_of(rng, rows, 2, [](int64_t r, int s) { return s == 0 ? 4 : r % 9 == 0; }));
        }
    }
}

TEST(ExpertSum, AgreesWithTheReferenceOnEveryDevice) {
    EXPECT_EQ(
        run_op(first_device(), op::ExpertSum{}, {tensor({1, 4}, {1, 2, 10, 20}), tensor({1, 4}, {7, 3, 0.5F, 0.25F})}),
        (std::vector<float>{3, 6}));
    Rng rng(25);
    for (const int64_t cols : {1, 31, 2048}) {
        const HostTensor x = uniform(rng, DType::f32, {7, 4 * cols});
        expect_same_on_every_device(op::ExpertSum{}, {x, random_routing(rng, 7, 16, 4)}, Tolerance::rounding(8));
    }
}

TEST(SigmoidGate, AgreesWithTheReferenceOnEveryDevice) {
    EXPECT_EQ(run_op(first_device(), op::SigmoidGate{}, {tensor({1, 2}, {8, 6}), tensor({1, 1}, {0})}),
              (std::vector<float>{4, 3}));
    Rng rng(26);
    for (const int64_t gates : {1, 3, 96}) {
        const HostTensor x = uniform(rng, DType::f32, {5, 96});
        expect_same_on_every_device(op::SigmoidGate{}, {x, uniform(rng, DType::f32, {5, gates}, -4.0F, 4.0F)},
                                    Tolerance::rounding(16));
    }
}

}  // namespace tandem::test
