// Where attention puts its result: Activations of any format (vulkan/activations.h), four elements per lane. Eight lanes
// that follow one another in a subgroup hold the 32 elements of a block.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// The enum ActivationFormat.
#define FORMAT_F32 0
#define FORMAT_Q8 1
#define FORMAT_F16 2
#define FORMAT_TILES 3

layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Float4sOut { vec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Uint2sOut { uvec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer UintsOut { uint at[]; };

void put_q8(uint64_t y, uint rows, uint cols, uint row, uint quad, vec4 x) {
    const vec4 sizes = abs(x);
    float largest = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
    [[unroll]] for (uint lanes = 1u; lanes < 8u; lanes *= 2u) {
        largest = max(largest, subgroupShuffleXor(largest, lanes));
    }
    const ivec4 q = ivec4(roundEven(x * (largest == 0.0 ? 0.0 : 127.0 / largest)));
    int sum = q.x + q.y + q.z + q.w;
    [[unroll]] for (uint lanes = 1u; lanes < 4u; lanes *= 2u) sum += subgroupShuffleXor(sum, lanes);
    const int other_sum = subgroupShuffleXor(sum, 4u);

    const uint blocks = cols / 32u;
    const uint block = quad / 8u;
    const uint word = quad % 8u;
    const uint half_block = (row * 2u + word / 4u) * blocks + block;
    UintsOut(y).at[half_block * 4u + word % 4u] = pack32(i8vec4(q));
    if (word == 0u) {
        const uint sums = packFloat2x16(f16vec2(float(sum), float(other_sum)));
        const uint64_t scales = y + uint64_t(rows) * cols;
        Uint2sOut(scales).at[row * blocks + block] = uvec2(floatBitsToUint(largest / 127.0), sums);
    }
}

void put_tiles(uint64_t y, uint rows, uint row, uint quad, vec4 x) {
    const uint window = quad / 32u, lane = row % 8u * 4u + quad % 32u / 8u, step = quad % 8u;
    const uint tile = (window * 8u + step) * ((rows + 15u) / 16u) + row / 16u;
    Uint2sOut(y).at[(tile * 32u + lane) * 2u + row % 16u / 8u] = uvec2(packHalf2x16(x.xz), packHalf2x16(x.yw));
}

// Elements 4 * `quad` and on of a row.
void put_activations(uint format, uint64_t y, uint rows, uint cols, uint row, uint quad, vec4 x) {
    if (format == FORMAT_Q8) {
        put_q8(y, rows, cols, row, quad, x);
    } else if (format == FORMAT_F16) {
        Uint2sOut(y).at[row * (cols / 4u) + quad] = uvec2(packFloat2x16(f16vec2(x.xy)), packFloat2x16(f16vec2(x.zw)));
        // no result of attention is larger than the largest value in the cache, which is f16
        if (quad == 0u) FloatsOut(y + 2ul * rows * cols).at[row] = 1.0;
    } else if (format == FORMAT_TILES) {
        put_tiles(y, rows, row, quad, x);
        if (quad == 0u) FloatsOut(y + 2ul * ((rows + 15u) / 16u * 16u) * cols).at[row] = 1.0;
    } else {
        Float4sOut(y).at[row * (cols / 4u) + quad] = x;
    }
}
