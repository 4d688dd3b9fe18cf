// mmul: the product of an r x s and an s x t block, row-major, into accumulators.
#pragma once

#include <aie_api/vector.hpp>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// NOLINTBEGIN(readability-identifier-naming,google-explicit-constructor): names and conversions of the public API
namespace aie {
namespace detail {

// Multiplications a cycle of AIE2. Floats are three bfloat16 each, of whose nine products six count.
template <typename A, typename B>
constexpr unsigned matrix_rate() {
    if constexpr (std::is_same_v<A, bfloat16> && std::is_same_v<B, bfloat16>) return 128;
    if constexpr (is_float<A> || is_float<B>) return 21;
    constexpr unsigned bytes = sizeof(A) * sizeof(B);  // NOLINT(bugprone-sizeof-expression): the rate falls with both
    return bytes == 1 ? 256 : bytes == 2 ? 128 : bytes == 4 ? 64 : bytes == 8 ? 32 : 16;
}

// The shapes that AIE2 multiplies in one instruction or that the vendor's API makes of several.
template <typename A, typename B>
constexpr bool has_matrix_shape(unsigned r, unsigned s, unsigned t) {
    const auto is = [&](unsigned rows, unsigned inner, unsigned cols) { return r == rows && s == inner && t == cols; };
    if constexpr (is_float<A>) return is(4, 8, 4) || is(8, 8, 4) || is(4, 8, 8) || is(8, 8, 8) || is(4, 4, 4);
    if constexpr (sizeof(A) == 1 && sizeof(B) == 1) {
        return is(4, 8, 8) || is(4, 8, 4) || is(4, 16, 4) || is(8, 8, 4) || is(2, 8, 8) || is(2, 16, 8) ||
               is(4, 16, 8) || is(8, 8, 8) || is(1, 16, 8);
    }
    if constexpr (sizeof(A) == 2 && sizeof(B) == 1) return is(4, 4, 4) || is(8, 4, 4) || is(4, 8, 4) || is(4, 4, 8);
    if constexpr (sizeof(A) == 1 && sizeof(B) == 2) return is(4, 4, 8) || is(4, 4, 4);
    if constexpr (sizeof(A) == 2 && sizeof(B) == 2) return is(4, 4, 4) || is(2, 4, 8) || is(4, 4, 8) || is(4, 2, 8);
    return is(2, 4, 8) || is(4, 4, 4) || is(4, 2, 4) || is(4, 4, 8) || is(4, 2, 8);
}

#if defined(__SSE2__)
// The same for bytes and eight columns, where one instruction makes four sums of two products: what most of the time of
// the emulator goes into.
template <unsigned R, unsigned S, typename A, typename B>
inline void multiply_byte_blocks(const A* a, const B* b, int32_t* c) {
    const __m128i zero = _mm_setzero_si128();
    const auto widened = [&](__m128i bytes) {
        const __m128i sign = std::is_signed_v<B> ? _mm_cmpgt_epi8(zero, bytes) : zero;
        return _mm_unpacklo_epi8(bytes, sign);
    };
    __m128i pairs[S];  // rows k and k + 1, column by column: the first four columns, the other four
    for (unsigned k = 0; k < S; k += 2) {
        const __m128i upper = widened(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(b + k * 8)));
        const __m128i lower = widened(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(b + k * 8 + 8)));
        pairs[k] = _mm_unpacklo_epi16(upper, lower);
        pairs[k + 1] = _mm_unpackhi_epi16(upper, lower);
    }
    for (unsigned i = 0; i < R; ++i) {
        auto* row = reinterpret_cast<__m128i*>(c + i * 8);
        __m128i left = _mm_loadu_si128(row);
        __m128i right = _mm_loadu_si128(row + 1);
        for (unsigned k = 0; k < S; k += 2) {
            const auto first = static_cast<uint16_t>(static_cast<int16_t>(a[i * S + k]));
            const auto second = static_cast<uint16_t>(static_cast<int16_t>(a[i * S + k + 1]));
            const __m128i factors = _mm_set1_epi32(static_cast<int32_t>(first | static_cast<uint32_t>(second) << 16));
            left = _mm_add_epi32(left, _mm_madd_epi16(factors, pairs[k]));
            right = _mm_add_epi32(right, _mm_madd_epi16(factors, pairs[k + 1]));
        }
        _mm_storeu_si128(row, left);
        _mm_storeu_si128(row + 1, right);
    }
}
#endif

// c += a b. Products of two bytes fit into 16 bits, which a host multiplies eight at a time.
template <unsigned R, unsigned S, unsigned T, typename A, typename B, typename C>
inline void multiply_blocks(const A* a, const B* b, C* c) {
    if constexpr (std::is_same_v<C, float>) {
        for (unsigned i = 0; i < R; ++i) {
            for (unsigned k = 0; k < S; ++k) {
                const float factor = static_cast<float>(a[i * S + k]);
                for (unsigned j = 0; j < T; ++j) c[i * T + j] += factor * static_cast<float>(b[k * T + j]);
            }
        }
    } else {
        using Wide = std::conditional_t<(sizeof(A) == 1 && sizeof(B) == 1), int16_t, C>;
        using Bits = std::make_unsigned_t<C>;
        Wide wide[S * T];
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): int8 is a number
        for (unsigned i = 0; i < S * T; ++i) wide[i] = static_cast<Wide>(b[i]);
        for (unsigned i = 0; i < R; ++i) {
            Bits sums[T] = {};
            for (unsigned k = 0; k < S; ++k) {
                // NOLINTNEXTLINE(bugprone-signed-char-misuse): int8 is a number
                const Wide factor = static_cast<Wide>(a[i * S + k]);
                for (unsigned j = 0; j < T; ++j) sums[j] += static_cast<Bits>(product<C>(factor, wide[k * T + j]));
            }
            for (unsigned j = 0; j < T; ++j) c[i * T + j] = static_cast<C>(static_cast<Bits>(c[i * T + j]) + sums[j]);
        }
    }
}

}  // namespace detail

template <unsigned R, unsigned S, unsigned T, typename A, typename B = A, typename Tag = accauto>
class mmul {
    // Integers are never summed in floats, whatever the caller names.
    static constexpr bool kOwnTag =
        !std::is_same_v<Tag, accauto> && (detail::is_float<A> == std::is_same_v<Tag, accfloat>);
    static_assert(detail::has_matrix_shape<A, B>(R, S, T), "AIE2 does not multiply blocks of this shape");

  public:
    using accum_tag = std::conditional_t<kOwnTag, Tag, detail::DefaultAccum<A, B>>;
    using accum_type = accum<accum_tag, R * T>;

    static constexpr unsigned M = R;
    static constexpr unsigned K = S;
    static constexpr unsigned N = T;
    static constexpr unsigned size_A = R * S;
    static constexpr unsigned size_B = S * T;
    static constexpr unsigned size_C = R * T;

    mmul() = default;
    mmul(const accum_type& start) : sums_(start) {}
    template <typename V>
    mmul(const vector<V, R * T>& start, int shift = 0) : sums_(start, shift) {}

    void mul(const vector<A, R * S>& a, const vector<B, S * T>& b) {
        for (unsigned i = 0; i < R * T; ++i) sums_[i] = 0;
        mac(a, b);
    }
    void mac(const vector<A, R * S>& a, const vector<B, S * T>& b) {
        constexpr unsigned rate = detail::matrix_rate<A, B>();
        host::core.work.macs += R * S * T;
        host::core.work.matrix_cycles += (R * S * T + rate - 1) / rate;
#if defined(__SSE2__)
        if constexpr (sizeof(A) == 1 && sizeof(B) == 1 && T == 8 && std::is_same_v<accum_tag, acc32>) {
            detail::multiply_byte_blocks<R, S>(a.data(), b.data(), &sums_[0]);
            return;
        }
#endif
        detail::multiply_blocks<R, S, T>(a.data(), b.data(), &sums_[0]);
    }

    template <typename V>
    vector<V, R * T> to_vector(int shift = 0) const {
        return sums_.template to_vector<V>(shift);
    }
    accum_type to_accum() const {
        return sums_;
    }
    operator accum_type() const {
        return sums_;
    }

  private:
    accum_type sums_;
};

}  // namespace aie
// NOLINTEND(readability-identifier-naming,google-explicit-constructor)
