// Arithmetic that public kernels use and ours do not.
#pragma once

#include <aie_api/arithmetic.hpp>

// NOLINTBEGIN(readability-identifier-naming): the names are those of the public API
namespace aie {

template <typename T, unsigned N>
vector<T, N> ones() {
    return broadcast<T, N>(T(1));
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> add(V a, const vector<T, N>& b) {
    return add(b, a);
}
template <typename T, unsigned N>
vector<T, N> sub(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return detail::difference<T>(a[i], b[i]); });
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> sub(const vector<T, N>& a, V b) {
    return detail::each<T, N>([&](unsigned i) { return detail::difference<T>(a[i], static_cast<T>(b)); });
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> sub(V a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return detail::difference<T>(static_cast<T>(a), b[i]); });
}

template <typename T, unsigned N>
vector<T, N> neg(const vector<T, N>& a) {
    return sub(vector<T, N>(), a);
}
template <typename T, unsigned N>
vector<T, N> abs(const vector<T, N>& a) {
    return detail::each<T, N>([&](unsigned i) {
        if constexpr (std::is_same_v<T, bfloat16>) {
            return bfloat16::from_bits(static_cast<uint16_t>(a[i].bits & 0x7fffU));
        } else {
            return a[i] < T(0) ? detail::wrap_sub<T>(T(0), a[i]) : a[i];
        }
    });
}
template <typename T, unsigned N>
vector<T, N> bit_and(T a, const vector<T, N>& b) {
    return bit_and(broadcast<T, N>(a), b);
}
template <typename T, unsigned N>
vector<T, N> bit_or(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return static_cast<T>(a[i] | b[i]); });
}
template <typename T, unsigned N>
vector<T, N> bit_xor(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return static_cast<T>(a[i] ^ b[i]); });
}
template <typename T, unsigned N>
vector<T, N> bit_not(const vector<T, N>& a) {
    return detail::each<T, N>([&](unsigned i) { return static_cast<T>(~a[i]); });
}
// Shifts to the right keep the sign and forget the bits: no rounding.
template <typename T, unsigned N>
vector<T, N> downshift(const vector<T, N>& a, unsigned shift) {
    return detail::each<T, N>([&](unsigned i) { return static_cast<T>(a[i] >> shift); });
}
template <typename Tag = accauto, typename A, detail::Number B, unsigned N>
auto mul(const vector<A, N>& a, B b) {
    using Factor = std::conditional_t<std::is_same_v<A, bfloat16>, bfloat16, B>;
    return mul<Tag>(a, broadcast<Factor, N>(b));
}
template <typename Tag = accauto, detail::Number A, typename B, unsigned N>
auto mul(A a, const vector<B, N>& b) {
    return mul<Tag>(b, a);
}
template <typename Tag = accauto, typename A, typename B, unsigned N>
auto negmul(const vector<A, N>& a, const vector<B, N>& b) {
    using R = detail::ChosenAccum<Tag, A, B>;
    using S = typename accum<R, N>::value_type;
    return detail::products<R, N, A, B>(
        [&](unsigned i) { return detail::wrap_sub(S(0), detail::product<S>(a[i], b[i])); });
}
template <typename Tag = accauto, typename A, unsigned N>
auto mul_square(const vector<A, N>& a) {
    return mul<Tag>(a, a);
}
template <typename Tag, detail::Number A, typename B, unsigned N>
accum<Tag, N> mac(const accum<Tag, N>& acc, A a, const vector<B, N>& b) {
    return mac(acc, b, a);
}
template <typename Tag, typename A, typename B, unsigned N>
accum<Tag, N> msc(const accum<Tag, N>& acc, const vector<A, N>& a, const vector<B, N>& b) {
    using S = typename accum<Tag, N>::value_type;
    return detail::products<Tag, N, A, B>(
        [&](unsigned i) { return detail::wrap_sub<S>(acc[i], detail::product<S>(a[i], b[i])); });
}
template <typename Tag, typename A, detail::Number B, unsigned N>
accum<Tag, N> msc(const accum<Tag, N>& acc, const vector<A, N>& a, B b) {
    using Factor = std::conditional_t<std::is_same_v<A, bfloat16>, bfloat16, B>;
    return msc(acc, a, broadcast<Factor, N>(b));
}
template <typename Tag, typename A, unsigned N>
accum<Tag, N> mac_square(const accum<Tag, N>& acc, const vector<A, N>& a) {
    return mac(acc, a, a);
}

// acc + coefficients[start] * data0 + coefficients[start + 1] * data1 + ...
template <unsigned Lanes, typename Tag, unsigned C, typename A, typename... Data>
accum<Tag, Lanes> accumulate(const accum<Tag, Lanes>& acc, const vector<A, C>& coefficients, unsigned start,
                             const Data&... data) {
    accum<Tag, Lanes> sum = acc;
    unsigned at = start;
    ((sum = mac(sum, data, coefficients[at++ % C])), ...);
    return sum;
}
template <typename T, unsigned N>
mask<N> eq(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each_bit<N>(N * sizeof(T), [&](unsigned i) { return a[i] == b[i]; });
}
template <typename T, unsigned N>
mask<N> neq(const vector<T, N>& a, const vector<T, N>& b) {
    return ~eq(a, b);
}
template <typename T, unsigned N, detail::Number V>
mask<N> ge(const vector<T, N>& a, V b) {
    return ge(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
mask<N> eq(const vector<T, N>& a, V b) {
    return eq(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
mask<N> neq(const vector<T, N>& a, V b) {
    return neq(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> max(V a, const vector<T, N>& b) {
    return max(broadcast<T, N>(a), b);
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> min(V a, const vector<T, N>& b) {
    return min(broadcast<T, N>(a), b);
}
template <typename T, unsigned N>
T reduce_min(const vector<T, N>& v) {
    return detail::reduce(v, [](T a, T b) { return b < a ? b : a; });
}

}  // namespace aie
// NOLINTEND(readability-identifier-naming)
