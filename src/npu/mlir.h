// A design as MLIR in the dialect of the vendor's toolchain (aie, aiex; mlir-aie 1.x), in generic op form.
#pragma once

#include <string>

#include "npu/design.h"

namespace tandem::npu {

// Of a design that check() accepts. Every worker runs for ever, one round of its body for each run of the sequence.
std::string to_mlir(const Design& design);

// The object file in which the kernels of a source are looked for: "matmul_i8.cc" -> "matmul_i8.o".
std::string object_file(const std::string& source);

}  // namespace tandem::npu
