#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

// One workgroup per row.
Status record(Recorder& rec, const op::SelectRows& /*op*/, const Args& args) {
    return rec.dispatch(kernels::SelectRows{.params = {.x = args.in[0].address,
                                                       .rows = args.in[1].address,
                                                       .y = args.out.address,
                                                       .cols = args.out.cols}},
                        {.reads = {args.in[0].access(), args.in[1].access()},
                         .writes = {args.out.access()},
                         .groups = {args.out.rows, 1, 1}});
}

const Registration<op::SelectRows> kSelectRowsKernel{record};

}  // namespace

}  // namespace tandem::vulkan
