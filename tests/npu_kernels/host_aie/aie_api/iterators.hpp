// Unaligned accesses and the iterators that walk a buffer vector by vector.
#pragma once

#include <aie_api/arithmetic.hpp>

#include <stddef.h>  // NOLINT(modernize-deprecated-headers): kernels use it without std
#include <iterator>

// NOLINTBEGIN(readability-identifier-naming): the names are those of the public API
namespace aie {

// An unaligned access takes two of the aligned ones.
template <unsigned N, typename T>
vector<std::remove_cv_t<T>, N> load_unaligned_v(const T* source, unsigned /*aligned_elements*/ = 1) {
    host::core.work.load_bytes += N * sizeof(T);
    return load_v<N>(source);
}

template <typename T, unsigned N>
void store_unaligned_v(T* target, const vector<T, N>& v, unsigned /*aligned_elements*/ = 1) {
    host::core.work.store_bytes += N * sizeof(T);
    store_v(target, v);
}

// What an iterator points to: reading loads, assigning stores.
template <typename T, unsigned N>
class vector_reference {
  public:
    explicit vector_reference(T* place) : place_(place) {}
    vector_reference(const vector_reference&) = default;
    ~vector_reference() = default;

    operator vector<std::remove_cv_t<T>, N>() const {  // NOLINT(google-explicit-constructor): as the public API
        return load_v<N>(place_);
    }
    const vector_reference& operator=(const vector<T, N>& v) const {
        store_v(place_, v);
        return *this;
    }
    // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): it stores what it has loaded
    vector_reference& operator=(const vector_reference& other) {
        store_v(place_, load_v<N>(other.place_));
        return *this;
    }

  private:
    T* place_;
};

template <typename T, unsigned N>
class vector_iterator {
  public:
    using iterator_category = std::input_iterator_tag;
    using value_type = vector<std::remove_cv_t<T>, N>;
    using difference_type = ptrdiff_t;
    using pointer = T*;
    using reference = std::conditional_t<std::is_const_v<T>, value_type, vector_reference<T, N>>;

    explicit vector_iterator(T* place) : place_(place) {}

    reference operator*() const {
        if constexpr (std::is_const_v<T>) {
            return load_v<N>(place_);
        } else {
            return reference(place_);
        }
    }
    reference operator[](ptrdiff_t offset) const { return *(*this + offset); }
    vector_iterator& operator++() { return *this += 1; }
    vector_iterator operator++(int) {
        const vector_iterator before = *this;
        *this += 1;
        return before;
    }
    vector_iterator& operator--() { return *this += -1; }
    vector_iterator operator--(int) {
        const vector_iterator before = *this;
        *this += -1;
        return before;
    }
    vector_iterator& operator+=(ptrdiff_t offset) {
        place_ += offset * static_cast<ptrdiff_t>(N);
        return *this;
    }
    vector_iterator& operator-=(ptrdiff_t offset) { return *this += -offset; }
    vector_iterator operator+(ptrdiff_t offset) const { return vector_iterator(*this) += offset; }
    vector_iterator operator-(ptrdiff_t offset) const { return vector_iterator(*this) += -offset; }
    ptrdiff_t operator-(const vector_iterator& other) const {
        return (place_ - other.place_) / static_cast<ptrdiff_t>(N);
    }
    bool operator==(const vector_iterator&) const = default;

  private:
    T* place_;
};

template <unsigned N, typename T>
vector_iterator<T, N> begin_vector(T* buffer) {
    return vector_iterator<T, N>(buffer);
}
template <unsigned N, typename T>
vector_iterator<T, N> begin_restrict_vector(T* buffer) {
    return vector_iterator<T, N>(buffer);
}
template <unsigned N, typename T>
vector_iterator<const T, N> cbegin_vector(const T* buffer) {
    return vector_iterator<const T, N>(buffer);
}
template <unsigned N, typename T>
vector_iterator<const T, N> cbegin_restrict_vector(const T* buffer) {
    return vector_iterator<const T, N>(buffer);
}
template <unsigned N, typename T>
vector_iterator<T, N> begin_unaligned_vector(T* buffer) {
    return vector_iterator<T, N>(buffer);
}
template <unsigned N, typename T>
vector_iterator<const T, N> cbegin_unaligned_vector(const T* buffer) {
    return vector_iterator<const T, N>(buffer);
}

}  // namespace aie
// NOLINTEND(readability-identifier-naming)
