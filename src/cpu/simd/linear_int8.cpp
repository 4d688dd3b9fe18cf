// Linear for quantized weights. Each row of x is rounded to 8 bits in the runs that share a scale in the weights, with
// a scale of their own, so that a run of products is a sum of integers, multiplied with both scales at the end.
//
// Few rows of x (int8_few-inl.h): each row of weights is read once, as fast as memory gives it. Many rows
// (int8_many-inl.h): tiles of weights are unpacked once for all of them.
#define HWY_WANT_AVX3_DL  // for its 8-bit dot product

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/linear_int8.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// clang-format off
#include <hwy/highway.h>
// clang-format on

#include <algorithm>
#include <cstring>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "cpu/simd/int8_few-inl.h"
#include "cpu/simd/int8_many-inl.h"
#include "cpu/simd/int8_weights_k-inl.h"
#include "cpu/simd/linear.h"

HWY_BEFORE_NAMESPACE();
namespace tandem::cpu::simd::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR

// Where element i of run r goes: to its place, or to that of nibbles (see load_pair and load_few).
template <class Weights>
HWY_INLINE int64_t place_of(int64_t r, int i, bool many) {
    if (Weights::kPaired && !many)
        return r / kGroup * (kGroup * 32) + i / 16 * (kGroup * 16) + r % kGroup * 16 + i % 16;
    if (Weights::kAlternate && !many) return r / 4 * 128 + r % 2 * 64 + r % 4 / 2 * 32 + i;
    return r * Weights::kRun + i;
}

// scale = max|x| / 127, q = x / scale
template <class Weights>
void quantize_row(const float* x, const QuantizedRow& row, int64_t cols, bool many) {
    const DF32 d;
    const hn::Rebind<int8_t, DF32> d8;
    const hn::Rebind<int16_t, DF32> d16;
    const DI32 d32;
    const int64_t runs = cols / Weights::kRun;
    const int64_t whole = cols / 128 * 128;
    std::memset(row.q + whole, 0, QuantizedRows::padded_elements(cols) - static_cast<size_t>(whole));
    const int lanes = many ? 1 : kLanesOfRun<Weights>;
    row.clear_behind(runs * lanes);
    for (int64_t r = 0; r < runs; ++r) {
        const float* in = x + r * Weights::kRun;
        VF32 largest = hn::Zero(d);
        for (int i = 0; i < Weights::kRun; i += kLanes) largest = hn::Max(largest, hn::Abs(hn::LoadU(d, in + i)));
        const float scale = hn::GetLane(hn::MaxOfLanes(d, largest)) / 127.0F;
        const VF32 inverse = hn::Set(d, scale > 0.0F ? 1.0F / scale : 0.0F);
        VI32 sum = hn::Zero(d32);
        for (int i = 0; i < Weights::kRun; i += kLanes) {
            const VI32 rounded = hn::NearestInt(hn::Mul(hn::LoadU(d, in + i), inverse));
            sum = hn::Add(sum, rounded);
            hn::StoreU(hn::DemoteTo(d8, hn::DemoteTo(d16, rounded)), d8, row.q + place_of<Weights>(r, i, many));
        }
        const int32_t total = hn::GetLane(hn::SumOfLanes(d32, sum));
        std::fill_n(row.scales + r * lanes, lanes, scale);
        row.sums[r] = scale * static_cast<float>(total);
        std::fill_n(row.corrections + r * lanes, lanes, 0);
        row.corrections[r * lanes] = -Weights::kOffset * total;
    }
}

template <class Weights>
void quantize(const Input& x, bool many, const QuantizedRows& rows, RowRange range) {
    for (int64_t r = range.begin; r < range.end; ++r) quantize_row<Weights>(x.f32(r), rows.row(r), x.cols, many);
}

template <class Weights>
inline constexpr LinearKernels kKernels = {.tile_outputs = kTileOutputs,
                                           .tile_bytes = kTileBytes,
                                           .quantize = quantize<Weights>,
                                           .multiply_few = multiply_few<Weights>,
                                           .multiply_many = multiply_many<Weights>};

const LinearKernels* int8_kernels_for(DType weight) {
    switch (weight) {
        case DType::q4_0:
            return &kKernels<WeightsQ4_0>;
        case DType::q4_1:
            return &kKernels<WeightsQ4_1>;
        case DType::q5_0:
            return &kKernels<WeightsQ5_0>;
        case DType::q5_1:
            return &kKernels<WeightsQ5_1>;
        case DType::q8_0:
            return &kKernels<WeightsQ8_0>;
        case DType::q4_k:
            return &kKernels<WeightsQ4_K>;
        case DType::q5_k:
            return &kKernels<WeightsQ5_K>;
        case DType::q6_k:
            return &kKernels<WeightsQ6_K>;
        case DType::q2_k:
            return &kKernels<WeightsQ2_K>;
        case DType::q3_k:
            return &kKernels<WeightsQ3_K>;
        case DType::iq4_nl:
            return &kKernels<WeightsIQ4_NL>;
        case DType::iq4_xs:
            return &kKernels<WeightsIQ4_XS>;
        case DType::mxfp4:
            return &kKernels<WeightsMXFP4>;
        default:
            return nullptr;
    }
}

#else  // one lane is less than four bytes: left to the reference

const LinearKernels* int8_kernels_for(DType /*weight*/) {
    return nullptr;
}

#endif

}  // namespace tandem::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem::cpu::simd {

namespace {

HWY_EXPORT(int8_kernels_for);

// What is used here beyond the SIMD target: ARM had NEON before it had a dot product of bytes.
bool processor_has_dot_product() {
#if defined(__aarch64__)
    return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
    return true;
#endif
}

}  // namespace

const LinearKernels* find_int8_kernels(DType weight) {
    static const bool usable = processor_has_dot_product();
    if (!usable) return nullptr;
    return HWY_DYNAMIC_DISPATCH(int8_kernels_for)(weight);
}

}  // namespace tandem::cpu::simd
#endif
