// Add, Glu and Softcap: one pass over memory, cut for threads where it is long.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/elementwise.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// clang-format off
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

#include <algorithm>

#include "cpu/kernel.h"
#include "cpu/simd/ranges.h"
#include "graph/ops.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// y[i] = function(a[i], b[i]); the last few elements go through a buffer of a whole vector.
template <class Function>
HWY_INLINE void map_pairs(const float* a, const float* b, float* y, RowRange range, const Function& function) {
    const D d;
    const auto width = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = range.begin;
    for (; i + width <= range.end; i += width) hn::StoreU(function(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
    const int64_t rest = range.end - i;
    if (rest == 0) return;
    alignas(64) float last[3][hn::MaxLanes(D())] = {};
    std::copy_n(a + i, rest, last[0]);
    std::copy_n(b + i, rest, last[1]);
    hn::Store(function(hn::Load(d, last[0]), hn::Load(d, last[1])), d, last[2]);
    std::copy_n(last[2], rest, y + i);
}

// x / (1 + exp(z)) * up, where Exp() must not see what overflows.
HWY_INLINE V gate(V x, V z, V up) {
    const D d;
    const auto overflows = hn::Gt(z, hn::Set(d, 88.0F));
    const V activated = hn::Div(x, hn::Add(hn::Set(d, 1.0F), hn::Exp(d, z)));
    return hn::Mul(hn::IfThenZeroElse(overflows, activated), up);
}

struct Silu {
    HWY_INLINE V operator()(V x, V up) const { return gate(x, hn::Neg(x), up); }
};

// 0.5 (1 + tanh(z)) = 1 / (1 + exp(-2 z))
struct GeluTanh {
    HWY_INLINE V operator()(V x, V up) const {
        const D d;
        const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.044715F), hn::Set(d, 1.0F));
        const V z = hn::Mul(hn::Mul(x, cubic), hn::Set(d, -1.5957691216F));  // -2 sqrt(2 / pi)
        return gate(x, z, up);
    }
};

struct Clamped {
    HWY_INLINE V operator()(V x, V up) const {
        const D d;
        const V limit = hn::Set(d, 7.0F);
        const V g = hn::Min(x, limit);
        const V u = hn::Min(hn::Max(up, hn::Neg(limit)), limit);
        return gate(g, hn::Mul(g, hn::Set(d, -1.702F)), hn::Add(u, hn::Set(d, 1.0F)));
    }
};

// Exact for small |x|, where the quotient of exponentials would lose digits.
struct Bend {
    float cap;
    HWY_INLINE V operator()(V x, V /*unused*/) const {
        const D d;
        const V limit = hn::Set(d, cap);
        return hn::Mul(limit, hn::Tanh(d, hn::Div(x, limit)));
    }
};

struct Sum {
    HWY_INLINE V operator()(V a, V b) const { return hn::Add(a, b); }
};

void add_range(const Args& args, RowRange range) {
    map_pairs(args.in[0].f32(), args.in[1].f32(), args.out.f32(), range, Sum());
}

void glu_range(const op::Glu& op, const Args& args, RowRange range) {
    const float* gate = args.in[0].f32();
    const float* up = args.in[1].f32();
    if (op.activation == op::Activation::silu) map_pairs(gate, up, args.out.f32(), range, Silu());
    if (op.activation == op::Activation::gelu_tanh) map_pairs(gate, up, args.out.f32(), range, GeluTanh());
    if (op.activation == op::Activation::clamped) map_pairs(gate, up, args.out.f32(), range, Clamped());
}

void softcap_range(const op::Softcap& op, const Args& args, RowRange range) {
    map_pairs(args.in[0].f32(), args.in[0].f32(), args.out.f32(), range, Bend{op.cap});
}

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu::simd {

namespace {

HWY_EXPORT(add_range);
HWY_EXPORT(glu_range);
HWY_EXPORT(softcap_range);

template <class Body>
void over_elements(const Args& args, const Body& body) {
    args.step.for_each_range(args.out.rows * args.out.cols, kPieceElements, [&](int64_t begin, int64_t end, int) {
        body(RowRange{begin, end});
    });
}

void add(const op::Add& /*op*/, const Args& args) {
    over_elements(args, [&](RowRange range) { HWY_DYNAMIC_DISPATCH(add_range)(args, range); });
}

// The error function has no vector form here; no model in sight uses it.
bool supports_glu(const op::Glu& op, graph::InputTypes /*inputs*/) {
    return op.activation != op::Activation::gelu_erf;
}

void glu(const op::Glu& op, const Args& args) {
    over_elements(args, [&](RowRange range) { HWY_DYNAMIC_DISPATCH(glu_range)(op, args, range); });
}

void softcap(const op::Softcap& op, const Args& args) {
    over_elements(args, [&](RowRange range) { HWY_DYNAMIC_DISPATCH(softcap_range)(op, args, range); });
}

const Registration<op::Add> kAdd{FastKernel<op::Add>{.run = add}};
const Registration<op::Glu> kGlu{FastKernel<op::Glu>{.run = glu, .supports = supports_glu}};
const Registration<op::Softcap> kSoftcap{FastKernel<op::Softcap>{.run = softcap}};

}  // namespace

}  // namespace tandem::cpu::simd
#endif
