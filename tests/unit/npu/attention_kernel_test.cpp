#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "unit/npu/kernel_call.h"

namespace tandem::npu {
namespace {

struct KernelCase {
    int queries = 16;  // rows
    int keys = 32;     // of a tile
    int head_dim = 64;
    int group = 1;
    int first_query = 0;
    int context = 16;  // keys there are
    int window = 0;
    float softcap = 0;
    float sharpness = 1;  // how far scores lie from each other
};

// Rows of int8 with a scale for every `block` elements.
struct Quantized {
    int cols;
    int block;
    std::vector<int8_t> values;
    std::vector<float> scales;

    double at(int row, int col) const { return static_cast<double>(values[row * cols + col]) * scale(row, col); }
    float scale(int row, int col) const { return scales[row * (cols / block) + col / block]; }
};

Quantized random_rows(std::mt19937& random, int rows, int cols, int block, float size) {
    Quantized made{cols, block, {}, {}};
    const TileBuffer<int8_t> bytes = random_bytes(random, static_cast<size_t>(rows) * cols);
    made.values.assign(bytes.begin(), bytes.end());
    std::uniform_real_distribution<float> spread(0.25F, 1.0F);
    made.scales.resize(static_cast<size_t>(rows) * cols / block);
    for (float& scale : made.scales) scale = size * spread(random) / 127;
    return made;
}

struct KernelProblem {
    KernelCase shape;
    Quantized q, k, v;
    float scale;

    bool sees(int row, int key) const {
        const int position = shape.first_query + row / shape.group;
        return key <= position && (shape.window == 0 || key > position - shape.window);
    }
    double score(int row, int key) const {
        double sum = 0;
        for (int i = 0; i < shape.head_dim; ++i) sum += q.at(row, i) * k.at(key, i);
        sum *= scale;
        return shape.softcap == 0 ? sum : shape.softcap * std::tanh(sum / shape.softcap);
    }
};

KernelProblem random_problem(const KernelCase& shape, unsigned seed) {
    std::mt19937 random(seed);
    return {.shape = shape,
            .q = random_rows(random, shape.queries, shape.head_dim, shape.head_dim, 1),
            .k = random_rows(random, shape.context, shape.head_dim, 32, 1),
            .v = random_rows(random, shape.context, shape.head_dim, 32, 1),
            .scale = 2 * shape.sharpness / std::sqrt(static_cast<float>(shape.head_dim))};
}

template <typename T>
void put(TileBuffer<int8_t>& object, size_t offset, const T& value) {
    std::memcpy(object.data() + offset, &value, sizeof value);
}

constexpr size_t kHeader = sizeof(AttentionHeader);

// The tile of keys that begins at `first`; behind the last key lies what memory holds: here the worst.
TileBuffer<int8_t> key_object(const KernelProblem& problem, int first, int count) {
    const KernelCase& shape = problem.shape;
    const size_t all = static_cast<size_t>(shape.keys) * shape.head_dim;
    TileBuffer<int8_t> object(static_cast<size_t>(attention_kv_bytes(shape.keys, shape.head_dim)), 127);
    put(object, 0, AttentionHeader{.first_key = first, .key_count = count});
    for (size_t i = 0; i < 2 * all / 32; ++i)
        put(object, kHeader + 2 * all + 4 * i, std::numeric_limits<float>::quiet_NaN());
    for (size_t side = 0; side < 2; ++side) {
        const Quantized& rows = side == 0 ? problem.k : problem.v;
        for (int key = 0; key < count; ++key) {
            for (int i = 0; i < rows.cols; ++i) {
                object[kHeader + side * all + tiled(8, 8, rows.cols, key, i)] =
                    rows.values[(first + key) * rows.cols + i];
                const size_t scale = side * all / 32 + static_cast<size_t>(i / 32 * shape.keys + key);
                put(object, kHeader + 2 * all + 4 * scale, rows.scale(first + key, i));
            }
        }
    }
    return object;
}

TileBuffer<int8_t> query_object(const KernelProblem& problem) {
    const KernelCase& shape = problem.shape;
    TileBuffer<int8_t> object(static_cast<size_t>(attention_q_bytes(shape.queries, shape.head_dim)));
    put(object, 0,
        AttentionHeader{.group = shape.group,
                        .first_query = shape.first_query,
                        .window = shape.window,
                        .scale_bits = std::bit_cast<int32_t>(problem.scale),
                        .softcap_bits = std::bit_cast<int32_t>(shape.softcap),
                        .key_tiles = 5});
    for (int row = 0; row < shape.queries; ++row) {
        for (int i = 0; i < shape.head_dim; ++i)
            object[kHeader + tiled(4, 8, shape.head_dim, row, i)] = problem.q.values[row * shape.head_dim + i];
        put(object, kHeader + problem.q.values.size() + 4 * static_cast<size_t>(row), problem.q.scales[row]);
    }
    return object;
}

TileBuffer<float> run(const KernelProblem& problem, Counts* counts = nullptr) {
    const KernelCase& shape = problem.shape;
    TileBuffer<int8_t> q = query_object(problem);
    TileBuffer<float> out(static_cast<size_t>(shape.queries) * shape.head_dim, 1e30F);
    TileBuffer<float> state(attention_state_floats(shape.queries, shape.keys), std::numeric_limits<float>::quiet_NaN());
    TileBuffer<int32_t> tiles(16);
    call("attention_begin", q, out, state, tiles, shape.queries, shape.head_dim);
    EXPECT_EQ(tiles[0], 5);
    for (int first = 0; first < shape.context; first += shape.keys) {
        TileBuffer<int8_t> keys = key_object(problem, first, std::min(shape.keys, shape.context - first));
        const Counts tile = call("attention_i8_tile", q, keys, out, state, shape.queries, shape.keys, shape.head_dim);
        if (counts != nullptr) counts->add(tile);
    }
    call("attention_end", out, state, shape.queries, shape.head_dim);
    return out;
}

// How far `out` may be from exact attention over the same int8 numbers:
//   - A weight is off by half of 1/255 of the largest scale of the block in the tile, and by what its arithmetic
//   leaves.
//     That counts with the int8 value, and with the largest weight of the tile over the sum of all weights.
//   - The power of two is off by 2^-7 of it; so is the sum that `out` is divided by: twice that of the spread of v.
//   - A score is off by 2^-13 of the sum of the magnitudes in it: as much again of the weight.
struct Exact {
    double value = 0;
    double bound = 0;
};
class Reference {
  public:
    Reference(const KernelProblem& problem, int row)
        : problem_(problem), tile_weights_(problem.shape.context / problem.shape.keys + 1) {
        seen_.reserve(problem.shape.context);
        weights_.reserve(problem.shape.context);
        for (int key = 0; key < problem.shape.context; ++key) {
            if (!problem.sees(row, key)) continue;
            seen_.push_back(key);
            weights_.push_back(problem.score(row, key));
        }
        const double largest = *std::ranges::max_element(weights_);
        for (size_t i = 0; i < seen_.size(); ++i) {
            weights_[i] = std::exp(weights_[i] - largest);
            sum_ += weights_[i];
            double& most = tile_weights_[seen_[i] / problem.shape.keys];
            most = std::max(most, weights_[i]);
        }
        const double magnitude =
            static_cast<double>(problem.scale) * problem.shape.head_dim;  // every element is below 1
        error_ = 2 * (std::ldexp(1.0, -7) + magnitude * std::ldexp(1.0, -13));
    }

    Exact at(int col) const {
        Exact exact;
        const std::vector<double> scales = tile_scales(col);
        double spread = 0;
        for (size_t i = 0; i < seen_.size(); ++i) {
            const int tile = seen_[i] / problem_.shape.keys;
            const double weight = weights_[i] / sum_;
            const double value = problem_.v.at(seen_[i], col);
            exact.value += weight * value;
            spread += weight * std::abs(value);
            exact.bound += (0.5 / 255 + std::ldexp(1.0, -13)) * tile_weights_[tile] / sum_ * scales[tile] *
                           std::abs(problem_.v.values[seen_[i] * problem_.shape.head_dim + col]);
        }
        exact.bound += error_ * 2 * spread + 1e-6;
        return exact;
    }

  private:
    // The largest scale of the block of `col` in each tile.
    std::vector<double> tile_scales(int col) const {
        std::vector<double> scales(tile_weights_.size());
        for (int key = 0; key < problem_.shape.context; ++key) {
            double& scale = scales[key / problem_.shape.keys];
            scale = std::max(scale, static_cast<double>(problem_.v.scale(key, col)));
        }
        return scales;
    }

    const KernelProblem& problem_;
    std::vector<int> seen_;
    std::vector<double> weights_;       // of the keys that are seen
    std::vector<double> tile_weights_;  // the largest of each tile
    double sum_ = 0;
    double error_ = 0;
};

void expect_exact_attention(const KernelCase& shape) {
    const KernelProblem problem = random_problem(shape, 11);
    const TileBuffer<float> out = run(problem);
    double squares = 0;
    double errors = 0;
    for (int row = 0; row < shape.queries; ++row) {
        const Reference reference(problem, row);
        for (int col = 0; col < shape.head_dim; ++col) {
            const Exact exact = reference.at(col);
            const float found = out[tiled(4, 8, shape.head_dim, row, col)];
            ASSERT_NEAR(found, exact.value, exact.bound) << "row " << row << ", column " << col;
            squares += exact.value * exact.value;
            errors += (found - exact.value) * (found - exact.value);
        }
    }
    // Rounding goes either way: together the errors stay far below the bound of each.
    EXPECT_LE(std::sqrt(errors), 0.01 * std::sqrt(squares));
}

TEST(AttentionI8, OneTile) {
    expect_exact_attention({.context = 16});
}

TEST(AttentionI8, ManyTilesOfWhichTheLastIsNotFull) {
    expect_exact_attention({.head_dim = 128, .first_query = 100, .context = 117});
}

TEST(AttentionI8, WideHeadsOfManyBlocks) {
    expect_exact_attention({.queries = 8, .keys = 16, .head_dim = 256, .first_query = 60, .context = 68});
}

TEST(AttentionI8, HeadsThatAreNoPowerOfTwo) {
    expect_exact_attention({.queries = 24, .keys = 48, .head_dim = 96, .first_query = 70, .context = 94});
}

TEST(AttentionI8, GroupedHeads) {
    expect_exact_attention({.queries = 32, .keys = 32, .group = 5, .first_query = 40, .context = 47});
}

TEST(AttentionI8, AWindowHidesWholeTiles) {
    expect_exact_attention({.queries = 16, .keys = 16, .first_query = 90, .context = 106, .window = 20});
}

TEST(AttentionI8, SharpAndFlatScores) {
    expect_exact_attention({.first_query = 80, .context = 96, .sharpness = 8});
    expect_exact_attention({.first_query = 80, .context = 96, .sharpness = 0.01F});
}

TEST(AttentionI8, Softcap) {
    expect_exact_attention({.first_query = 50, .context = 66, .softcap = 3, .sharpness = 2});
}

TEST(AttentionI8, AQueryThatSeesNoKeyGetsZeros) {
    KernelProblem problem = random_problem({.context = 16}, 3);
    problem.shape.first_query = -16;  // all keys are later
    const TileBuffer<float> out = run(problem);
    EXPECT_TRUE(std::ranges::all_of(out, [](float value) { return value == 0.0F; }));
}

TEST(AttentionI8, ATileWithoutKeysChangesNothing) {
    const KernelProblem problem = random_problem({}, 4);
    TileBuffer<int8_t> q = query_object(problem);
    TileBuffer<int8_t> keys = key_object(problem, 0, 0);
    TileBuffer<float> out(static_cast<size_t>(problem.shape.queries) * problem.shape.head_dim, 2.0F);
    TileBuffer<float> state(attention_state_floats(problem.shape.queries, problem.shape.keys), 3.0F);
    call("attention_i8_tile", q, keys, out, state, problem.shape.queries, problem.shape.keys, problem.shape.head_dim);
    EXPECT_EQ(out, TileBuffer<float>(out.size(), 2.0F));
    EXPECT_EQ(state, TileBuffer<float>(state.size(), 3.0F));
}

TEST(AttentionI8, CountsItsProducts) {
    Counts counts;
    run(random_problem({.head_dim = 128, .first_query = 16, .context = 32}, 1), &counts);
    EXPECT_EQ(counts.macs, 2U * 16 * 32 * 128);
    EXPECT_EQ(counts.matrix_cycles, counts.macs / 256);
}

}  // namespace
}  // namespace tandem::npu
