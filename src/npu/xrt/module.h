// What the module libtandem-xrt.so offers: it alone is linked with XRT, so that programs start where that is not.
#pragma once

#include "npu/xrt/runtime.h"

namespace tandem::npu {

using OpenXrt = void(XrtOptions options, Result<std::unique_ptr<Runtime>>& result);
inline constexpr const char* kOpenXrt = "tandem_open_xrt";

}  // namespace tandem::npu
