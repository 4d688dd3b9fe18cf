#include "base/units.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(FormatBytes, PicksTheUnit) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1536), "1.50 KiB");
    EXPECT_EQ(format_bytes(26ULL << 30), "26.0 GiB");
}

TEST(FormatCount, PicksTheUnit) {
    EXPECT_EQ(format_count(999), "999");
    EXPECT_EQ(format_count(1'410'000'000), "1.41 G");
    EXPECT_EQ(format_count(270'000'000), "270.0 M");
}

TEST(FormatSeconds, HasThreeDigitsInTheUnitThatSuits) {
    EXPECT_EQ(format_seconds(123.4), "123 s");
    EXPECT_EQ(format_seconds(1.8472), "1.85 s");
    EXPECT_EQ(format_seconds(0.0999), "99.9 ms");
    EXPECT_EQ(format_seconds(0.00123), "1.23 ms");
    EXPECT_EQ(format_seconds(0.00099999), "1.00 ms");
    EXPECT_EQ(format_seconds(0.000456), "456 us");
    EXPECT_EQ(format_seconds(1e-9), "0.001 us");
    EXPECT_EQ(format_seconds(0), "0.000 us");
}

TEST(FormatRate, HasThreeDigitsThatSaySomething) {
    EXPECT_EQ(format_rate(694781), "695000");
    EXPECT_EQ(format_rate(1234), "1230");
    EXPECT_EQ(format_rate(999.6), "1000");
    EXPECT_EQ(format_rate(303.4), "303");
    EXPECT_EQ(format_rate(45.67), "45.7");
    EXPECT_EQ(format_rate(5.678), "5.68");
    EXPECT_EQ(format_rate(0.1234), "0.123");
}

}  // namespace
}  // namespace tandem
