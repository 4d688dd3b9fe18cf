// Products of small matrices by the lanes of a subgroup together: by cooperative matrices (MATRIX == KHR), or by plain
// code over the same memory (MATRIX == SCALAR) for devices without them.
//
// The kernel gives FRAGMENT_COLS, FRAGMENT_ROWS and FRAGMENT_DEPTH, three distinct specialization constants (see
// tools/spirv/matrix_khr.py); SUBGROUP; and `memory`, shared uvec4. A fragment of weights is FRAGMENT_COLS x
// FRAGMENT_DEPTH, of activations FRAGMENT_DEPTH x FRAGMENT_ROWS, sums are FRAGMENT_COLS x FRAGMENT_ROWS. In memory the
// first two have their inputs side by side as f16 (weights that are loaded "across": their outputs), sums their outputs as
// f32; strides count uvec4.
#define SCALAR 0
#define KHR 1

#if MATRIX == KHR
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require

#define WeightFragment fcoopmatNV<16, gl_ScopeSubgroup, FRAGMENT_COLS, FRAGMENT_DEPTH>
#define ActivationFragment fcoopmatNV<16, gl_ScopeSubgroup, FRAGMENT_DEPTH, FRAGMENT_ROWS>
#define Sums fcoopmatNV<32, gl_ScopeSubgroup, FRAGMENT_COLS, FRAGMENT_ROWS>

#define UNROLL [[unroll]]
#define WARP gl_SubgroupID
#define WARP_LANE gl_SubgroupInvocationID
#define CLEAR(sums) sums = Sums(0.0)
#define LOAD_WEIGHTS(fragment, at, stride) coopMatLoadNV(fragment, memory, at, stride, false)
#define LOAD_WEIGHTS_ACROSS(fragment, at, stride) coopMatLoadNV(fragment, memory, at, stride, true)
#define LOAD_ACTIVATIONS(fragment, at, stride) coopMatLoadNV(fragment, memory, at, stride, true)
#define LOAD_SUMS(sums, at, stride) coopMatLoadNV(sums, memory, at, stride, true)
#define MULTIPLY_ADD(sums, weights, activations) sums = coopMatMulAddNV(weights, activations, sums)
#define STORE_SUMS(sums, at, stride) coopMatStoreNV(sums, memory, at, stride, true)
#define SCALE_SUMS(sums, factors) \
    [[unroll]] for (uint element = 0u; element < sums.length(); ++element) sums[element] *= factors[element]
#else
// A fragment is only where it lies: its elements are read when they are multiplied.
struct Fragment {
    uint at;
    uint stride;
    bool across;
};
#define WeightFragment Fragment
#define ActivationFragment Fragment

// Element i of a lane is number i * SUBGROUP + lane of the sums, counted row after row.
struct Sums {
    float at[FRAGMENT_COLS * FRAGMENT_ROWS / SUBGROUP];
};

#define UNROLL [[dont_unroll]]
#define WARP (gl_LocalInvocationIndex / SUBGROUP)
#define WARP_LANE (gl_LocalInvocationIndex % SUBGROUP)
#define LOAD_WEIGHTS(fragment, where, step) fragment = Fragment(where, step, false)
#define LOAD_WEIGHTS_ACROSS(fragment, where, step) fragment = Fragment(where, step, true)
#define LOAD_ACTIVATIONS(fragment, where, step) fragment = Fragment(where, step, false)
#define LOAD_SUMS(sums, where, step) load_sums(sums, where, step)
#define CLEAR(sums) clear_sums(sums)
#define MULTIPLY_ADD(sums, weights, activations) multiply_add(sums, weights, activations)
#define STORE_SUMS(sums, where, step) store_sums(sums, where, step)
#define SCALE_SUMS(sums, factors) \
    UNROLL for (uint element = 0u; element < sums.at.length(); ++element) sums.at[element] *= factors.at[element]

void clear_sums(inout Sums sums) {
    UNROLL for (uint i = 0u; i < sums.at.length(); ++i) sums.at[i] = 0.0;
}

float dot8(uvec4 a, uvec4 b) {
    return dot(unpackHalf2x16(a.x), unpackHalf2x16(b.x)) + dot(unpackHalf2x16(a.y), unpackHalf2x16(b.y)) +
           dot(unpackHalf2x16(a.z), unpackHalf2x16(b.z)) + dot(unpackHalf2x16(a.w), unpackHalf2x16(b.w));
}

float half_at(uint at, uint i) { return unpackHalf2x16(memory[at + i / 8u][i / 2u % 4u])[i % 2u]; }

float dot_across(uint w, uint stride, uint x) {
    float sum = 0.0;
    [[unroll]] for (uint i = 0u; i < 16u; ++i) sum += half_at(w / 8u + i * stride, w % 8u) * half_at(x, i);
    return sum;
}

void multiply_add(inout Sums sums, Fragment weights, Fragment activations) {
    UNROLL for (uint i = 0u; i < sums.at.length(); ++i) {
        const uint element = i * SUBGROUP + WARP_LANE;
        const uint w = weights.at + element % FRAGMENT_COLS * weights.stride;
        const uint x = activations.at + element / FRAGMENT_COLS * activations.stride;
        if (weights.across) {
            sums.at[i] += dot_across(8u * weights.at + element % FRAGMENT_COLS, weights.stride, x);
            continue;
        }
        // 16 inputs; loops would count against the bound that some software devices set on them
        sums.at[i] += dot8(memory[w], memory[x]) + dot8(memory[w + 1u], memory[x + 1u]);
    }
}

void load_sums(inout Sums sums, uint at, uint stride) {
    UNROLL for (uint i = 0u; i < sums.at.length(); ++i) {
        const uint element = i * SUBGROUP + WARP_LANE;
        const uint col = element % FRAGMENT_COLS;
        sums.at[i] = uintBitsToFloat(memory[at + element / FRAGMENT_COLS * stride + col / 4u][col % 4u]);
    }
}

void store_sums(Sums sums, uint at, uint stride) {
    UNROLL for (uint i = 0u; i < sums.at.length(); ++i) {
        const uint element = i * SUBGROUP + WARP_LANE;
        const uint col = element % FRAGMENT_COLS;
        memory[at + element / FRAGMENT_COLS * stride + col / 4u][col % 4u] = floatBitsToUint(sums.at[i]);
    }
}
#endif
