#include "base/module.h"
#include "npu/xrt/discovery.h"
#include "npu/xrt/module.h"
#include "npu/xrt/runtime.h"

namespace tandem::npu {

Result<std::unique_ptr<Runtime>> open_npu(XrtOptions options) {
    TRY(discover(System::here()).usable());
    return open_xrt(std::move(options));
}

Result<std::unique_ptr<Runtime>> open_xrt(XrtOptions options) {
    void* const found = TRY(find_in_module({.name = "xrt", .package = "tandem-xrt"}, kOpenXrt));
    Result<std::unique_ptr<Runtime>> runtime = std::unique_ptr<Runtime>();
    reinterpret_cast<OpenXrt*>(found)(std::move(options), runtime);
    return runtime;
}

}  // namespace tandem::npu
