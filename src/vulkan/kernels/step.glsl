// What changes from step to step (see vulkan/step_state.h): its rows, the tiles of attention, and the block tables.
layout(buffer_reference, scalar, buffer_reference_align = 4) readonly buffer StepHeader {
    uint rows;
    uint outputs;
    uint tiles;
    uint single_rows;  // that are in no tile
};

// Rows of one sequence that attend together.
struct RowTile {
    uint sequence;
    uint first_row;
    uint rows;
    uint position;  // of the first row
};
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer RowTiles { RowTile at[]; };

// Where the keys or values of a position lie: [block][kv_head][slot][head_dim].
struct CacheShape {
    uint64_t blocks;  // the group's block tables, `stride` entries for each sequence
    uint stride;
    uint block_tokens;
    uint kv_heads;
    uint head_dim;
};

uint cache_element(CacheShape shape, uint sequence, uint position, uint kv_head) {
    const uint block = Uints(shape.blocks).at[sequence * shape.stride + position / shape.block_tokens];
    return ((block * shape.kv_heads + kv_head) * shape.block_tokens + position % shape.block_tokens) * shape.head_dim;
}

layout(constant_id = 0) const bool CACHE_F16 = true;

float cache_read(uint64_t base, uint element) {
    return CACHE_F16 ? float(Halves(base).at[element]) : Floats(base).at[element];
}
