// The designs by name, and trials of them: random data and a plain computation to compare with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "npu/design.h"

namespace tandem::npu {

struct DesignFamily {
    std::string pattern;                // of its names: "gemm_i8_MxKxN"
    std::string what;                   // in one line
    std::vector<std::string> examples;  // what is checked and written out as MLIR in tests
};
std::vector<DesignFamily> design_families();

// Any name that a family has, not only its examples. Shapes are rounded up to what the array takes. All of a family
// that the array is loaded with in the same way have one name, and differ in their transfers.
Result<Design> make_design(const std::string& name, const std::string& array);

struct Trial {
    Design design;
    std::vector<std::vector<std::byte>> arguments;
    // After a run with these arguments: how many results were compared, or where one is wrong.
    std::function<Result<int64_t>(const std::vector<std::vector<std::byte>>&)> compare;
};
Result<Trial> make_trial(const std::string& name, const std::string& array, uint32_t seed);

}  // namespace tandem::npu
