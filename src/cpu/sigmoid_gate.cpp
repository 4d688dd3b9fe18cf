// y = x * sigmoid(gate), with a gate for each of a row's equal parts
#include <cmath>

#include "cpu/kernel.h"
#include "graph/ops.h"

namespace tandem::cpu {

namespace {

void sigmoid_gate(const op::SigmoidGate& /*op*/, const Args& args) {
    const int64_t gates = args.in[1].cols;
    const int64_t width = args.out.cols / gates;
    for (int64_t r = 0; r < args.out.rows; ++r) {
        for (int64_t g = 0; g < gates; ++g) {
            const float factor = 1.0F / (1.0F + std::exp(-args.in[1].f32(r)[g]));
            for (int64_t c = g * width; c < (g + 1) * width; ++c) args.out.f32(r)[c] = factor * args.in[0].f32(r)[c];
        }
    }
}

const Registration<op::SigmoidGate> kSigmoidGateReference{sigmoid_gate};

}  // namespace

}  // namespace tandem::cpu
