// Activations as matrix products read them (see vulkan/activations.h).
#define ACTIVATION_F32 0u
#define ACTIVATION_Q8 1u
#define ACTIVATION_F16 2u
#define ACTIVATION_TILES 3u

layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer Float4sOut { vec4 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Float2s { vec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Float2sOut { vec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer UintsOut { uint at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 8) writeonly buffer Uint2sOut { uvec2 at[]; };

// Four elements of a q8 row, of which eight lanes that are neighbours in a subgroup hold a block of 32 between them; all
// eight must be active. `quad` is the number of the four in their row.
void store_q8(uint64_t base, uint rows, uint cols, uint row, uint quad, vec4 value) {
    const uint blocks = cols / 32u;
    float largest = largest_of(value);
    [[unroll]] for (uint step = 1u; step < 8u; step *= 2u) largest = max(largest, subgroupShuffleXor(largest, step));
    const float scale = largest / 127.0;
    const ivec4 q = largest > 0.0 ? ivec4(roundEven(value * (127.0 / largest))) : ivec4(0);
    const uint block = quad / 8u, part = quad % 8u;
    int sum = q.x + q.y + q.z + q.w;
    sum += subgroupShuffleXor(sum, 1u);
    sum += subgroupShuffleXor(sum, 2u);  // of one half of the block
    const int other = subgroupShuffleXor(sum, 4u);
    if (quad * 4u >= cols) return;
    UintsOut(base).at[((row * 2u + part / 4u) * blocks + block) * 4u + part % 4u] = pack32(i8vec4(q));
    if (part == 0u) {
        const uint64_t scales = base + uint64_t(rows) * cols;
        Float2sOut(scales).at[row * blocks + block] = vec2(scale, uintBitsToFloat(packHalf2x16(vec2(sum, other))));
    }
}

// The power of two by which a row is divided, so that its largest value is below 2^8: f16 ends at 2^16, and products
// of small values with small weights keep all their bits down to 2^-14.
float f16_row_scale(float largest) { return largest > 0.0 ? exp2(floor(log2(largest)) - 7.0) : 1.0; }

// Of a tile.
uint tile_rows(uint rows) { return rows <= 8u ? 8u : 16u; }

// Four f16 elements of a row in tiles.
void store_tiles(uint64_t base, uint rows, uint cols, uint row, uint quad, vec4 value) {
    const uint window = quad / 32u, lane = row % 8u * 4u + quad % 32u / 8u, step = quad % 8u;
    const uint tile = (row / 16u * (cols / 128u) + window) * 8u + step;
    Uint2sOut(base).at[(tile * 32u + lane) * (tile_rows(rows) / 8u) + row % 16u / 8u] =
        uvec2(packHalf2x16(value.xz), packHalf2x16(value.yw));
}

// Which f16 in tiles is element `col` of a row.
uint tile_half(uint rows, uint cols, uint row, uint col) {
    const uint tile = (row / 16u * (cols / 128u) + col / 128u) * 8u + col % 32u / 4u, lane = row % 8u * 4u + col % 128u / 32u;
    const uint in_four = (col & 1u) * 2u + (col >> 1 & 1u);  // 0, 2, 1, 3
    return ((tile * 32u + lane) * (tile_rows(rows) / 8u) + row % 16u / 8u) * 4u + in_four;
}

// Where the scales of rows begin.
uint64_t tile_scales(uint64_t base, uint rows, uint cols) {
    const uint whole = (rows + tile_rows(rows) - 1u) / tile_rows(rows) * tile_rows(rows);
    return base + uint64_t(whole) * cols * 2u;
}
