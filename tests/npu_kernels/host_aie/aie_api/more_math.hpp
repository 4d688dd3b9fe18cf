// Functions and look-up tables of public kernels.
#pragma once

#include <aie_api/arithmetic.hpp>

#include <utility>

// NOLINTBEGIN(readability-identifier-naming): the names are those of the public API
namespace aie {

// Both give the mode there was.
inline rounding_mode swap_rounding(rounding_mode mode) {
    return std::exchange(host::core.rounding, mode);
}
inline saturation_mode swap_saturation(saturation_mode mode) {
    return std::exchange(host::core.saturation, mode);
}
inline saturation_mode get_saturation() {
    return host::core.saturation;
}

template <typename To, detail::Number T>
To to_fixed(T value, int shift = 0) {
    ++host::core.work.scalar_ops;
    return detail::saturated<To>(detail::to_integer(static_cast<float>(value), shift, get_rounding()),
                                 saturation_mode::saturate);
}
template <typename To = float, detail::Number T>
To to_float(T value, int shift = 0) {
    ++host::core.work.scalar_ops;
    return static_cast<To>(ldexpf(static_cast<float>(value), -shift));
}
template <typename T>
T invsqrt(const T& value) {
    return detail::function(value, [](float x) { return 1.0F / sqrtf(x); });
}
template <typename T>
T sqrt(const T& value) {
    return detail::function(value, [](float x) { return sqrtf(x); });
}
template <typename To = bfloat16, unsigned N>
vector<To, N> exp2(const vector<float, N>& v) {
    return detail::each<To, N>([&](unsigned i) { return detail::element<To>(exp2f(v[i])); });
}
template <typename To = bfloat16, unsigned N>
vector<To, N> exp2(const accum<accfloat, N>& v) {
    return exp2<To>(v.template to_vector<float>());
}
template <typename To = bfloat16, unsigned N>
vector<To, N> tanh(const vector<float, N>& v) {
    return detail::each<To, N>([&](unsigned i) { return detail::element<To>(tanhf(v[i])); });
}
template <typename To = bfloat16, unsigned N>
vector<To, N> tanh(const accum<accfloat, N>& v) {
    return tanh<To>(v.template to_vector<float>());
}

// A table that lies in memory four times, so that four elements can be read at once: twice in each of two banks,
// repeated after every 16 bytes.
template <unsigned Parallel, typename Offset, typename Slope = Offset>
class lut {
    static_assert(Parallel == 4 || Parallel == 2);

  public:
    using offset_type = Offset;

    lut(unsigned elements, const void* first_bank, const void* /*second_bank*/)
        : elements_(elements), table_(static_cast<const unsigned char*>(first_bank)) {}

    unsigned size() const { return elements_; }

    // What lies `at_bytes` bytes after the start of the table without the repetitions.
    template <typename T>
    T read(unsigned at_bytes) const {
        host::core.work.load_bytes += 16;  // four at once: a quarter of two loads of 32 bytes
        T value;
        memcpy(&value, table_ + at_bytes / 16 * 32 + at_bytes % 16, sizeof value);
        return value;
    }

  private:
    unsigned elements_;
    const unsigned char* table_;
};

enum class lut_oor_policy : uint8_t { saturate, truncate };

// Element (index >> step_bits) of a table.
template <typename Index, typename Lut, lut_oor_policy Policy = lut_oor_policy::saturate>
class parallel_lookup {
  public:
    explicit parallel_lookup(const Lut& table, unsigned step_bits = 0, int bias = 0)
        : table_(table), step_bits_(step_bits), bias_(bias) {}

    template <unsigned N>
    auto fetch(const vector<Index, N>& input) const {
        using T = typename Lut::offset_type;
        return detail::each<T, N>([&](unsigned i) {
            const int at = (static_cast<int>(input[i]) >> step_bits_) + bias_;
            return table_.template read<T>(sizeof(T) * within(at));
        });
    }

  private:
    unsigned within(int at) const {
        const int last = static_cast<int>(table_.size()) - 1;
        if constexpr (Policy == lut_oor_policy::truncate) return static_cast<unsigned>(at & last);
        return static_cast<unsigned>(at < 0 ? 0 : at > last ? last : at);
    }

    Lut table_;
    unsigned step_bits_;
    int bias_;
};

// slope * x + offset, both from a table of (slope, offset) for ranges that are 2^step_bits wide; x = 0 begins the one
// at `bias`.
template <typename T, typename Lut>
class linear_approx {
  public:
    linear_approx(const Lut& table, int step_bits, int bias, int /*shift_offset*/ = 0)
        : table_(table), step_bits_(step_bits), bias_(bias) {}

    template <unsigned N>
    accum<accfloat, N> compute(const vector<T, N>& input) const {
        return detail::products<accfloat, N, T, T>([&](unsigned i) {
            const float x = static_cast<float>(input[i]);
            const float last = static_cast<float>(table_.size()) - 1.0F;
            const float at = fminf(fmaxf(floorf(ldexpf(x, -step_bits_)) + static_cast<float>(bias_), 0.0F), last);
            const unsigned entry = 8 * static_cast<unsigned>(at);
            return table_.template read<float>(entry) * x + table_.template read<float>(entry + 4);
        });
    }

  private:
    Lut table_;
    int step_bits_;
    int bias_;
};

}  // namespace aie
// NOLINTEND(readability-identifier-naming)
