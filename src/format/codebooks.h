// Code books: the points that weights of the iq1, iq2 and iq3 types are made of.
#pragma once

#include <array>
#include <cstdint>

namespace tandem::format {

// A point of iq2 and iq1 is eight levels of 2 bits, one of iq3 four levels of 3 bits; element 0 in the lowest bits. In
// iq1 a level is the element plus one.
extern const std::array<uint16_t, 256> kIq2XxsGrid;
extern const std::array<uint16_t, 512> kIq2XsGrid;
extern const std::array<uint16_t, 1024> kIq2SGrid;
extern const std::array<uint16_t, 256> kIq3XxsGrid;
extern const std::array<uint16_t, 512> kIq3SGrid;
extern const std::array<uint16_t, 2048> kIq1Grid;

inline constexpr uint8_t kIq2Levels[4] = {8, 25, 43, 0};  // the last does not occur
inline constexpr uint8_t kIq3XxsLevels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr uint8_t kIq3SLevels[8] = {1, 3, 5, 7, 9, 11, 13, 15};

}  // namespace tandem::format
