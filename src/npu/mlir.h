// A design as MLIR in the dialect of the vendor's toolchain (aie, aiex; mlir-aie 1.x), in generic op form.
#pragma once

#include <cstdint>
#include <string>

#include "npu/design.h"

namespace tandem::npu {

// All, or what the array is loaded with: without the sequence, which alone differs between designs of one name.
enum class MlirPart : uint8_t { all, array };

// Of a design that check() accepts. Every worker runs for ever.
std::string to_mlir(const Design& design, MlirPart part = MlirPart::all);

// The object file in which the kernels of a source are looked for: "matmul_i8.cc" -> "matmul_i8.o".
std::string object_file(const std::string& source);

}  // namespace tandem::npu
