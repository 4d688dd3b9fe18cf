// What the kernels of attention of many rows share: their parameters, and the rows and positions of a workgroup.
layout(push_constant, scalar) uniform TileParams {
    uint64_t q;  // f16 [rows][KV_HEADS * GROUP][HEAD_DIM]
    uint64_t step;
    uint64_t row_tiles;
    uint64_t blocks;
    uint64_t cache_k;
    uint64_t cache_v;
    uint64_t y;
    uint64_t sinks;  // f32 [HEADS], with SINKS: one more score of each head, without a value
    uint stride;
    uint rows;
    uint window;
    float scale;
    float softcap;
} p;

RowTile tile;
uint first;  // position that the first row sees
uint last;   // that the last row sees

uint first_seen(uint position) { return p.window == 0u ? 0u : max(position + 1u, p.window) - p.window; }

// Of the tile at hand, at most `rows` after those that other workgroups have.
void take_rows(uint skipped, uint rows) {
    tile.first_row += skipped;
    tile.position += skipped;
    tile.rows = min(tile.rows - skipped, rows);
    first = first_seen(tile.position);
    last = tile.position + tile.rows - 1u;
}
