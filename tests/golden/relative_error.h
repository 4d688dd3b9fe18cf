// How far logits are from the expected ones.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tandem::golden {

// The largest difference, as a share of the largest logit.
inline double relative_error(const std::vector<float>& actual, const std::vector<float>& expected) {
    EXPECT_EQ(actual.size(), expected.size());
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
        largest = std::max(largest, std::abs(double{expected[i]}));
        const double error = std::abs(double{actual[i]} - double{expected[i]});
        difference = std::max(difference, std::isnan(error) ? INFINITY : error);
    }
    return difference / largest;
}

}  // namespace tandem::golden
