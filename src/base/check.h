// CHECK: our own invariants. A failure is a bug in Tandem, never a user's mistake, so it ends the program.
#pragma once

#include <string_view>

namespace tandem {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, std::string_view detail = {});

}  // namespace tandem

// CHECK(condition) or CHECK(condition, "detail").
#define CHECK(condition, ...)                                                                  \
    do {                                                                                       \
        if (!(condition)) [[unlikely]]                                                         \
            ::tandem::check_failed(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
    } while (false)
