// Reply<T>: a value, or the ApiError that a client gets instead.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
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

// As Result, with an ApiError; the Error of a Result becomes a 400.
template <typename T>
class [[nodiscard]] Reply : public Outcome<T, ApiError> {
  public:
    using Outcome<T, ApiError>::Outcome;
    // NOLINTNEXTLINE(google-explicit-constructor): TRY of a Result returns its Error
    Reply(Error error) : Outcome<T, ApiError>(ApiError{.message = std::move(error.message)}) {}
};

}  // namespace tandem::server
