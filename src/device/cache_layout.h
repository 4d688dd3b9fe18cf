// CacheLayout: where the keys, or the values, of a layer lie in the host memory of a cache that other devices use too.
#pragma once

#include <cstdint>

namespace tandem::device {

// [block][kv_head] and then tokens of runs. In a cache of q8_0 a run is 32 elements of a token, int8, with a scale of
// f16 that lies elsewhere; in other caches a token is one run and there are no scales.
struct CacheLayout {
    struct Strides {
        uint64_t begin = 0;  // of the first, within a kv head of a block
        uint64_t token_bytes = 0;
        uint64_t run_bytes = 0;

        uint64_t at(int token, int run) const {
            return begin + static_cast<uint64_t>(token) * token_bytes + static_cast<uint64_t>(run) * run_bytes;
        }
    };

    uint64_t block_bytes = 0;  // of all kv heads
    uint64_t head_bytes = 0;
    Strides elements = {};
    Strides scales = {};

    // Bytes from the begin of the layer's keys or values to the first element of a run, and to its scale.
    uint64_t element(int block, int kv_head, int token, int run = 0) const {
        return head(block, kv_head) + elements.at(token, run);
    }
    uint64_t scale(int block, int kv_head, int token, int run) const {
        return head(block, kv_head) + scales.at(token, run);
    }

  private:
    uint64_t head(int block, int kv_head) const {
        return static_cast<uint64_t>(block) * block_bytes + static_cast<uint64_t>(kv_head) * head_bytes;
    }
};

}  // namespace tandem::device
