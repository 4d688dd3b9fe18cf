#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

struct SelectRowsParams {
    VkDeviceAddress x, rows, y;
    uint32_t cols;
};

// One workgroup per row.
Status record(Recorder& rec, const op::SelectRows& /*op*/, const Args& args) {
    return rec.dispatch(
        {.pipeline = {.kernel = "select_rows"},
         .push = SelectRowsParams{args.in[0].address, args.in[1].address, args.out.address, args.out.cols},
         .reads = {args.in[0].access(), args.in[1].access()},
         .writes = {args.out.access()},
         .groups = {args.out.rows, 1, 1}});
}

const Registration<op::SelectRows> kSelectRowsKernel{record};

}  // namespace

}  // namespace tandem::vulkan
