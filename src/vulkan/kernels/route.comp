// The experts of a row, and their weights, as op::Route has them. A subgroup takes a row: lane l of it has the experts l,
// l + LANES and so on.
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "common.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint LANES = 8u;
layout(constant_id = 1) const uint EXPERTS = 8u;
layout(constant_id = 2) const uint USED = 1u;
layout(constant_id = 3) const uint SCORE = 0u;  // the enum op::Score: softmax, sigmoid, chosen_softmax
layout(constant_id = 4) const bool NORMALIZE = false;
layout(constant_id = 5) const uint GROUPS = 1u;
layout(constant_id = 6) const uint USED_GROUPS = 1u;

layout(push_constant, scalar) uniform Params {
    uint64_t logits;
    uint64_t bias;  // 0: none
    uint64_t y;
    float scale;
} p;

const uint EACH = (EXPERTS + LANES - 1u) / LANES;
const float LEAST = -3.0e38;  // of what can be chosen
const float OUT = -3.4e38;    // what cannot be, or not any more

float score[EACH];
float value[EACH];

uint expert_of(uint i) { return i * LANES + gl_LocalInvocationID.x; }

// The largest value of all lanes, within experts [begin, end).
float best_value(uint begin, uint end) {
    float best = OUT;
    for (uint i = 0u; i < EACH; ++i) {
        if (expert_of(i) >= begin && expert_of(i) < end) best = max(best, value[i]);
    }
    return subgroupMax(best);
}

// The first that has it.
uint first_with(float best, uint begin, uint end) {
    uint first = EXPERTS;
    for (uint i = 0u; i < EACH; ++i) {
        if (expert_of(i) >= begin && expert_of(i) < end && value[i] == best) first = min(first, expert_of(i));
    }
    return subgroupMin(first);
}

void make_scores(uint row) {
    float largest = OUT;
    for (uint i = 0u; i < EACH; ++i) {
        score[i] = expert_of(i) < EXPERTS ? Floats(p.logits).at[row * EXPERTS + expert_of(i)] : OUT;
        largest = max(largest, score[i]);
    }
    if (SCORE == 0u) {
        largest = subgroupMax(largest);
        float sum = 0.0;
        for (uint i = 0u; i < EACH; ++i) {
            score[i] = expert_of(i) < EXPERTS ? exp(score[i] - largest) : 0.0;
            sum += score[i];
        }
        sum = subgroupAdd(sum);
        for (uint i = 0u; i < EACH; ++i) score[i] /= sum;
    } else if (SCORE == 1u) {
        for (uint i = 0u; i < EACH; ++i) score[i] = 1.0 / (1.0 + exp(-score[i]));
    }
    for (uint i = 0u; i < EACH; ++i) {
        if (expert_of(i) >= EXPERTS) {
            value[i] = OUT;
            continue;
        }
        value[i] = score[i] + (p.bias == 0u ? 0.0 : Floats(p.bias).at[expert_of(i)]);
        if (!(value[i] > LEAST)) value[i] = LEAST;  // what is no number too
    }
}

// Leaves only the groups whose two best experts add up to most.
void keep_groups() {
    const uint size = EXPERTS / GROUPS;
    float worth[GROUPS];
    for (uint g = 0u; g < GROUPS; ++g) {
        worth[g] = best_value(g * size, (g + 1u) * size);
        const uint first = first_with(worth[g], g * size, (g + 1u) * size);
        if (size > 1u) worth[g] += max(best_value(g * size, first), best_value(first + 1u, (g + 1u) * size));
    }
    for (uint i = 0u; i < EACH; ++i) {
        const uint own = min(expert_of(i) / size, GROUPS - 1u);
        uint before = 0u;
        for (uint g = 0u; g < GROUPS; ++g) {
            if (g != own && (worth[g] > worth[own] || (worth[g] == worth[own] && g < own))) ++before;
        }
        if (before >= USED_GROUPS) value[i] = OUT;
    }
}

void main() {
    const uint row = gl_WorkGroupID.x;
    make_scores(row);
    if (GROUPS > 1u) keep_groups();

    uint chosen[USED];
    float weight[USED];
    for (uint slot = 0u; slot < USED; ++slot) {
        chosen[slot] = first_with(best_value(0u, EXPERTS), 0u, EXPERTS);
        float own = OUT;
        for (uint i = 0u; i < EACH; ++i) {
            if (expert_of(i) != chosen[slot]) continue;
            own = score[i];
            value[i] = OUT;
        }
        weight[slot] = subgroupMax(own);
    }
    float largest = OUT, sum = 0.0;
    for (uint slot = 0u; slot < USED; ++slot) largest = max(largest, weight[slot]);
    for (uint slot = 0u; slot < USED; ++slot) {
        if (SCORE == 2u) weight[slot] = exp(weight[slot] - largest);
        sum += weight[slot];
    }
    const float factor = SCORE == 2u || NORMALIZE ? p.scale / (sum + 1.0e-20) : p.scale;
    for (uint slot = 0u; slot < USED; ++slot) {
        if (gl_LocalInvocationID.x != slot % LANES) continue;
        FloatsOut(p.y).at[row * 2u * USED + slot] = float(chosen[slot]);
        FloatsOut(p.y).at[row * 2u * USED + USED + slot] = weight[slot] * factor;
    }
}
