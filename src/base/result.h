// Result<T>: a value or an Error, for everything we do not control (files, requests, devices, drivers).
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace tandem {

// What went wrong, in one line for the user: it names the thing, the value and what to do.
struct Error {
    std::string message;
};

// fail("{}: tensor '{}' ...", path, name): formats the message of an Error.
template <typename... Args>
[[nodiscard]] Error fail(fmt::format_string<Args...> format, Args&&... args) {
    return Error{fmt::format(format, std::forward<Args>(args)...)};
}

// A value, or the reason of type E why there is none.
template <typename T, typename E>
class [[nodiscard]] Outcome {
  public:
    Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
    Outcome(E error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

    explicit operator bool() const { return state_.index() == 0; }

    T& value() & {
        CHECK(*this, "value() of a failed Result");
        return *std::get_if<0>(&state_);
    }
    const T& value() const& {
        CHECK(*this, "value() of a failed Result");
        return *std::get_if<0>(&state_);
    }
    T&& value() && {
        CHECK(*this, "value() of a failed Result");
        return std::move(*std::get_if<0>(&state_));
    }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    const E& error() const& {
        CHECK(!*this, "error() of a successful Result");
        return *std::get_if<1>(&state_);
    }
    E&& error() && {
        CHECK(!*this, "error() of a successful Result");
        return std::move(*std::get_if<1>(&state_));
    }

  private:
    std::variant<T, E> state_;
};

template <typename T>
using Result = Outcome<T, Error>;

// The value of an operation that only succeeds or fails.
struct Ok {};
using Status = Result<Ok>;

}  // namespace tandem

// auto x = TRY(expression): the value of a Result, or return its Error from this function.
// It is a statement of its own, a call's argument or an operand. Never inside a `new` expression, nor inside braces
// after a member that owns something: the return in the middle leaves half-made objects behind, which no destructor
// frees. Take the value first, then make the object.
#define TRY(...)                                   \
    __extension__({                                \
        auto try_result_ = (__VA_ARGS__);          \
        if (!try_result_) [[unlikely]]             \
            return std::move(try_result_).error(); \
        std::move(try_result_).value();            \
    })
