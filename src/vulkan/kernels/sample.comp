// Draws one token per row as device/sampling.h defines it; one workgroup per row. What a filter keeps is always "the most
// likely first, lower ids first among equals", so a pair (key, id) says where it ends, found four bits at a time: no sort.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 256u;

struct Sampling {
    uint64_t seed;
    uint64_t draw;
    uint64_t allowed;  // a bit for each token that may be drawn; 0: every token may
    float temperature;
    uint top_k;
    float top_p;
    float min_p;
    float repetition_penalty;
    float presence_penalty;
    float frequency_penalty;
    uint first_adjustment;
    uint adjustments;
};
struct Adjustment {
    uint token;
    float count;  // how often it was seen
    float bias;
    float saved;  // the logit as it was
};
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Samplings { Sampling at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Adjustments { Adjustment at[]; };

layout(push_constant, scalar) uniform Params {
    uint64_t logits;
    uint64_t samplings;
    uint64_t adjustments;
    uint64_t tokens;
    uint vocab;
} p;

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer LogitFours { vec4 at[]; };

shared float reduce_value[LANES];
shared uint reduce_id[LANES];
const uint DIGITS = 15u;                        // all but zero of four bits of a key
shared float digit_sums[LANES / 4u * DIGITS];  // of each subgroup, which has at least four lanes

uint first;  // of the row's logits
uint64_t allowed;
float temperature;
float largest;
uint key_cut = 0u;          // kept: a larger key,
uint id_cut = 0xffffffffu;  // or this key and an id up to this one

// `masked`, here and below: whether the row has a mask. All is made twice, with it and without: where loops look at no
// mask, the loads of several tokens are under way at once.
bool is_allowed(uint id, bool masked) { return !masked || ((Uints(allowed).at[id >> 5] >> (id & 31u)) & 1u) != 0u; }

// NaN, and what may not be drawn, count as minus infinity.
float counted(uint id, float value, bool masked) {
    return isnan(value) || !is_allowed(id, masked) ? uintBitsToFloat(0xff800000u) : value;
}

float logit(uint id, bool masked) { return counted(id, FloatsOut(p.logits).at[first + id], masked); }

// Orders as the floats do.
uint key_of(float value) {
    const uint bits = floatBitsToUint(value == 0.0 ? 0.0 : value);
    return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

bool kept(uint key, uint id) { return key > key_cut || (key == key_cut && id <= id_cut); }

float relative(float value) { return (value - largest) / temperature; }

float sum_over_lanes(float value) {
    const uint lane = gl_LocalInvocationID.x;
    reduce_value[lane] = value;
    barrier();
    for (uint half_size = LANES / 2u; half_size > 0u; half_size /= 2u) {
        if (lane < half_size) reduce_value[lane] += reduce_value[lane + half_size];
        barrier();
    }
    const float result = reduce_value[0];
    barrier();
    return result;
}

// The lane with the largest value, the lowest id among equals; its id is returned, its value left in `best`.
uint argmax_over_lanes(float value, uint id, out float best) {
    const uint lane = gl_LocalInvocationID.x;
    reduce_value[lane] = value;
    reduce_id[lane] = id;
    barrier();
    for (uint half_size = LANES / 2u; half_size > 0u; half_size /= 2u) {
        if (lane < half_size) {
            const float other = reduce_value[lane + half_size];
            const uint other_id = reduce_id[lane + half_size];
            if (other > reduce_value[lane] || (other == reduce_value[lane] && other_id < reduce_id[lane])) {
                reduce_value[lane] = other;
                reduce_id[lane] = other_id;
            }
        }
        barrier();
    }
    best = reduce_value[0];
    const uint result = reduce_id[0];
    barrier();
    return result;
}

// Adds up `values` over the lanes, all of them at once; every lane gets the sums.
void sum_all(inout float values[DIGITS]) {
    [[unroll]] for (uint i = 0u; i < DIGITS; ++i) {
        const float sum = subgroupAdd(values[i]);
        if (subgroupElect()) digit_sums[gl_SubgroupID * DIGITS + i] = sum;
    }
    barrier();
    if (gl_LocalInvocationID.x < DIGITS) {
        float sum = 0.0;
        for (uint s = 0u; s < gl_NumSubgroups; ++s) sum += digit_sums[s * DIGITS + gl_LocalInvocationID.x];
        reduce_value[gl_LocalInvocationID.x] = sum;
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < DIGITS; ++i) values[i] = reduce_value[i];
    barrier();
}

// How many (or, with `mass`, how much probability) of what is kept now has a key of at least `low`.
float measure_from(uint low, bool mass, bool masked) {
    float sum = 0.0;
    for (uint id = gl_LocalInvocationID.x; id < p.vocab; id += LANES) {
        const float value = logit(id, masked);
        const uint key = key_of(value);
        if (key >= low && kept(key, id)) sum += mass ? exp(relative(value)) : 1.0;
    }
    return sum_over_lanes(sum);
}

// The same for the keys `base` + 1, 2, ... DIGITS times 2^shift, in one pass over the logits.
void measure_digits(uint base, uint shift, bool mass, bool masked, out float sums[DIGITS]) {
    [[unroll]] for (uint i = 0u; i < DIGITS; ++i) sums[i] = 0.0;
    for (uint id = gl_LocalInvocationID.x; id < p.vocab; id += LANES) {
        const float value = logit(id, masked);
        const uint key = key_of(value);
        if (key < base || !kept(key, id)) continue;
        const float amount = mass ? exp(relative(value)) : 1.0;
        const uint digit = min((key - base) >> shift, DIGITS);
        [[unroll]] for (uint i = 0u; i < DIGITS; ++i) sums[i] += digit > i ? amount : 0.0;
    }
    sum_all(sums);
}

// How many with exactly the key `key` have an id of at most `last`.
float count_equal(uint key, uint last, bool masked) {
    float sum = 0.0;
    for (uint id = gl_LocalInvocationID.x; id < p.vocab && id <= last; id += LANES) {
        if (key_of(logit(id, masked)) == key && kept(key, id)) sum += 1.0;
    }
    return sum_over_lanes(sum);
}

// Keeps the most likely until their count, or mass, reaches `target`.
void keep_until(float target, bool mass, bool masked) {
    uint key = 0u;  // the largest with measure_from(key) >= target
    for (int shift = 28; shift >= 0; shift -= 4) {
        float sums[DIGITS];
        measure_digits(key, uint(shift), mass, masked, sums);
        uint digit = 0u;  // sums fall from one to the next
        [[unroll]] for (uint i = 0u; i < DIGITS; ++i) digit += sums[i] >= target ? 1u : 0u;
        key += digit << shift;
    }
    const float above = key == 0xffffffffu ? 0.0 : measure_from(key + 1u, mass, masked);
    const float equal = count_equal(key, 0xffffffffu, masked);
    if (equal == 0.0) return;
    const float each = mass ? (measure_from(key, true, masked) - above) / equal : 1.0;
    const float wanted = clamp(ceil((target - above) / each), 1.0, equal);
    uint id = 0u;  // the smallest with count_equal(key, id) >= wanted
    if (wanted < equal) {
        uint high = p.vocab - 1u;
        while (id < high) {
            const uint middle = (id + high) / 2u;
            if (count_equal(key, middle, masked) >= wanted) {
                high = middle;
            } else {
                id = middle + 1u;
            }
        }
    } else {
        id = 0xffffffffu;
        if (key == key_cut) id = id_cut;
    }
    key_cut = key;
    id_cut = id;
}

uint64_t mix64(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9UL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebUL;
    return x ^ (x >> 31);
}

// device::sampling_uniform, bit for bit.
float uniform_of(uint64_t seed, uint64_t draw, uint token) {
    const uint64_t golden = 0x9e3779b97f4a7c15UL;
    const uint64_t stream = mix64(mix64(seed + golden) + (draw + 1UL) * golden);
    const uint64_t bits = mix64(stream + (uint64_t(token) + 1UL) * golden);
    return (float(uint(bits >> 41)) + 0.5) * 1.1920928955078125e-7;
}

// -log(u). Near 1 Vulkan promises log() within 2^-21 only, of a result that may be as small: of many tokens one would get
// any noise at all. 1 - u is exact.
float exponential_of(float u) {
    const float w = 1.0 - u;
    if (w >= 0.03125) return -log(u);
    return w * (1.0 + w * (0.5 + w * (1.0 / 3.0 + w * (0.25 + w * 0.2))));
}

void adjust(Sampling s) {
    for (uint i = gl_LocalInvocationID.x; i < s.adjustments; i += LANES) {
        const uint at = s.first_adjustment + i;
        const Adjustment a = Adjustments(p.adjustments).at[at];
        if (a.token >= p.vocab) continue;
        float value = FloatsOut(p.logits).at[first + a.token];
        Adjustments(p.adjustments).at[at].saved = value;
        if (a.count > 0.0) {
            value = value > 0.0 ? value / s.repetition_penalty : value * s.repetition_penalty;
            value -= s.presence_penalty + a.count * s.frequency_penalty;
        }
        FloatsOut(p.logits).at[first + a.token] = value + a.bias;
    }
    memoryBarrierBuffer();
    barrier();
}

void restore(Sampling s) {
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < s.adjustments; i += LANES) {
        const Adjustment a = Adjustments(p.adjustments).at[s.first_adjustment + i];
        if (a.token < p.vocab) FloatsOut(p.logits).at[first + a.token] = a.saved;
    }
}

uint draw_token(Sampling s, bool masked) {
    float best = uintBitsToFloat(0xff800000u);
    uint best_id = 0xffffffffu;
    for (uint id = gl_LocalInvocationID.x; id < p.vocab; id += LANES) {
        const float value = logit(id, masked);
        if (!kept(key_of(value), id)) continue;
        const float v = relative(value);
        if (s.min_p > 0.0 && exp(v) < s.min_p) continue;
        const float noisy = v - log(exponential_of(uniform_of(s.seed, s.draw, id)));
        if (noisy > best || best_id == 0xffffffffu) {
            best = noisy;
            best_id = id;
        }
    }
    float unused;
    return argmax_over_lanes(best, best_id, unused);
}

void consider(uint id, float value, bool masked, inout float best, inout uint best_id) {
    value = counted(id, value, masked);
    if (value > best || (best_id == 0xffffffffu && is_allowed(id, masked))) {
        best = value;
        best_id = id;
    }
}

// The likeliest of what a lane looks at. Four fours of logits are under way at once, where rows begin on whole fours.
const uint FOURS_AT_ONCE = 4u;
void find_best(bool masked, out float best, out uint best_id) {
    best = uintBitsToFloat(0xff800000u);
    best_id = 0xffffffffu;
    const uint fours = p.vocab % 4u == 0u ? p.vocab / 4u : 0u;
    for (uint begin = 0u; begin < fours; begin += FOURS_AT_ONCE * LANES) {
        vec4 values[FOURS_AT_ONCE];
        [[unroll]] for (uint i = 0u; i < FOURS_AT_ONCE; ++i) {
            const uint four = min(begin + i * LANES + gl_LocalInvocationID.x, fours - 1u);
            values[i] = LogitFours(p.logits + uint64_t(first) * 4u).at[four];
        }
        [[unroll]] for (uint i = 0u; i < FOURS_AT_ONCE; ++i) {
            const uint four = min(begin + i * LANES + gl_LocalInvocationID.x, fours - 1u);
            [[unroll]] for (uint j = 0u; j < 4u; ++j) consider(4u * four + j, values[i][j], masked, best, best_id);
        }
    }
    for (uint id = 4u * fours + gl_LocalInvocationID.x; id < p.vocab; id += LANES) {
        consider(id, FloatsOut(p.logits).at[first + id], masked, best, best_id);
    }
}

uint sample_row(Sampling s, bool masked) {
    float best;
    uint best_id;
    find_best(masked, best, best_id);
    const uint likeliest = argmax_over_lanes(best, best_id, largest);
    if (!(s.temperature > 0.0) || isinf(largest)) return likeliest;  // NaN is no temperature
    if (s.top_k > 0u && s.top_k < p.vocab) keep_until(float(s.top_k), false, masked);
    // the most likely is kept in any case: its mass alone is 1
    if (s.top_p < 1.0) keep_until(max(s.top_p * measure_from(0u, true, masked), 1.0e-30), true, masked);
    return draw_token(s, masked);
}

void main() {
    const uint row = gl_WorkGroupID.x;
    const Sampling s = Samplings(p.samplings).at[row];
    first = row * p.vocab;
    allowed = s.allowed;
    temperature = s.temperature;
    adjust(s);
    uint token;
    if (s.allowed == 0UL) {
        token = sample_row(s, false);
    } else {
        token = sample_row(s, true);
    }
    if (gl_LocalInvocationID.x == 0u) IntsOut(p.tokens).at[row] = int(token);
    restore(s);
}
