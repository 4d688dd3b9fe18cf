// y[r][s][o] = scale[e] * sum over i of x[r][s][i] * weight[e][first + o][i], plus bias[e][first + o], e being the
// expert number s of row r
#include <vector>

#include "cpu/kernel.h"
#include "format/quant.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void expert_linear(const op::ExpertLinear& op, const Args& args) {
    const Input& weights = args.in[0];
    const Input& x = args.in[1];
    const Input& routing = args.in[2];
    const int64_t used = routing.cols / 2;
    const int64_t apart = x.cols == weights.cols ? 0 : weights.cols;  // from one expert's x to the next one's
    std::vector<float> w(static_cast<size_t>(weights.cols));
    for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t slot = 0; slot < used; ++slot) {
            const auto expert = static_cast<int64_t>(routing.f32(r)[slot]);
            const Input weight = weights.matrix(expert);
            const float scale = op.scaled ? args.in[op.kScale].f32()[expert] : 1.0F;
            for (int64_t o = 0; o < op.count; ++o) {
                format::decode_row(weight.dtype, weight.row(op.first + o), w.data(), weight.cols);
                double sum = 0.0;
                for (int64_t i = 0; i < weight.cols; ++i)
                    sum += double{x.f32(r)[slot * apart + i]} * w[static_cast<size_t>(i)];
                const float bias = op.biased ? args.in[op.bias_at()].f32(expert)[op.first + o] : 0.0F;
                args.out.f32(r)[slot * op.count + o] = static_cast<float>(scale * sum) + bias;
            }
        }
    }
}

const Registration<op::ExpertLinear> kExpertLinearReference{expert_linear};

}  // namespace

}  // namespace tandem::cpu
