// Reply<T>: a value, or the ApiError that a client gets instead.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace tandem::server {

// What a client is told, whichever API it speaks. The defaults are those of a request that can never succeed.
struct ApiError {
    int status = 400;
    std::string type = "invalid_request_error";
    std::string message;
    std::string code = {};                                          // empty: null
    std::string param = {};                                         // the field that is wrong; empty: null
    int retry_after_s = 0;                                          // Retry-After, when positive
    std::vector<std::pair<std::string, int64_t>> extra = {};        // further fields of the error object
    std::vector<std::pair<std::string, std::string>> headers = {};  // of the answer

    // Clients retry 408, 409, 429 and 5xx by themselves: those that will not help say so (x-should-retry: false).
    bool retry_helps() const { return status == 408 || status == 409 || status == 429 || status == 503; }
};

// bad_request("temperature", "temperature is {}: ...", x): a field is wrong.
template <typename... Args>
[[nodiscard]] ApiError bad_request(std::string param, fmt::format_string<Args...> format, Args&&... args) {
    return {.message = fmt::format(format, std::forward<Args>(args)...), .param = std::move(param)};
}

// Like Result, and TRY works with it; the Error of a Result becomes a 400.
template <typename T>
class [[nodiscard]] Reply {
  public:
    Reply(T value) : state_(std::in_place_index<0>, std::move(value)) {}          // NOLINT(google-explicit-constructor)
    Reply(ApiError error) : state_(std::in_place_index<1>, std::move(error)) {}   // NOLINT(google-explicit-constructor)
    Reply(Error error) : Reply(ApiError{.message = std::move(error.message)}) {}  // NOLINT(google-explicit-constructor)

    explicit operator bool() const { return state_.index() == 0; }

    T& value() & {
        CHECK(*this, "value() of a failed Reply");
        return *std::get_if<0>(&state_);
    }
    const T& value() const& {
        CHECK(*this, "value() of a failed Reply");
        return *std::get_if<0>(&state_);
    }
    T&& value() && {
        CHECK(*this, "value() of a failed Reply");
        return std::move(*std::get_if<0>(&state_));
    }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    const ApiError& error() const& {
        CHECK(!*this, "error() of a successful Reply");
        return *std::get_if<1>(&state_);
    }
    ApiError&& error() && {
        CHECK(!*this, "error() of a successful Reply");
        return std::move(*std::get_if<1>(&state_));
    }

  private:
    std::variant<T, ApiError> state_;
};

}  // namespace tandem::server
