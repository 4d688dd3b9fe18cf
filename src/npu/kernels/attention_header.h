// What the attention kernel is told in front of a tile of queries, and of keys where it says which these are.
#pragma once

#include <stdint.h>  // NOLINT(modernize-deprecated-headers): what the compiler of the array has

namespace tandem::npu {

struct AttentionHeader {
    int32_t queries = 0;       // rows of q and out: a multiple of 8
    int32_t keys = 0;          // rows of k and v in the tile, a multiple of 16; those behind key_count hold anything
    int32_t head_dim = 0;      // a multiple of 32
    int32_t group = 1;         // rows r = token * group + head: the heads that share k and v
    int32_t first_query = 0;   // the position of row 0
    int32_t first_key = 0;     // the position of the first key; the others follow it
    int32_t key_count = 0;     // keys there are; 0: nothing happens
    int32_t window = 0;        // a query sees so many positions, itself the last; 0: all up to itself
    int32_t scale_bits = 0;    // float: scores are this times q k
    int32_t softcap_bits = 0;  // float: 0, or the bound of the scores
    int32_t key_tiles = 0;     // that follow the queries
    int32_t unused[5] = {};    // to 64 bytes
};

}  // namespace tandem::npu
