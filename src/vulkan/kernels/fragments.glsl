// Products of small matrices by the lanes of a subgroup together: by cooperative matrices (MATRIX == KHR), or by plain
// code over the same memory (MATRIX == SCALAR) for devices without them.
//
// The kernel gives FRAGMENT_COLS, FRAGMENT_ROWS and FRAGMENT_DEPTH, three distinct specialization constants (see
// tools/spirv/matrix_khr.py); SUBGROUP; and `memory`, shared uvec4. A fragment of weights is FRAGMENT_COLS x
// FRAGMENT_DEPTH, of activations FRAGMENT_DEPTH x FRAGMENT_ROWS, sums are FRAGMENT_COLS x FRAGMENT_ROWS. In memory the
// first two have their inputs side by side as f16, sums their outputs as f32; strides count uvec4.

// Elements of the sums that a lane has. Not sums.length(): of sizes that are specialization constants that is one too, in
// a form that Mesa's drivers do not know.
const uint LANE_SUMS = FRAGMENT_COLS * FRAGMENT_ROWS / SUBGROUP;

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
#define LOAD_ACTIVATIONS(fragment, at, stride) coopMatLoadNV(fragment, memory, at, stride, true)
#define LOAD_SUMS(sums, at, stride) coopMatLoadNV(sums, memory, at, stride, true)
#define MULTIPLY_ADD(sums, weights, activations) sums = coopMatMulAddNV(weights, activations, sums)
#define STORE_SUMS(sums, at, stride) coopMatStoreNV(sums, memory, at, stride, true)
#define SCALE_SUMS(sums, factors) \
    [[unroll]] for (uint element = 0u; element < LANE_SUMS; ++element) sums[element] *= factors[element]
#else
// A fragment is only where it lies: its elements are read when they are multiplied.
struct Fragment {
    uint at;
    uint stride;
};
#define WeightFragment Fragment
#define ActivationFragment Fragment

// Element i of a lane is number i * SUBGROUP + lane of the sums, counted row after row. They are only touched one by one, in
// loops that stay loops: software devices compile whole copies of such arrays for minutes.
struct Sums {
    float at[LANE_SUMS];
};

#define UNROLL [[dont_unroll]]
#define WARP (gl_LocalInvocationIndex / SUBGROUP)
#define WARP_LANE (gl_LocalInvocationIndex % SUBGROUP)
#define LOAD_WEIGHTS(fragment, where, step) fragment = Fragment(where, step)
#define LOAD_ACTIVATIONS(fragment, where, step) fragment = Fragment(where, step)
#define EACH_SUM UNROLL for (uint element = 0u; element < LANE_SUMS; ++element)
#define CLEAR(sums) EACH_SUM sums.at[element] = 0.0
#define LOAD_SUMS(sums, where, step) EACH_SUM sums.at[element] = load_sum(where, step, element)
#define MULTIPLY_ADD(sums, weights, activations) EACH_SUM sums.at[element] += lane_product(weights, activations, element)
#define STORE_SUMS(sums, where, step) EACH_SUM store_sum(sums.at[element], where, step, element)
#define SCALE_SUMS(sums, factors) EACH_SUM sums.at[element] *= factors.at[element]

float dot8(uvec4 a, uvec4 b) {
    return dot(unpackHalf2x16(a.x), unpackHalf2x16(b.x)) + dot(unpackHalf2x16(a.y), unpackHalf2x16(b.y)) +
           dot(unpackHalf2x16(a.z), unpackHalf2x16(b.z)) + dot(unpackHalf2x16(a.w), unpackHalf2x16(b.w));
}

// Over the 16 inputs of a fragment; a loop would count against the bound that software devices set on them.
float lane_product(Fragment weights, Fragment activations, uint i) {
    const uint number = i * SUBGROUP + WARP_LANE;
    const uint col = number % FRAGMENT_COLS;
    const uint x = activations.at + number / FRAGMENT_COLS * activations.stride;
    const uint w = weights.at + col * weights.stride;
    return dot8(memory[w], memory[x]) + dot8(memory[w + 1u], memory[x + 1u]);
}

float load_sum(uint at, uint stride, uint i) {
    const uint number = i * SUBGROUP + WARP_LANE;
    const uint col = number % FRAGMENT_COLS;
    return uintBitsToFloat(memory[at + number / FRAGMENT_COLS * stride + col / 4u][col % 4u]);
}

void store_sum(float sum, uint at, uint stride, uint i) {
    const uint number = i * SUBGROUP + WARP_LANE;
    const uint col = number % FRAGMENT_COLS;
    memory[at + number / FRAGMENT_COLS * stride + col / 4u][col % 4u] = floatBitsToUint(sum);
}
#endif
