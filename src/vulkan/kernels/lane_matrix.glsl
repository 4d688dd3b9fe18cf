// Matrices of 16 x 16 whose elements each lane of a subgroup of 32 fills in and takes out by itself, without a way through
// shared memory. Which elements a lane has is the device's own business, so vulkan/lane_layout.h asks it first; this is
// what NVIDIA's have. With g = lane / 4 and t = lane % 4:
//   weights (outputs x inputs)  elements 0..7: inputs 2t, 2t + 1, 2t + 8, 2t + 9 of output g, then of output g + 8
//   activations (inputs x rows) elements 0..7: inputs 2t, 2t + 1, 2t + 8, 2t + 9 of row g, then of row g + 8
//   sums (outputs x rows)       elements 0..7: rows 2t, 2t + 1, 2t + 8, 2t + 9 of output g, then of output g + 8
// With ROWS = 8 there is no row from 8 on, and activations and sums have four elements.
// MATRIX == KHR: cooperative matrices. MATRIX == SCALAR: the same by plain code, to test the kernels that use it.

const uint LANES = 32u;  // of a warp
const uint ELEMENTS = ROWS / 2u;  // of activations and sums, of a lane
// Unrolled as the kernel is built: a driver that meets a loop over elements may put whole matrices into memory.
#define EACH_ELEMENT(i) [[unroll]] for (uint i = 0u; i < 8u; ++i) if (i < ELEMENTS)

#define PUT_PAIR(matrix, i, halves)                  \
    {                                                \
        const f16vec2 pair = unpackFloat2x16(halves); \
        ELEMENT(matrix, i) = pair.x;                 \
        ELEMENT(matrix, i + 1u) = pair.y;            \
    }

// Of element `i` of the sums.
uint output_of(uint lane, uint i) { return lane / 4u + 8u * (2u * i / ELEMENTS); }
uint row_of(uint lane, uint i) { return 2u * (lane % 4u) + i % 2u + (ROWS == 16u ? (i & 2u) * 4u : 0u); }

#if MATRIX == KHR
#extension GL_NV_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require

#define WeightMatrix fcoopmatNV<16, gl_ScopeSubgroup, COLS, DEPTH>
#define ActivationMatrix fcoopmatNV<16, gl_ScopeSubgroup, DEPTH, ROWS>
#define SumMatrix fcoopmatNV<32, gl_ScopeSubgroup, COLS, ROWS>
#define UNROLL [[unroll]]
#define WARP gl_SubgroupID
#define LANE gl_SubgroupInvocationID
#define CLEAR(sums) sums = SumMatrix(0.0)
#define WARPS_IN_STEP false
#define MULTIPLY_ADD(sums, weights, activations) sums = coopMatMulAddNV(weights, activations, sums)
#define ELEMENT(matrix, i) matrix[i]
#define FROM_LANE(value, lane) subgroupShuffle(value, lane)  // of the warp
#else
struct LaneMatrix {
    float at[8];
};
#define WeightMatrix LaneMatrix
#define ActivationMatrix LaneMatrix
#define SumMatrix LaneMatrix
#define UNROLL [[dont_unroll]]
#define WARP (gl_LocalInvocationIndex / LANES)
#define LANE (gl_LocalInvocationIndex % LANES)
#define CLEAR(sums) [[unroll]] for (uint cleared = 0u; cleared < 8u; ++cleared) sums.at[cleared] = 0.0
#define WARPS_IN_STEP true
#define MULTIPLY_ADD(sums, weights, activations) multiply_add(sums, weights, activations)
#define ELEMENT(matrix, i) matrix.at[i]
#define FROM_LANE(value, lane) from_lane(value, lane)

shared float lane_weights[WARPS * LANES * 8u];
shared float lane_activations[WARPS * LANES * 8u];

// All warps of the workgroup must come here and to multiply_add together.
float from_lane(float value, uint lane) {
    barrier();
    lane_weights[WARP * LANES + LANE] = value;
    barrier();
    return lane_weights[WARP * LANES + lane];
}

void multiply_add(inout LaneMatrix sums, LaneMatrix weights, LaneMatrix activations) {
    const uint first = WARP * LANES * 8u;
    barrier();
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        lane_weights[first + LANE * 8u + i] = weights.at[i];
        lane_activations[first + LANE * 8u + i] = activations.at[i];
    }
    barrier();
    [[dont_unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
        const uint col = output_of(LANE, i), row = row_of(LANE, i);
        [[unroll]] for (uint k = 0u; k < 16u; ++k) {
            const uint t = k % 8u / 2u;
            const uint w = first + (col % 8u * 4u + t) * 8u + (k & 1u) + k / 8u * 2u + col / 8u * 4u;
            const uint x = first + (row % 8u * 4u + t) * 8u + (k & 1u) + k / 8u * 2u + row / 8u * 4u;
            sums.at[i] += lane_weights[w] * lane_activations[x];
        }
    }
}
#endif
