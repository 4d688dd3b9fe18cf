// Given: a member of an aggregate that has no default, so that leaving it out does not compile.
#pragma once

#include <type_traits>

namespace tandem::vulkan {

template <typename T>
class Given {
  public:
    using Type = T;

    // A truth value is given by a bool, and nothing else is.
    template <typename U, std::enable_if_t<std::is_same_v<U, bool> == std::is_same_v<T, bool>, int> = 0>
    constexpr Given(U value) : value_(value) {}  // NOLINT(google-explicit-constructor): it stands for its value

    constexpr operator T() const { return value_; }  // NOLINT(google-explicit-constructor)
    constexpr T value() const { return value_; }

  private:
    T value_;
};

}  // namespace tandem::vulkan
