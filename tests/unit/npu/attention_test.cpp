// Attention of the whole array against exact attention over the same int8 numbers.
#include "npu/designs/attention.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include "npu/check.h"
#include "npu/designs/quantize_row.h"
#include "npu/emulator.h"

namespace tandem::npu {
namespace {

struct Case {
    AttentionShape shape;
    int32_t first_position = 0;
    int32_t first_key = 0;
    int32_t window = 0;
    float softcap = 0;
};

// What the array gets, as numbers.
struct Numbers {
    std::vector<float> q;     // [tokens][heads][head_dim], after rounding to int8
    std::vector<float> k, v;  // [keys][kv_heads][head_dim]
};

float random_float(std::mt19937& random) {
    return std::uniform_real_distribution(-1.0F, 1.0F)(random);
}

class AttentionRun {
  public:
    explicit AttentionRun(const Case& of) : of_(of), layout_(*attention_layout(of.shape)) {
        q_.resize(static_cast<size_t>(layout_.q_bytes()));
        kv_.resize(static_cast<size_t>(layout_.kv_bytes()), std::byte{0x7F});
        y_.resize(static_cast<size_t>(layout_.y_bytes() / 4), NAN);
        make_queries();
        make_keys();
    }

    Result<Activity> run() {
        const Design design = TRY(attention_i8(layout_));
        TRY(check(design));
        Emulator emulator = TRY(Emulator::make(design));
        const std::array<std::span<std::byte>, 3> arguments{q_, kv_, std::as_writable_bytes(std::span(y_))};
        return emulator.run(arguments);
    }

    // The largest error over what it may be, for one token and head.
    void expect_exact(int64_t token, int64_t head) const {
        const AttentionShape& shape = of_.shape;
        const int64_t kv_head = head / (shape.heads / shape.kv_heads);
        const float* q = numbers_.q.data() + (token * shape.heads + head) * shape.head_dim;
        std::vector<double> weights(static_cast<size_t>(shape.keys));
        double largest = -1e300;
        for (int64_t key = 0; key < shape.keys; ++key) {
            weights[static_cast<size_t>(key)] = sees(token, key) ? score(q, key, kv_head) : -1e300;
            largest = std::max(largest, weights[static_cast<size_t>(key)]);
        }
        double sum = 0;
        for (double& weight : weights) sum += weight = std::exp(weight - largest);
        for (int64_t i = 0; i < shape.head_dim; ++i) {
            double wanted = 0;
            for (int64_t key = 0; key < shape.keys; ++key)
                wanted += weights[static_cast<size_t>(key)] / sum *
                          numbers_.v[static_cast<size_t>((key * shape.kv_heads + kv_head) * shape.head_dim + i)];
            // Values are below 1: a weight is off by half of 1/255 of the largest (and 2^-14), the power of two and the
            // sum by 2^-8 each, a score by 2^-15 of the magnitudes in it.
            const double bound =
                (0.5 / 255 + std::ldexp(1.0, -14)) * static_cast<double>(shape.keys) / sum +
                4 * (std::ldexp(1.0, -8) + 2.0 * static_cast<double>(shape.head_dim) * std::ldexp(1.0, -15));
            const double got = y_[place(token, head) + static_cast<size_t>(i)];
            ASSERT_NEAR(got, wanted, bound) << "token " << token << ", head " << head << ", element " << i;
            squares_ += wanted * wanted;
            errors_ += (got - wanted) * (got - wanted);
        }
    }

    // Rounding goes either way: together the errors stay far below the bound of each.
    double relative_error() const { return std::sqrt(errors_ / squares_); }
    const AttentionLayout& layout() const { return layout_; }

  private:
    size_t place(int64_t token, int64_t head) const {
        const int64_t group = of_.shape.heads / of_.shape.kv_heads;
        return static_cast<size_t>(((token * layout_.kv_heads + head / group) * layout_.group + head % group) *
                                   layout_.head_dim);
    }

    bool sees(int64_t token, int64_t key) const {
        const int64_t position = of_.first_position + token;
        const int64_t other = of_.first_key + key;
        return other <= position && (of_.window == 0 || other > position - of_.window);
    }

    double score(const float* q, int64_t key, int64_t kv_head) const {
        double sum = 0;
        const float* k = numbers_.k.data() + (key * of_.shape.kv_heads + kv_head) * of_.shape.head_dim;
        for (int64_t i = 0; i < of_.shape.head_dim; ++i) sum += static_cast<double>(q[i]) * k[i];
        sum *= scale();
        return of_.softcap > 0 ? of_.softcap * std::tanh(sum / of_.softcap) : sum;
    }

    float scale() const { return 2 / std::sqrt(static_cast<float>(of_.shape.head_dim)); }

    void make_queries() {
        const AttentionShape& shape = of_.shape;
        numbers_.q.resize(static_cast<size_t>(shape.tokens * shape.heads * shape.head_dim));
        for (float& value : numbers_.q) value = random_float(random_);
        pack_queries(layout_,
                     {.values = numbers_.q.data(),
                      .tokens = shape.tokens,
                      .stride = shape.heads * shape.head_dim,
                      .first_position = of_.first_position,
                      .window = of_.window,
                      .scale = scale(),
                      .softcap = of_.softcap},
                     q_);
        std::vector<int8_t> row(static_cast<size_t>(shape.head_dim));
        for (size_t at = 0; at < numbers_.q.size(); at += row.size()) {
            const float row_scale = quantize_row({numbers_.q.data() + at, row.size()}, row);
            for (size_t i = 0; i < row.size(); ++i) numbers_.q[at + i] = static_cast<float>(row[i]) * row_scale;
        }
    }

    void make_keys() {
        const AttentionShape& shape = of_.shape;
        std::vector<int8_t> rows(static_cast<size_t>(shape.head_dim));
        const size_t blocks = rows.size() / 32;
        for (int64_t key = 0; key < shape.keys; ++key) {
            for (int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
                std::array<std::vector<int8_t>, 2> values{rows, rows};
                std::array<std::vector<float>, 2> scales{std::vector<float>(blocks), std::vector<float>(blocks)};
                for (size_t which = 0; which < 2; ++which) {
                    for (float& block_scale : scales[which]) block_scale = (1.5F + random_float(random_)) / 2.5F / 128;
                    for (size_t i = 0; i < rows.size(); ++i) {
                        values[which][i] = static_cast<int8_t>(random_float(random_) * 127);
                        (which == 0 ? numbers_.k : numbers_.v)
                            .push_back(static_cast<float>(values[which][i]) * scales[which][i / 32]);
                    }
                }
                put_key_value(layout_,
                              {.kv_head = kv_head,
                               .index = key,
                               .key = values[0],
                               .value = values[1],
                               .key_scales = scales[0],
                               .value_scales = scales[1]},
                              kv_);
            }
        }
        set_keys(layout_, of_.first_key, shape.keys, kv_);
    }

    Case of_;
    AttentionLayout layout_;
    std::mt19937 random_{17};
    Numbers numbers_;
    std::vector<std::byte> q_, kv_;
    std::vector<float> y_;
    mutable double squares_ = 0;
    mutable double errors_ = 0;
};

void expect_attention(const Case& of) {
    AttentionRun run(of);
    const Result<Activity> activity = run.run();
    ASSERT_TRUE(activity) << activity.error().message;
    for (int64_t token = 0; token < of.shape.tokens; token += 3) {
        for (int64_t head = 0; head < of.shape.heads; ++head) run.expect_exact(token, head);
    }
    EXPECT_LT(run.relative_error(), 0.015);
}

TEST(Attention, CausalWithGroupedHeads) {
    expect_attention({.shape = {.tokens = 20, .heads = 4, .kv_heads = 2, .head_dim = 64, .keys = 57},
                      .first_position = 37,
                      .first_key = 0});
}

TEST(Attention, WindowOverHeadsThatAreNoPowerOfTwo) {
    expect_attention({.shape = {.tokens = 50, .heads = 3, .kv_heads = 1, .head_dim = 32, .keys = 90},
                      .first_position = 100,
                      .first_key = 60,
                      .window = 24});
}

TEST(Attention, ManyHeadsWithSoftcap) {
    expect_attention({.shape = {.tokens = 5, .heads = 10, .kv_heads = 10, .head_dim = 128, .keys = 70},
                      .first_position = 65,
                      .first_key = 0,
                      .softcap = 3});
}

TEST(Attention, OnTheWiderArray) {
    expect_attention({.shape = {.tokens = 9, .heads = 4, .kv_heads = 2, .head_dim = 64, .keys = 9, .array = "npu2"}});
}

// Each core skips the tiles that none of its queries sees, and the model counts as many.
TEST(Attention, SkippedTilesAreForeseen) {
    for (const Case& of : {Case{.shape = {.tokens = 128, .heads = 4, .kv_heads = 4, .head_dim = 64, .keys = 300},
                          .first_position = 172,
                          .first_key = 0},
                           Case{.shape = {.tokens = 100, .heads = 6, .kv_heads = 2, .head_dim = 32, .keys = 139},
                           .first_position = 400,
                           .first_key = 361,
                           .window = 40}}) {
        AttentionRun run(of);
        const Result<Activity> counted = run.run();
        ASSERT_TRUE(counted) << counted.error().message;
        const std::vector<Share> shares = attention_shares(run.layout(), {.first_position = of.first_position,
                                                                          .window = of.window,
                                                                          .first_key = of.first_key,
                                                                          .keys = of.shape.keys});
        const Design design = *attention_i8(run.layout());
        const Activity foreseen = *foresee(design, attention_samples(run.layout()), shares);
        const Activity all = *foresee(design, attention_samples(run.layout()));
        EXPECT_LT(foreseen.total().macs, all.total().macs);
        ASSERT_EQ(foreseen.tiles.size(), counted->tiles.size());
        for (size_t i = 0; i < foreseen.tiles.size(); ++i) {
            EXPECT_EQ(foreseen.tiles[i].counts.macs, counted->tiles[i].counts.macs) << i;
            EXPECT_EQ(foreseen.tiles[i].calls, counted->tiles[i].calls) << i;
        }
    }
}

// Work depends a little on the data: sums are only scaled where a new tile has a larger score, which zeros never have.
TEST(Attention, IsForeseen) {
    AttentionRun run({.shape = {.tokens = 128, .heads = 4, .kv_heads = 4, .head_dim = 64, .keys = 128},
                      .first_position = 200,
                      .first_key = 0});
    const Result<Activity> counted = run.run();
    ASSERT_TRUE(counted) << counted.error().message;
    const Result<Activity> foreseen = foresee(*attention_i8(run.layout()), attention_samples(run.layout()));
    ASSERT_TRUE(foreseen) << foreseen.error().message;
    EXPECT_EQ(foreseen->streams, counted->streams);
    EXPECT_EQ(foreseen->host, counted->host);
    EXPECT_EQ(foreseen->total().macs, counted->total().macs);
    EXPECT_EQ(foreseen->total().macs, 2U * 128 * 128 * 4 * 64);  // scores and values
    const auto cycles = static_cast<double>(counted->tiles[0].cycles);
    EXPECT_NEAR(static_cast<double>(foreseen->tiles[0].cycles), cycles, 0.15 * cycles);
}

TEST(Attention, PassesTheCheckInTheShapesOfModels) {
    for (const AttentionShape& shape :
         {AttentionShape{.tokens = 1024, .heads = 32, .kv_heads = 16, .head_dim = 128, .keys = 8192},
          AttentionShape{.tokens = 512, .heads = 8, .kv_heads = 4, .head_dim = 256, .keys = 1024},
          AttentionShape{.tokens = 1024, .heads = 28, .kv_heads = 4, .head_dim = 128, .keys = 4096},
          AttentionShape{.tokens = 2048, .heads = 32, .kv_heads = 32, .head_dim = 96, .keys = 131072},
          AttentionShape{.tokens = 1, .heads = 64, .kv_heads = 8, .head_dim = 64, .keys = 1000},
          AttentionShape{.tokens = 1024, .heads = 64, .kv_heads = 8, .head_dim = 128, .keys = 2048, .array = "npu2"}}) {
        const Result<AttentionLayout> layout = attention_layout(shape);
        ASSERT_TRUE(layout) << layout.error().message;
        EXPECT_GE(layout->tokens, shape.tokens);
        const Result<Design> design = attention_i8(*layout);
        ASSERT_TRUE(design) << design.error().message;
        const Status status = check(*design);
        EXPECT_TRUE(status) << status.error().message;
        EXPECT_LE(design->sequence.transfers.size(), 200U);
    }
    EXPECT_FALSE(attention_layout({.tokens = 8, .heads = 8, .kv_heads = 8, .head_dim = 80, .keys = 8}));
    EXPECT_FALSE(attention_layout({.tokens = 8, .heads = 8, .kv_heads = 3, .head_dim = 64, .keys = 8}));
    EXPECT_FALSE(attention_layout({.tokens = 0, .heads = 8, .kv_heads = 8, .head_dim = 64, .keys = 8}));
    EXPECT_FALSE(attention_layout({.tokens = 8, .heads = 8, .kv_heads = 8, .head_dim = 4096, .keys = 8}));
}

}  // namespace
}  // namespace tandem::npu
