// The bounds that keep any template, however it is written, from stalling the program or exhausting its memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::text::jinja {

// Of the source: real templates have a few kilobytes and about ten levels of nesting.
inline constexpr size_t kMaxSourceBytes = 512 * 1024;
inline constexpr int kMaxNesting = 100;
inline constexpr size_t kMaxArguments = 255;  // by name, in one call or macro

// Of a list in a list in a list...: what a template builds, and what a message brings.
inline constexpr int kMaxValueDepth = 100;

// The same bound as Jinja's sandbox.
inline constexpr int64_t kMaxRange = 100'000;

// Of one rendering.
struct Limits {
    uint64_t steps = 50'000'000;             // nodes evaluated, items visited, and 64 bytes copied count as one
    int depth = 400;                         // nested evaluations, macro calls included
    size_t value_bytes = size_t{256} << 20;  // all values alive at the same time
    size_t output_bytes = size_t{64} << 20;  // the rendered text
};

}  // namespace tandem::text::jinja
