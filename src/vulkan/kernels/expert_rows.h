// Rows sorted by expert, on the device: in which order, and which runs of them a workgroup multiplies.
#pragma once

#include "vulkan/recorder.h"

namespace tandem::vulkan {

// uvec4 [tiles] {expert, first place, rows, 0}, no tile having more rows than fit; then uint [slots], the slots (row *
// used
// + which of its experts) in the order of their experts. Tiles that are not needed have no rows, so that nobody has to
// wait for their number.
struct ExpertRows {
    uint32_t tiles = 0;
    uint32_t slots = 0;

    uint64_t order_at() const { return uint64_t{tiles} * 16; }
    uint64_t size_bytes() const { return order_at() + uint64_t{slots} * 4; }
};

// As many tiles as there can be.
inline ExpertRows expert_rows(uint32_t slots, uint32_t experts, uint32_t tile_rows) {
    return {.tiles = (slots < experts ? slots : experts) + slots / tile_rows, .slots = slots};
}

struct ExpertRowsCall {
    Access routing;  // of op::Route
    uint32_t rows = 0;
    uint32_t used = 0;
    uint32_t experts = 0;
    uint32_t tile_rows = 0;
    Access sorted;
};
Status record_expert_rows(Recorder& rec, const ExpertRowsCall& call);

}  // namespace tandem::vulkan
