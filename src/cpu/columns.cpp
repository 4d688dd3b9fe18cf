// y[r] = x[r][first .. first + count)
#include <algorithm>

#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void columns(const op::Columns& op, const Args& args) {
    for (int64_t r = 0; r < args.out.rows; ++r) std::copy_n(args.in[0].f32(r) + op.first, op.count, args.out.f32(r));
}

const Registration<op::Columns> kColumnsReference{columns};

}  // namespace

}  // namespace tandem::cpu
