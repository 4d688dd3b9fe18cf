// The NPU itself as a Runtime: designs compiled by the vendor's toolchain, run through XRT.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "npu/runtime.h"
#include "npu/toolchain.h"

namespace tandem::npu {

struct XrtOptions {
    int device = 0;  // as XRT counts them
    // What the toolchain made of a design (npu/toolchain.h); an error says how to get it.
    std::function<Result<BuiltDesign>(const Design&)> built;
    std::string kernel = "MLIR_AIE";  // as the toolchain calls every design
};

// The NPU of this machine; fails with all that npu/xrt/discovery.h finds in the way.
Result<std::unique_ptr<Runtime>> open_npu(XrtOptions options);

// Whatever XRT has as that device, NPU or not.
Result<std::unique_ptr<Runtime>> open_xrt(XrtOptions options);

}  // namespace tandem::npu
