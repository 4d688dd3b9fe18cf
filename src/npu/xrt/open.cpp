#include "npu/xrt/discovery.h"
#include "npu/xrt/runtime.h"

namespace tandem::npu {

Result<std::unique_ptr<Runtime>> open_npu(XrtOptions options) {
    TRY(discover(System::here()).usable());
    return open_xrt(std::move(options));
}

}  // namespace tandem::npu
