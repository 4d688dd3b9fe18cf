// y[i] = x[rows[i]]
#include <algorithm>

#include "base/check.h"
#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void select_rows(const op::SelectRows& /*op*/, const Args& args) {
    const Input& x = args.in[0];
    const int32_t* rows = args.in[1].i32();
    for (int64_t i = 0; i < args.out.rows; ++i) {
        CHECK(rows[i] >= 0 && rows[i] < x.rows);
        std::copy_n(x.f32(rows[i]), x.cols, args.out.f32(i));
    }
}

const Registration<op::SelectRows> kSelectRowsReference{select_rows};

}  // namespace

}  // namespace tandem::cpu
