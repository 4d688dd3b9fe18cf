// Sorts the slots of a step by expert and cuts them into tiles: see vulkan/kernels/expert_rows.h. One workgroup counts, adds
// up and puts in place.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint EXPERTS = 8u;
layout(push_constant, scalar) uniform Params {
    uint64_t routing;
    uint64_t tiles;
    uint64_t order;
    uint slots;
    uint used;
    uint tile_rows;
    uint tile_count;
} p;

layout(buffer_reference, scalar, buffer_reference_align = 16) writeonly buffer TilesOut { uvec4 at[]; };

shared uint count[EXPERTS];  // then where the next slot of the expert goes
shared uint first_tile[EXPERTS];
shared uint tiles_used;

const uint LANES = 256u;

uint expert_of(uint slot) { return uint(Floats(p.routing).at[slot / p.used * 2u * p.used + slot % p.used]); }

void main() {
    const uint lane = gl_LocalInvocationID.x;
    for (uint e = lane; e < EXPERTS; e += LANES) count[e] = 0u;
    barrier();
    for (uint slot = lane; slot < p.slots; slot += LANES) atomicAdd(count[expert_of(slot)], 1u);
    barrier();
    if (lane == 0u) {
        uint tile = 0u;
        for (uint e = 0u; e < EXPERTS; ++e) {
            first_tile[e] = tile;
            tile += (count[e] + p.tile_rows - 1u) / p.tile_rows;
        }
        tiles_used = tile;
        uint place = 0u;
        for (uint e = 0u; e < EXPERTS; ++e) {
            const uint rows = count[e];
            count[e] = place;
            place += rows;
        }
    }
    barrier();
    for (uint e = lane; e < EXPERTS; e += LANES) {
        const uint end = e + 1u < EXPERTS ? count[e + 1u] : p.slots;
        for (uint place = count[e]; place < end; place += p.tile_rows) {
            TilesOut(p.tiles).at[first_tile[e] + (place - count[e]) / p.tile_rows] =
                uvec4(e, place, min(p.tile_rows, end - place), 0u);
        }
    }
    for (uint tile = tiles_used + lane; tile < p.tile_count; tile += LANES) TilesOut(p.tiles).at[tile] = uvec4(0u);
    barrier();
    for (uint slot = lane; slot < p.slots; slot += LANES) {
        const uint place = atomicAdd(count[expert_of(slot)], 1u);
        IntsOut(p.order).at[place] = int(slot);
    }
}
