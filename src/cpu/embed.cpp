// y[r] = scale * table[ids[r]]
#include "base/check.h"
#include "cpu/kernel.h"
#include "format/quant.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void embed(const op::Embed& op, const Args& args) {
    const Input& table = args.in[0];
    const int32_t* ids = args.in[1].i32();
    for (int64_t r = 0; r < args.out.rows; ++r) {
        CHECK(ids[r] >= 0 && ids[r] < table.rows);
        float* y = args.out.f32(r);
        format::decode_row(table.dtype, table.row(ids[r]), y, table.cols);
        for (int64_t c = 0; c < table.cols; ++c) y[c] *= op.scale;
    }
}

const Registration<op::Embed> kEmbedReference{embed};

}  // namespace

}  // namespace tandem::cpu
