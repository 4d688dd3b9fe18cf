// Vectors, masks and accumulators: arrays of elements that are passed by value.
#pragma once

#include <aie_api/types.hpp>

#include <string.h>  // NOLINT(modernize-deprecated-headers): kernels call it without std
#include <array>

// NOLINTBEGIN(readability-identifier-naming,google-explicit-constructor): names and conversions of the public API
namespace aie {

inline constexpr unsigned vector_decl_align = 64;
template <typename T>
inline constexpr unsigned native_vector_length_v = 64 / sizeof(T);

template <typename Tag, unsigned N>
class accum;

template <typename T, unsigned N>
class vector {
  public:
    using value_type = T;
    using native_type = vector;

    // As an accumulator: whatever the register held.
    vector() {
        for (T& element : elements_) element = detail::anything<T>();
    }
    // An accumulator that is used as a vector leaves the core without a shift.
    template <typename Tag>
    vector(const accum<Tag, N>& acc) : vector(acc.template to_vector<T>()) {}
    // The same register under the name of another type.
    template <typename U, unsigned M>
    requires(M * sizeof(U) == N * sizeof(T)) explicit vector(const vector<U, M>& other)
        : vector(other.template cast_to<T>()) {}

    static constexpr unsigned size() { return N; }
    static constexpr unsigned type_bits() { return 8 * sizeof(T); }
    static constexpr unsigned bits() { return N * type_bits(); }
    static constexpr bool is_signed() { return detail::is_float<T> || std::is_signed_v<T>; }

    T get(unsigned index) const { return elements_[index]; }
    void set(T value, unsigned index) { elements_[index] = value; }
    T operator[](unsigned index) const { return elements_[index]; }
    T& operator[](unsigned index) { return elements_[index]; }
    T* data() { return elements_; }
    const T* data() const { return elements_; }
    vector to_native() const { return *this; }

    // The part number `index` of those that have M elements each.
    template <unsigned M>
    vector<T, M> extract(unsigned index) const {
        vector<T, M> part;
        for (unsigned i = 0; i < M; ++i) part[i] = elements_[index * M + i];
        return part;
    }
    template <unsigned M>
    vector& insert(unsigned index, const vector<T, M>& part) {
        for (unsigned i = 0; i < M; ++i) elements_[index * M + i] = part[i];
        return *this;
    }
    template <unsigned M>
    std::array<vector<T, M>, N / M> split() const {
        std::array<vector<T, M>, N / M> parts;
        for (unsigned i = 0; i < N / M; ++i) parts[i] = extract<M>(i);
        return parts;
    }
    template <unsigned M>
    vector<T, M> grow(unsigned index = 0) const {
        return vector<T, M>().insert(index, *this);
    }
    template <unsigned M>
    vector<T, M> grow_replicate() const {
        vector<T, M> grown;
        for (unsigned i = 0; i < M / N; ++i) grown.insert(i, *this);
        return grown;
    }
    vector& push(T value) {
        for (unsigned i = N - 1; i > 0; --i) elements_[i] = elements_[i - 1];
        elements_[0] = value;
        return *this;
    }

    // The same bits as elements of another type.
    template <typename U>
    vector<U, N * sizeof(T) / sizeof(U)> cast_to() const {
        vector<U, N * sizeof(T) / sizeof(U)> cast;
        memcpy(cast.data(), elements_, sizeof elements_);
        return cast;
    }

    // Integers of twice the width, and of half of it (under the saturation mode).
    auto unpack() const {
        using Wide = std::conditional_t<sizeof(T) == 1, int16_t, int32_t>;
        using Result = std::conditional_t<std::is_signed_v<T>, Wide, std::make_unsigned_t<Wide>>;
        host::count_vector(N * sizeof(Result));
        return convert<Result>();
    }
    auto pack() const {
        using Narrow = std::conditional_t<sizeof(T) == 4, int16_t, int8_t>;
        return pack<std::conditional_t<std::is_signed_v<T>, Narrow, std::make_unsigned_t<Narrow>>>();
    }
    template <typename U>
    vector<U, N> pack() const {
        host::count_vector(N * sizeof(T));
        vector<U, N> packed;
        for (unsigned i = 0; i < N; ++i) packed[i] = detail::saturated<U>(elements_[i], host::core.saturation);
        return packed;
    }

  private:
    template <typename U>
    vector<U, N> convert() const {
        vector<U, N> converted;
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): an int8 is a number here
        for (unsigned i = 0; i < N; ++i) converted[i] = static_cast<U>(elements_[i]);
        return converted;
    }

    T elements_[N];
};

template <unsigned N>
class mask {
  public:
    mask() = default;

    static constexpr unsigned size() { return N; }
    static mask from_uint32(uint32_t bits) { return from_bits(bits); }
    static mask from_uint64(uint64_t bits) { return from_bits(bits); }
    uint32_t to_uint32() const { return static_cast<uint32_t>(bits_); }
    uint64_t to_uint64() const { return bits_; }

    bool test(unsigned index) const { return (bits_ >> index & 1) != 0; }
    void set(unsigned index) { bits_ |= uint64_t{1} << index; }
    void clear(unsigned index) { bits_ &= ~(uint64_t{1} << index); }
    void clear() { bits_ = 0; }
    unsigned count() const { return static_cast<unsigned>(std::popcount(bits_)); }
    bool empty() const { return bits_ == 0; }
    bool full() const { return bits_ == kAll; }

    mask operator~() const { return from_bits(~bits_); }
    mask operator&(const mask& other) const { return from_bits(bits_ & other.bits_); }
    mask operator|(const mask& other) const { return from_bits(bits_ | other.bits_); }
    mask operator^(const mask& other) const { return from_bits(bits_ ^ other.bits_); }
    bool operator==(const mask& other) const = default;

  private:
    static_assert(N <= 64);
    static constexpr uint64_t kAll = ~uint64_t{0} >> (64 - N);

    static mask from_bits(uint64_t bits) {
        mask made;
        made.bits_ = bits & kAll;
        return made;
    }

    uint64_t bits_ = 0;
};

template <typename Tag, unsigned N>
class accum {
  public:
    using value_type = typename detail::AccumStorage<Tag>::type;
    using native_type = accum;

    // On a core it holds whatever the register held: here what no sum comes out right with.
    accum() {
        for (value_type& value : values_) value = detail::anything<value_type>();
    }
    template <typename Other>
    accum(const accum<Other, N>& other) {
        for (unsigned i = 0; i < N; ++i) values_[i] = static_cast<value_type>(other[i]);
    }
    template <typename T>
    accum(const vector<T, N>& v, int shift = 0) {
        from_vector(v, shift);
    }

    static constexpr unsigned size() { return N; }
    static constexpr unsigned accum_bits() { return 8 * sizeof(value_type); }
    static constexpr bool is_floating_point() { return std::is_same_v<Tag, accfloat>; }

    value_type operator[](unsigned index) const { return values_[index]; }
    value_type& operator[](unsigned index) { return values_[index]; }
    accum to_native() const { return *this; }

    template <typename T>
    void from_vector(const vector<T, N>& v, int shift = 0) {
        if constexpr (!std::is_same_v<T, float>) host::count_vector(N * sizeof(value_type));  // a float is only moved
        for (unsigned i = 0; i < N; ++i) {
            if constexpr (is_floating_point()) {
                values_[i] = static_cast<float>(v[i]);
            } else {
                using Bits = std::make_unsigned_t<value_type>;
                values_[i] = static_cast<value_type>(static_cast<Bits>(static_cast<value_type>(v[i])) << shift);
            }
        }
    }

    // Shifted, rounded and saturated as the modes of the core say.
    template <typename T>
    vector<T, N> to_vector(int shift = 0) const {
        vector<T, N> v;
        if constexpr (std::is_same_v<T, value_type>) {
            if (shift == 0) {  // nothing to round or to saturate, and nothing to do on the core either
                memcpy(v.data(), values_, sizeof values_);
                return v;
            }
        }
        host::count_vector(N * sizeof(value_type));
        for (unsigned i = 0; i < N; ++i) v[i] = detail::leave<T>(values_[i], shift);
        return v;
    }

    template <unsigned M>
    accum<Tag, M> extract(unsigned index) const {
        accum<Tag, M> part;
        for (unsigned i = 0; i < M; ++i) part[i] = values_[index * M + i];
        return part;
    }
    template <unsigned M>
    accum& insert(unsigned index, const accum<Tag, M>& part) {
        for (unsigned i = 0; i < M; ++i) values_[index * M + i] = part[i];
        return *this;
    }
    // What is new holds anything.
    template <unsigned M>
    accum<Tag, M> grow(unsigned index = 0) const {
        return accum<Tag, M>().insert(index, *this);
    }
    // Float accumulators hold the bits of a vector: this is the same register under another name.
    template <typename Other>
    accum<Other, N> cast_to() const {
        static_assert(sizeof(typename accum<Other, N>::value_type) == sizeof(value_type));
        accum<Other, N> cast;
        for (unsigned i = 0; i < N; ++i) cast[i] = std::bit_cast<typename accum<Other, N>::value_type>(values_[i]);
        return cast;
    }

  private:
    value_type values_[N];
};

}  // namespace aie
// NOLINTEND(readability-identifier-naming,google-explicit-constructor)
