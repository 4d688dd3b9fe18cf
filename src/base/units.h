// Sizes and counts as people read them, for messages and tables.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

std::string format_bytes(uint64_t bytes);  // "26.4 MiB"
std::string format_count(uint64_t count);  // "27.01 G"
// Three digits, in the unit that suits: "12.3 s", "4.56 ms", "789 us".
std::string format_seconds(double seconds);
// Three digits that say something, the rest as zeros: "0.123", "45.6", "694000".
std::string format_rate(double rate);

}  // namespace tandem
