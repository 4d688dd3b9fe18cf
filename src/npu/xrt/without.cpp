// In place of what includes XRT, where that was not there when Tandem was built.
#include "npu/xrt/runtime.h"

namespace tandem::npu {

Result<std::unique_ptr<Runtime>> open_xrt(XrtOptions /*options*/) {
    return fail("this build of Tandem cannot use the NPU: install XRT (or Debian's libxrt-dev) and build it again");
}

}  // namespace tandem::npu
