#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

struct EmbedParams {
    PlaneAddresses table;
    VkDeviceAddress ids, out;
    uint32_t cols;
    float scale;
};

// One workgroup per row.
Status record(Recorder& rec, const op::Embed& op, const Args& args) {
    return rec.dispatch(
        {.pipeline = {.kernel = weight_kernel("embed", args.in[0].dtype),
                      .constants = {args.in[0].weight.tiled ? 1U : 0U}},
         .push = EmbedParams{args.in[0].weight.planes, args.in[1].address, args.out.address, args.out.cols, op.scale},
         .reads = {args.in[1].access()},
         .writes = {args.out.access()},
         .groups = {args.out.rows, 1, 1}});
}

const Registration<op::Embed> kEmbedKernel{record};

}  // namespace

}  // namespace tandem::vulkan
