// Loads and stores, arithmetic on vectors element by element, and conversions.
#pragma once

#include <aie_api/vector.hpp>

#include <math.h>  // NOLINT(modernize-deprecated-headers): kernels call it without std

// NOLINTBEGIN(readability-identifier-naming): the names are those of the public API
namespace aie {

template <unsigned N, typename T>
vector<std::remove_cv_t<T>, N> load_v(const T* source) {
    host::core.work.load_bytes += N * sizeof(T);
    vector<std::remove_cv_t<T>, N> loaded;
    memcpy(loaded.data(), source, N * sizeof(T));
    return loaded;
}

template <typename T, unsigned N>
void store_v(T* target, const vector<T, N>& v) {
    host::core.work.store_bytes += N * sizeof(T);
    memcpy(target, v.data(), N * sizeof(T));
}

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

// --- sums and bits

template <typename T, unsigned N>
vector<T, N> add(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return detail::sum<T>(a[i], b[i]); });
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> add(const vector<T, N>& a, V b) {
    return detail::each<T, N>([&](unsigned i) { return detail::sum<T>(a[i], static_cast<T>(b)); });
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
vector<T, N> bit_and(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return static_cast<T>(a[i] & b[i]); });
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
template <typename T, unsigned N, detail::Number V>
mask<N> lt(const vector<T, N>& a, V b) {
    return lt(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
mask<N> gt(const vector<T, N>& a, V b) {
    return gt(a, broadcast<T, N>(b));
}
template <typename T, unsigned N, detail::Number V>
mask<N> le(const vector<T, N>& a, V b) {
    return le(a, broadcast<T, N>(b));
}

template <typename T, unsigned N>
vector<T, N> max(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return a[i] < b[i] ? b[i] : a[i]; });
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> max(const vector<T, N>& a, V b) {
    return max(a, broadcast<T, N>(b));
}
template <typename T, unsigned N>
vector<T, N> min(const vector<T, N>& a, const vector<T, N>& b) {
    return detail::each<T, N>([&](unsigned i) { return b[i] < a[i] ? b[i] : a[i]; });
}
template <typename T, unsigned N, detail::Number V>
vector<T, N> min(const vector<T, N>& a, V b) {
    return min(a, broadcast<T, N>(b));
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

// --- places

template <typename T, unsigned N, typename... Rest>
auto concat(const vector<T, N>& first, const Rest&... rest) {
    vector<T, N*(1 + sizeof...(rest))> joined;
    unsigned at = 0;
    joined.insert(at++, first);
    (joined.insert(at++, rest), ...);
    return joined;
}

// A matrix of rows x cols becomes one of cols x rows.
template <typename T, unsigned N>
vector<T, N> transpose(const vector<T, N>& v, unsigned rows, unsigned cols) {
    return detail::each<T, N>([&](unsigned i) { return v[i % rows * cols + i / rows]; });
}

// --- conversions and functions

namespace detail {
// AIE2 has no instruction for these: what its library makes of them, in operations on a register, and a division of
// single numbers, which is a program.
inline constexpr unsigned kToFixedOps = 20;
inline constexpr unsigned kToFloatOps = 10;
inline constexpr unsigned kDivisionOps = 40;
}  // namespace detail

// Rounded as the mode says; what does not fit becomes the nearest that does.
template <typename To, typename T, unsigned N>
vector<To, N> to_fixed(const vector<T, N>& v, int shift = 0) {
    host::count_vector(N * sizeof(To), detail::kToFixedOps - 1);
    const rounding_mode mode = get_rounding();
    return detail::each<To, N>([&](unsigned i) {
        return detail::saturated<To>(detail::to_integer(static_cast<float>(v[i]), shift, mode),
                                     saturation_mode::saturate);
    });
}

template <typename To = float, typename T, unsigned N>
vector<To, N> to_float(const vector<T, N>& v, int shift = 0) {
    host::count_vector(N * sizeof(To), detail::kToFloatOps - 1);
    return detail::each<To, N>(
        [&](unsigned i) { return detail::element<To>(ldexpf(static_cast<float>(v[i]), -shift)); });
}

namespace detail {
// The core computes these from a table and two steps of Newton's method: about this many operations.
inline constexpr unsigned kFunctionOps = 12;

template <typename T, typename F>
T function(T value, F&& f) {
    host::core.work.scalar_ops += kDivisionOps;
    return static_cast<T>(f(static_cast<float>(value)));
}
template <typename T, unsigned N, typename F>
vector<T, N> function(const vector<T, N>& v, F&& f) {
    host::count_vector(N * sizeof(T), kFunctionOps - 1);
    return each<T, N>([&](unsigned i) { return element<T>(f(static_cast<float>(v[i]))); });
}
}  // namespace detail

template <typename T>
T inv(const T& value) {
    return detail::function(value, [](float x) { return 1.0F / x; });
}

}  // namespace aie
// NOLINTEND(readability-identifier-naming)
