// What moves elements between the places of vectors in public kernels.
#pragma once

#include <aie_api/arithmetic.hpp>

#include <utility>

// NOLINTBEGIN(readability-identifier-naming): the names are those of the public API
namespace aie {

template <typename Tag, unsigned N, typename... Rest>
auto concat(const accum<Tag, N>& first, const Rest&... rest) {
    accum<Tag, N*(1 + sizeof...(rest))> joined;
    unsigned at = 0;
    joined.insert(at++, first);
    (joined.insert(at++, rest), ...);
    return joined;
}

// Every second run of `step` elements, from the first or from the second one on.
template <typename T, unsigned N>
vector<T, N / 2> filter_even(const vector<T, N>& v, unsigned step = 1) {
    return detail::each<T, N / 2>([&](unsigned i) { return v[i / step * 2 * step + i % step]; });
}
template <typename T, unsigned N>
vector<T, N / 2> filter_odd(const vector<T, N>& v, unsigned step = 1) {
    return detail::each<T, N / 2>([&](unsigned i) { return v[(i / step * 2 + 1) * step + i % step]; });
}

// Runs of `step` elements of a and of b in turn, as two vectors; unzip is the way back.
template <typename T, unsigned N>
std::pair<vector<T, N>, vector<T, N>> interleave_zip(const vector<T, N>& a, const vector<T, N>& b, unsigned step = 1) {
    vector<T, 2 * N> zipped = detail::each<T, 2 * N>([&](unsigned i) {
        const unsigned from = i / (2 * step) * step + i % step;
        return i / step % 2 == 0 ? a[from] : b[from];
    });
    return {zipped.template extract<N>(0), zipped.template extract<N>(1)};
}
template <typename T, unsigned N>
std::pair<vector<T, N>, vector<T, N>> interleave_unzip(const vector<T, N>& a, const vector<T, N>& b,
                                                       unsigned step = 1) {
    const vector<T, 2 * N> joined = concat(a, b);
    return {filter_even(joined, step), filter_odd(joined, step)};
}

// Elements move towards higher (up) or lower (down) places; what comes in is left alone, `fill` or the other end.
template <typename T, unsigned N>
vector<T, N> shuffle_up(const vector<T, N>& v, unsigned places) {
    return detail::each<T, N>([&](unsigned i) { return v[i < places ? i : i - places]; });
}
template <typename T, unsigned N>
vector<T, N> shuffle_down(const vector<T, N>& v, unsigned places) {
    return detail::each<T, N>([&](unsigned i) { return v[i + places < N ? i + places : i]; });
}
template <typename T, unsigned N>
vector<T, N> shuffle_up_rotate(const vector<T, N>& v, unsigned places) {
    return detail::each<T, N>([&](unsigned i) { return v[(i + N - places % N) % N]; });
}
template <typename T, unsigned N>
vector<T, N> shuffle_down_rotate(const vector<T, N>& v, unsigned places) {
    return detail::each<T, N>([&](unsigned i) { return v[(i + places) % N]; });
}
template <typename T, unsigned N>
vector<T, N> shuffle_up_fill(const vector<T, N>& v, const vector<T, N>& fill, unsigned places) {
    return detail::each<T, N>([&](unsigned i) { return i < places ? fill[N - places + i] : v[i - places]; });
}
template <typename T, unsigned N>
vector<T, N> shuffle_down_fill(const vector<T, N>& v, const vector<T, N>& fill, unsigned places) {
    return detail::each<T, N>([&](unsigned i) { return i + places < N ? v[i + places] : fill[i + places - N]; });
}
template <typename T, unsigned N>
vector<T, N> reverse(const vector<T, N>& v) {
    return detail::each<T, N>([&](unsigned i) { return v[N - 1 - i]; });
}

}  // namespace aie
// NOLINTEND(readability-identifier-naming)
