#include "graph/ops.h"
#include "vulkan/kernel.h"

namespace tandem::vulkan {

namespace {

// One workgroup per row.
Status record(Recorder& rec, const op::Columns& op, const Args& args) {
    return rec.dispatch(
        kernels::Columns{.params = {.x = args.in[0].address,
                                    .y = args.out.address,
                                    .cols = args.in[0].cols,
                                    .first = static_cast<uint32_t>(op.first),
                                    .count = args.out.cols}},
        {.reads = {args.in[0].access()}, .writes = {args.out.access()}, .groups = {args.out.rows, 1, 1}});
}

const Registration<op::Columns> kColumnsKernel{record};

}  // namespace

}  // namespace tandem::vulkan
