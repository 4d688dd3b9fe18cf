// Flash attention in int8 over tiles: attention_begin, one attention_i8_tile for each tile of keys, attention_end.
// See npu/kernels.h for the layouts. One step:
//   scores   q k^T in int8, 32 elements of the head at a time, each sum times the scale of the key's block
//   weights  p = 2^(score - largest of the row in this tile), so that the largest is 1 whatever the other tiles hold
//   merge    the running maximum and sum of each row; how much the old (alpha) and the new (beta) count from now on
//   values   for 32 elements of the head: p times the scale of the value's block as uint8, times v in int8, and
//            out = alpha * out + beta * that
#include "npu/kernels/attention_header.h"
#include "npu/kernels/loops.h"
#include "npu/kernels/vector_math.h"

using namespace tandem::npu::kernels;  // NOLINT(google-build-using-namespace): a kernel is a file of its own
using tandem::npu::AttentionHeader;

namespace {

constexpr float kMasked = -1e30F;  // a score that no key can have
constexpr float kLog2E = 1.44269504F;
constexpr float kLargestWeight = 255.0F;  // of uint8

alignas(64) constexpr int32_t kCounting[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// What attention_begin clears and the steps hand on, one number for each query; behind it what a step needs for itself.
struct State {
    float* largest;  // of the scores so far, in powers of two
    float* sum;      // of the weights, relative to it
    float* alpha;    // first the largest of this tile
    float* beta;     // first the sum of this tile
    float* scores;   // [queries][keys]; then the weights as bfloat16, each row where its scores began
    float* ratios;   // [keys]: the scales of a block of values as steps of the weights
    uint8_t* bytes;  // T(4,8) of [8][keys]: weights of eight queries

    State(float* memory, int32_t queries, int32_t keys) {
        const int32_t rows = (queries + 15) / 16 * 16;
        largest = memory;
        sum = largest + rows;
        alpha = sum + rows;
        beta = alpha + rows;
        ratios = beta + rows;
        bytes = reinterpret_cast<uint8_t*>(ratios + keys);
        scores = ratios + keys + 2 * keys;
    }
};

struct Step {
    const int8_t* q;
    const float* q_scale;
    const int8_t* k;
    const float* k_scale;
    const int8_t* v;
    const float* v_scale;
    float* out;
    State state;
    AttentionHeader header;
};

using SignedBlock = aie::mmul<4, 8, 8, int8, int8, acc32>;
using WeightBlock = aie::mmul<4, 8, 8, uint8, int8, acc32>;

// Row `row` of two blocks side by side.
template <typename Block>
Floats row_of(const Block& left, const Block& right, unsigned row) {
    return aie::to_float<float>(aie::concat(left.template to_vector<int32>().template extract<8>(row),
                                            right.template to_vector<int32>().template extract<8>(row)));
}

// sums[row] = q[first_query + row] k[first_key ...]^T without the scale of the query: eight queries, sixteen keys.
void multiply_keys(const Step& step, int32_t first_query, int32_t first_key, Sums* sums) {
    const int32_t columns = step.header.head_dim / 8;
    const int8_t* __restrict q0 = step.q + first_query / 4 * columns * 32;
    const int8_t* __restrict q1 = q0 + columns * 32;
    const int8_t* __restrict k0 = step.k + first_key / 8 * columns * 64;
    const int8_t* __restrict k1 = k0 + columns * 64;
    for (int32_t block = 0; block < step.header.head_dim / 32; ++block) {
        const aie::accum<acc32, 32> none = aie::zeros<acc32, 32>();  // an accumulator begins with anything
        SignedBlock c00(none), c01(none), c10(none), c11(none);
        LOOP_AT_LEAST(4)
        for (int32_t i = block * 4; i < block * 4 + 4; ++i) {
            const aie::vector<int8, 32> left0 = aie::load_v<32>(q0 + i * 32);
            const aie::vector<int8, 32> left1 = aie::load_v<32>(q1 + i * 32);
            const aie::vector<int8, 64> right0 = aie::transpose(aie::load_v<64>(k0 + i * 64), 8, 8);
            const aie::vector<int8, 64> right1 = aie::transpose(aie::load_v<64>(k1 + i * 64), 8, 8);
            c00.mac(left0, right0);
            c01.mac(left0, right1);
            c10.mac(left1, right0);
            c11.mac(left1, right1);
        }
        const Pair scale = halve(aie::load_v<kLanes>(step.k_scale + block * step.header.keys + first_key));
        for (unsigned row = 0; row < 4; ++row) {
            sums[row] = multiply_into(sums[row], halve(row_of(c00, c01, row)), scale);
            sums[4 + row] = multiply_into(sums[4 + row], halve(row_of(c10, c11, row)), scale);
        }
    }
}

// Scores beyond +-softcap never happen: softcap * tanh(score / softcap), tanh(x) = 1 - 2 / (e^2x + 1).
Floats cap(const Floats& score, float softcap) {
    const Pair size = halve(aie::broadcast<float, kLanes>(2.0F * kLog2E * aie::inv(softcap)));
    const Floats power = exp2(multiply(halve(score), size));
    const Floats part = aie::inv(add(power, aie::broadcast<float, kLanes>(1.0F)));
    const Pair twice = halve(aie::broadcast<float, kLanes>(2.0F * softcap));
    return subtract(aie::broadcast<float, kLanes>(softcap), multiply(halve(part), twice));
}

// Which of sixteen keys a query at `position` sees.
aie::mask<kLanes> visible(const AttentionHeader& header, int32_t first_key, int32_t position) {
    const Ints index = aie::add(aie::load_v<kLanes>(kCounting), first_key);
    aie::mask<kLanes> seen = aie::lt(index, header.key_count) & aie::le(index, position - header.first_key);
    if (header.window > 0) seen = seen & aie::gt(index, position - header.window - header.first_key);
    return seen;
}

// The scores of all queries as powers of two, what is hidden as kMasked.
void score(const Step& step) {
    const AttentionHeader& header = step.header;
    const float softcap = float_of_bits(header.softcap_bits);
    const float scale = float_of_bits(header.scale_bits);
    const Pair log2e = halve(aie::broadcast<float, kLanes>(kLog2E));
    for (int32_t query = 0; query < header.queries; query += 8) {
        for (int32_t key = 0; key < header.keys; key += kStep) {
            Sums sums[8];
            for (Sums& sum : sums) sum = aie::zeros<accfloat, kLanes>();
            multiply_keys(step, query, key, sums);
            for (int32_t row = 0; row < 8; ++row) {
                const float factor = step.q_scale[query + row] * scale * (softcap > 0.0F ? 1.0F : kLog2E);
                const Pair factors = halve(aie::broadcast<float, kLanes>(factor));
                Floats scores = multiply(halve(sums[row].to_vector<float>()), factors);
                if (softcap > 0.0F) scores = multiply(halve(cap(scores, softcap)), log2e);
                const int32_t position = header.first_query + (query + row) / header.group;
                aie::store_v(step.state.scores + (query + row) * header.keys + key,
                             aie::select(kMasked, scores, visible(header, key, position)));
            }
        }
    }
}

void weigh(const Step& step) {
    const int32_t keys = step.header.keys;
    for (int32_t query = 0; query < step.header.queries; ++query) {
        float* scores = step.state.scores + query * keys;
        Floats most = aie::broadcast<float, kLanes>(kMasked);
        LOOP_AT_LEAST(1)
        for (int32_t key = 0; key < keys; key += kStep) most = aie::max(most, aie::load_v<kLanes>(scores + key));
        const float largest = aie::reduce_max(most);
        const Floats reference = aie::broadcast<float, kLanes>(largest);
        Sums sum = aie::zeros<accfloat, kLanes>();
        LOOP_AT_LEAST(1)
        for (int32_t key = 0; key < keys; key += kStep) {
            const Floats score = aie::load_v<kLanes>(scores + key);
            const Halves power = exp2_short(subtract(score, reference));
            const Halves weight = aie::select(power, bfloat16(0.0F), aie::le(score, kMasked));
            sum = aie::add(sum, weight);
            aie::store_v(scores + key / 2, weight.cast_to<float>());  // over scores that have been read
        }
        step.state.alpha[query] = largest;
        step.state.beta[query] = aie::reduce_add(sum.to_vector<float>());
    }
}

void merge(const Step& step) {
    const State& state = step.state;
    LOOP_AT_LEAST(1)
    for (int32_t query = 0; query < step.header.queries; query += kStep) {
        const Floats before = aie::load_v<kLanes>(state.largest + query);
        const Floats here = aie::load_v<kLanes>(state.alpha + query);
        const Floats largest = aie::max(before, here);
        const Floats alpha = exp2(subtract(before, largest));
        const Floats beta = exp2(subtract(here, largest));
        aie::store_v(state.largest + query, largest);
        const Sums faded(multiply(split(aie::load_v<kLanes>(state.sum + query)), split(alpha)));
        const Split added = split(aie::load_v<kLanes>(state.beta + query));
        aie::store_v(state.sum + query, multiply_into(faded, added, split(beta)).to_vector<float>());
        aie::store_v(state.alpha + query, alpha);
        aie::store_v(state.beta + query, beta);
    }
}

// Puts the scales of block `block` of the values into the weights: ratios = 255 * scale / the largest. Returns that.
float relate_scales(const Step& step, int32_t block) {
    const float* __restrict scales = step.v_scale + block * step.header.keys;
    Floats most = aie::zeros<float, kLanes>();
    LOOP_AT_LEAST(1)
    for (int32_t key = 0; key < step.header.keys; key += kStep) {
        const Ints index = aie::add(aie::load_v<kLanes>(kCounting), key);
        const Floats known =
            aie::select(0.0F, aie::load_v<kLanes>(scales + key), aie::lt(index, step.header.key_count));
        most = aie::max(most, known);
        aie::store_v(step.state.ratios + key, known);
    }
    const float largest = aie::reduce_max(most);
    const float factor = largest > 0.0F ? kLargestWeight * aie::inv(largest) : 0.0F;
    const Pair factors = halve(aie::broadcast<float, kLanes>(factor));
    LOOP_AT_LEAST(1)
    for (int32_t key = 0; key < step.header.keys; key += kStep) {
        const Floats ratio = multiply(halve(aie::load_v<kLanes>(step.state.ratios + key)), factors);
        aie::store_v(step.state.ratios + key, ratio);
    }
    return largest;
}

// The weights of eight queries, times the ratios, as bytes.
void quantize_weights(const Step& step, int32_t first_query) {
    const int32_t keys = step.header.keys;
    for (int32_t key = 0; key < keys; key += kStep) {
        const Pair ratio = halve(aie::load_v<kLanes>(step.state.ratios + key));
        for (int32_t half = 0; half < 2; ++half) {
            Ints steps[4];
            for (int32_t row = 0; row < 4; ++row) {
                const float* weights = step.state.scores + (first_query + half * 4 + row) * keys + key / 2;
                const Halves weight = aie::load_v<kLanes / 2>(weights).cast_to<bfloat16>();
                const Sums product = aie::mac(aie::mul(weight, ratio.low), weight, ratio.high);
                steps[row] = aie::to_fixed<int32>(product.to_vector<float>());
            }
            for (unsigned side = 0; side < 2; ++side) {
                const aie::accum<acc32, 32> block(aie::concat(steps[0].extract<8>(side), steps[1].extract<8>(side),
                                                              steps[2].extract<8>(side), steps[3].extract<8>(side)));
                aie::store_v(step.state.bytes + (half * (keys / 8) + key / 8 + static_cast<int32_t>(side)) * 32,
                             block.to_vector<uint8>());
            }
        }
    }
}

// How two rows of `out` go on: out = alpha * out + factor * sums.
struct Blend {
    Pair factor;
    Split alpha;
    bool same;  // alpha is 1: no new maximum, which becomes the rule after some tiles
};

Blend blend_of(const State& state, int32_t query, float step_size) {
    const float* alpha = state.alpha + query;
    const float* beta = state.beta + query;
    return {halve(two_rows(beta[0] * step_size, beta[1] * step_size)), split(two_rows(alpha[0], alpha[1])),
            alpha[0] == 1.0F && alpha[1] == 1.0F};
}

// A block of four rows.
void update(float* __restrict out, const WeightBlock& sums, const Blend* blends) {
    const aie::vector<int32, 32> values = sums.to_vector<int32>();
    for (unsigned half = 0; half < 2; ++half) {
        const Blend& blend = blends[half];
        Floats kept = aie::load_v<kLanes>(out + half * kLanes);
        if (!blend.same) kept = multiply(split(kept), blend.alpha);
        const Pair added = halve(aie::to_float<float>(values.extract<kLanes>(half)));
        aie::store_v(out + half * kLanes, multiply_into(Sums(kept), added, blend.factor).to_vector<float>());
    }
}

// out of eight queries and 32 elements of the head.
void add_values(const Step& step, int32_t first_query, int32_t block, float step_size) {
    const int32_t columns = step.header.head_dim / 8;
    const int32_t groups = step.header.keys / 8;
    Blend blends[4];
    for (int32_t pair = 0; pair < 4; ++pair) blends[pair] = blend_of(step.state, first_query + 2 * pair, step_size);
    for (int32_t column = block * 4; column < block * 4 + 4; column += 2) {
        const aie::accum<acc32, 32> none = aie::zeros<acc32, 32>();
        WeightBlock c00(none), c01(none), c10(none), c11(none);
        LOOP_AT_LEAST(2)
        for (int32_t group = 0; group < groups; ++group) {
            const aie::vector<uint8, 32> left0 = aie::load_v<32>(step.state.bytes + group * 32);
            const aie::vector<uint8, 32> left1 = aie::load_v<32>(step.state.bytes + (groups + group) * 32);
            const aie::vector<int8, 64> right0 = aie::load_v<64>(step.v + (group * columns + column) * 64);
            const aie::vector<int8, 64> right1 = aie::load_v<64>(step.v + (group * columns + column + 1) * 64);
            c00.mac(left0, right0);
            c01.mac(left0, right1);
            c10.mac(left1, right0);
            c11.mac(left1, right1);
        }
        float* upper = step.out + (first_query / 4 * columns + column) * 32;
        float* lower = upper + columns * 32;
        update(upper, c00, blends);
        update(upper + 32, c01, blends);
        update(lower, c10, blends + 2);
        update(lower + 32, c11, blends + 2);
    }
}

// One tile of keys for a tile of queries.
void attend(const Step& step) {
    score(step);
    weigh(step);
    merge(step);
    for (int32_t block = 0; block < step.header.head_dim / 32; ++block) {
        const float step_size = relate_scales(step, block) * (1.0F / kLargestWeight);
        LOOP_AT_LEAST(1)
        for (int32_t query = 0; query < step.header.queries; query += 8) {
            quantize_weights(step, query);
            add_values(step, query, block, step_size);
        }
    }
}

}  // namespace

// The queries say how many tiles of keys follow: that goes to `count`, by which the core counts its rounds.
extern "C" void attention_begin(const int8_t* __restrict q_object, float* __restrict out, float* __restrict state,
                                int32_t* __restrict count, int32_t queries, int32_t head_dim) {
    count[0] = reinterpret_cast<const AttentionHeader*>(q_object)->key_tiles;
    const Floats zeros = aie::zeros<float, kLanes>();
    LOOP_AT_LEAST(16)
    for (int32_t i = 0; i < queries * head_dim; i += kStep) aie::store_v(out + i, zeros);
    const int32_t rows = (queries + 15) / 16 * 16;
    LOOP_AT_LEAST(1)
    for (int32_t i = 0; i < rows; i += kStep) {
        aie::store_v(state + i, aie::broadcast<float, kLanes>(kMasked));
        for (int32_t part = 1; part < 4; ++part) aie::store_v(state + part * rows + i, zeros);
    }
}

extern "C" void attention_end(float* __restrict out, float* __restrict state, int32_t queries, int32_t head_dim) {
    set_modes();
    const float* sum = state + (queries + 15) / 16 * 16;
    for (int32_t query = 0; query < queries; query += 2) {  // two rows of a block are one vector
        const float first = sum[query] > 0.0F ? aie::inv(sum[query]) : 0.0F;
        const float second = sum[query + 1] > 0.0F ? aie::inv(sum[query + 1]) : 0.0F;
        const Split factor = split(two_rows(first, second));
        LOOP_AT_LEAST(4)
        for (int32_t column = 0; column < head_dim / 8; ++column) {
            float* at = out + (query / 4 * (head_dim / 8) + column) * 32 + query % 4 * 8;
            aie::store_v(at, multiply(split(aie::load_v<kLanes>(at)), factor));
        }
    }
}

// The operands come in two objects, as they come through two channels: a header, q and q_scale; and a header, k, v,
// k_scale and v_scale. Keys that no query of the tile sees cost nothing.
extern "C" void attention_i8_tile(const int8_t* __restrict q_object, const int8_t* __restrict kv_object,
                                  float* __restrict out, float* __restrict state, int32_t queries, int32_t keys,
                                  int32_t head_dim) {
    AttentionHeader header = *reinterpret_cast<const AttentionHeader*>(q_object);
    const auto* tile = reinterpret_cast<const AttentionHeader*>(kv_object);
    header.queries = queries;
    header.keys = keys;
    header.head_dim = head_dim;
    header.first_key = tile->first_key;
    header.key_count = tile->key_count;
    const int32_t last_query = header.first_query + (queries - 1) / header.group;
    if (header.key_count <= 0 || header.first_key > last_query) return;
    if (header.window > 0 && header.first_key + header.key_count <= header.first_query - header.window + 1) return;
    const int8_t* q = q_object + sizeof(AttentionHeader);
    const int8_t* k = kv_object + sizeof(AttentionHeader);
    const int8_t* v = k + keys * head_dim;
    const auto* k_scale = reinterpret_cast<const float*>(v + keys * head_dim);
    set_modes();
    attend({q, reinterpret_cast<const float*>(q + queries * head_dim), k, k_scale, v, k_scale + keys * head_dim / 32,
            out, State(state, queries, keys), header});
}
