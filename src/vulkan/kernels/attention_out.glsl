// Where attention puts its result: Activations of any format (vulkan/activations.h), four elements per lane. Eight lanes
// that follow one another in a subgroup hold the 32 elements of a block.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "activations.glsl"

// Elements 4 * `quad` and on of a row.
void put_activations(uint format, uint64_t y, uint rows, uint cols, uint row, uint quad, vec4 x) {
    if (format == ACTIVATION_Q8) {
        store_q8(y, rows, cols, row, quad, x);
    } else if (format == ACTIVATION_F32) {
        Float4sOut(y).at[row * (cols / 4u) + quad] = x;
    } else {
        // no result of attention is larger than the largest value in the cache, which is f16: the scale is 1
        uint64_t scales = y + 2ul * rows * cols;
        if (format == ACTIVATION_TILES) {
            store_tiles(y, rows, cols, row, quad, x);
            scales = tile_scales(y, rows, cols);
        } else {
            Uint2sOut(y).at[row * (cols / 4u) + quad] = uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw));
        }
        if (quad == 0u) FloatsOut(scales).at[row] = 1.0;
    }
}
