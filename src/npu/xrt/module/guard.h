// guarded(): calls of XRT, whose exceptions become Errors here and go no further.
#pragma once

#include <exception>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "base/result.h"

namespace tandem::npu {

// What a user can do about an error number of the driver, as the end of a message; nothing when there is no advice.
std::string_view remedy_for(int code);

// Why a run did not complete: `state` is one of XRT's ert_cmd_state.
Error state_error(std::string_view design, int state);

// guarded("opening the device", [&] { return xrt::device(0); }): its value as a Result, Ok when it has none.
template <typename Call>
auto guarded(std::string_view what, const Call& call)
    -> Result<std::conditional_t<std::is_void_v<decltype(call())>, Ok, decltype(call())>> {
    try {
        if constexpr (std::is_void_v<decltype(call())>) {
            call();
            return Ok{};
        } else {
            return call();
        }
    } catch (const std::system_error& error) {
        return fail("XRT: {} failed: {}{}", what, error.what(), remedy_for(error.code().value()));
    } catch (const std::exception& error) {
        return fail("XRT: {} failed: {}", what, error.what());
    }
}

}  // namespace tandem::npu
