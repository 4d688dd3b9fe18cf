// Arithmetic on vectors, element by element: sums, products into accumulators, comparisons, reductions.
#pragma once

#include <aie_api/memory.hpp>

// NOLINTBEGIN(readability-identifier-naming): the names are those of the public API
namespace aie {
namespace detail {

template <typename R, unsigned N, typename F>
vector<R, N> each(F&& f) {
    host::count_vector(N * sizeof(R));
    vector<R, N> result;
    for (unsigned i = 0; i < N; ++i) result[i] = f(i);
    return result;
}

template <unsigned N, typename F>
mask<N> each_bit(unsigned size_bytes, F&& f) {
    host::count_vector(size_bytes);
    mask<N> result;
    for (unsigned i = 0; i < N; ++i) {
        if (f(i)) result.set(i);
    }
    return result;
}

// Sums of bfloat16 are made in a float accumulator and leave it under the rounding mode.
template <typename T, typename S>
T element(S value) {
    if constexpr (std::is_same_v<T, bfloat16>) {
        return leave<bfloat16>(static_cast<float>(value), 0);
    } else {
        return static_cast<T>(value);
    }
}

template <typename T>
concept Number = std::is_arithmetic_v<T> || std::is_same_v<T, bfloat16>;

template <typename T, typename A, typename B>
T sum(A a, B b) {
    if constexpr (std::is_same_v<T, bfloat16>) {
        return element<T>(static_cast<float>(a) + static_cast<float>(b));
    } else {
        return wrap_add<T>(a, b);
    }
}

template <typename T, typename A, typename B>
T difference(A a, B b) {
    if constexpr (std::is_same_v<T, bfloat16>) {
        return element<T>(static_cast<float>(a) - static_cast<float>(b));
    } else {
        return wrap_sub<T>(a, b);
    }
}

// Sixteen products of floats or eight of wide integers a cycle; see Work.
template <typename A, typename B>
constexpr unsigned product_bytes(unsigned n) {
    return n * (is_float<A> || is_float<B> || sizeof(A) + sizeof(B) > 4 ? 4U : static_cast<unsigned>(sizeof(A)));
}

// Counts products, and makes an accumulator of them: f(i) is element i.
template <typename Tag, unsigned N, typename A, typename B, typename F>
accum<Tag, N> products(F&& f) {
    host::count_vector(product_bytes<A, B>(N));
    accum<Tag, N> result;
    for (unsigned i = 0; i < N; ++i) result[i] = f(i);
    return result;
}

// A template that is only made when it is chosen.
template <template <typename, unsigned> typename Made, typename T, unsigned N>
struct Lazy {
    using type = Made<T, N>;
};

template <typename Tag, typename A, typename B>
using ChosenAccum = std::conditional_t<std::is_same_v<Tag, accauto>, DefaultAccum<A, B>, Tag>;

}  // namespace detail

template <typename T, unsigned N = 64 / sizeof(T)>
auto zeros() {
    using Register = typename std::conditional_t<detail::is_accum_tag<T>, detail::Lazy<accum, T, N>,
                                                 detail::Lazy<vector, T, N>>::type;
    Register zero;
    for (unsigned i = 0; i < N; ++i) zero[i] = typename Register::value_type(0);
    return zero;
}

template <typename T, unsigned N, typename V>
vector<T, N> broadcast(V value) {
    vector<T, N> same;  // a move, which has an issue slot of its own
    for (unsigned i = 0; i < N; ++i) same[i] = static_cast<T>(value);
    return same;
}
template <typename T, unsigned N>
vector<T, N> ones() {
    return broadcast<T, N>(T(1));
}

// --- sums and bits

template <typename T, unsigned N>
vector<T, N> add(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return detail::sum<T>(a[i], b[i]); });
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> add(const vector<T, N>& a, V b) {
    return detail::each<T, N>([&](unsigned i) { return detail::sum<T>(a[i], static_cast<T>(b)); });
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
template <typename Tag, unsigned N>
accum<Tag, N> add(const accum<Tag, N>& a, const accum<Tag, N>& b) {
    return detail::products<Tag, N, float, float>([&](unsigned i) { return detail::wrap_add(a[i], b[i]); });
}
template <typename Tag, typename T, unsigned N>
accum<Tag, N> add(const accum<Tag, N>& a, const vector<T, N>& b) {
    using S = typename accum<Tag, N>::value_type;
    return detail::products<Tag, N, float, float>(
        [&](unsigned i) { return detail::wrap_add<S>(a[i], static_cast<S>(b[i])); });
}
template <typename Tag, unsigned N>
accum<Tag, N> sub(const accum<Tag, N>& a, const accum<Tag, N>& b) {
    return detail::products<Tag, N, float, float>([&](unsigned i) { return detail::wrap_sub(a[i], b[i]); });
}
template <typename Tag, typename T, unsigned N>
accum<Tag, N> sub(const accum<Tag, N>& a, const vector<T, N>& b) {
    using S = typename accum<Tag, N>::value_type;
    return detail::products<Tag, N, float, float>(
        [&](unsigned i) { return detail::wrap_sub<S>(a[i], static_cast<S>(b[i])); });
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
vector<T, N> bit_and(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return static_cast<T>(a[i] & b[i]); });
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
template <typename T, unsigned N>
vector<T, N> upshift(const vector<T, N>& a, unsigned shift) {
    using U = std::make_unsigned_t<T>;
    return detail::each<T, N>(
        [&](unsigned i) { return static_cast<T>(static_cast<U>(static_cast<U>(a[i]) << shift)); });
}

// --- products

template <typename Tag = accauto, typename A, typename B, unsigned N>
auto mul(const vector<A, N>& a, const vector<B, N>& b) {
    using R = detail::ChosenAccum<Tag, A, B>;
    using S = typename accum<R, N>::value_type;
    return detail::products<R, N, A, B>([&](unsigned i) { return detail::product<S>(a[i], b[i]); });
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

template <typename Tag, typename A, typename B, unsigned N>
accum<Tag, N> mac(const accum<Tag, N>& acc, const vector<A, N>& a, const vector<B, N>& b) {
    using S = typename accum<Tag, N>::value_type;
    return detail::products<Tag, N, A, B>(
        [&](unsigned i) { return detail::wrap_add<S>(acc[i], detail::product<S>(a[i], b[i])); });
}
template <typename Tag, typename A, detail::Number B, unsigned N>
accum<Tag, N> mac(const accum<Tag, N>& acc, const vector<A, N>& a, B b) {
    using Factor = std::conditional_t<std::is_same_v<A, bfloat16>, bfloat16, B>;
    return mac(acc, a, broadcast<Factor, N>(b));
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

// --- comparisons

template <typename T, unsigned N>
mask<N> lt(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each_bit<N>(N * sizeof(T), [&](unsigned i) { return a[i] < b[i]; });
}
template <typename T, unsigned N>
mask<N> ge(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each_bit<N>(N * sizeof(T), [&](unsigned i) { return a[i] >= b[i]; });
}
template <typename T, unsigned N>
mask<N> gt(const vector<T, N>& a, const vector<T, N>& b) {
    return lt(b, a);
}
template <typename T, unsigned N>
mask<N> le(const vector<T, N>& a, const vector<T, N>& b) {
    return ge(b, a);
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
mask<N> lt(const vector<T, N>& a, V b) {
    return lt(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
mask<N> ge(const vector<T, N>& a, V b) {
    return ge(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
mask<N> gt(const vector<T, N>& a, V b) {
    return gt(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
mask<N> le(const vector<T, N>& a, V b) {
    return le(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
mask<N> eq(const vector<T, N>& a, V b) {
    return eq(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
mask<N> neq(const vector<T, N>& a, V b) {
    return neq(a, broadcast<T, N>(b));
}

template <typename T, unsigned N>
vector<T, N> max(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return a[i] < b[i] ? b[i] : a[i]; });
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> max(const vector<T, N>& a, V b) {
    return max(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> max(V a, const vector<T, N>& b) {
    return max(broadcast<T, N>(a), b);
}
template <typename T, unsigned N>
vector<T, N> min(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return b[i] < a[i] ? b[i] : a[i]; });
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> min(const vector<T, N>& a, V b) {
    return min(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> min(V a, const vector<T, N>& b) {
    return min(broadcast<T, N>(a), b);
}

// Where the mask is set the second, elsewhere the first.
template <typename T, unsigned N>
vector<T, N> select(const vector<T, N>& a, const vector<T, N>& b, const mask<N>& m) {
    return detail::each<T, N>([&](unsigned i) { return m.test(i) ? b[i] : a[i]; });
}
// A number must be of the type of the elements: there is no conversion.
template <typename T, unsigned N, detail::Number V>
requires(std::is_same_v<T, V>) vector<T, N> select(const vector<T, N>& a, V b, const mask<N>& m) {
    return select(a, broadcast<T, N>(b), m);
}
template <typename T, unsigned N, detail::Number V>
requires(std::is_same_v<T, V>) vector<T, N> select(V a, const vector<T, N>& b, const mask<N>& m) {
    return select(broadcast<T, N>(a), b, m);
}

// --- reductions: halves are combined until one element is left, as on the core

namespace detail {
template <typename T, unsigned N, typename F>
T reduce(vector<T, N> v, F&& f) {
    for (unsigned half = N / 2; half > 0; half /= 2) {
        host::count_vector(static_cast<unsigned>(half * sizeof(T)), 2);
        for (unsigned i = 0; i < half; ++i) v[i] = f(v[i], v[i + half]);
    }
    return v[0];
}
}  // namespace detail

template <typename T, unsigned N>
T reduce_add(const vector<T, N>& v) {
    return detail::reduce(v, [](T a, T b) { return detail::sum<T>(a, b); });
}
template <typename T, unsigned N>
T reduce_max(const vector<T, N>& v) {
    return detail::reduce(v, [](T a, T b) { return a < b ? b : a; });
}
template <typename T, unsigned N>
T reduce_min(const vector<T, N>& v) {
    return detail::reduce(v, [](T a, T b) { return b < a ? b : a; });
}

}  // namespace aie
// NOLINTEND(readability-identifier-naming)
