#include "npu/xrt/module/guard.h"

#include <xrt/xrt_kernel.h>

#include <cerrno>

namespace tandem::npu {

std::string_view remedy_for(int code) {
    switch (code) {
        case EACCES:
        case EPERM:
            return ": add yourself to the group render";
        case ENODEV:
        case ENXIO:
        case ENOENT:
            return ": see tandem npu list for what is missing";
        case EINVAL:
        case EPROTO:
            return ": the versions of driver, firmware and XRT may not match, update all three";
        case ENOMEM:
        case EAGAIN:
            return ": raise the limit of locked memory (memlock), or close other programs that use the NPU";
        default:
            return "";
    }
}

Error state_error(std::string_view design, int state) {
    switch (state) {
        case ERT_CMD_STATE_ABORT:
            return fail(
                "the NPU aborted '{}': the firmware does not match the driver, or the design hung; update "
                "linux-firmware and XRT together and see dmesg",
                design);
        case ERT_CMD_STATE_NEW:  // not even begun, or under way
        case ERT_CMD_STATE_QUEUED:
        case ERT_CMD_STATE_SUBMITTED:
        case ERT_CMD_STATE_RUNNING:
        case ERT_CMD_STATE_TIMEOUT:
        case ERT_CMD_STATE_NORESPONSE:
            return fail(
                "the NPU did not finish '{}' in time and was given up: see dmesg, and reload the driver amdxdna",
                design);
        default:
            return fail("the NPU failed '{}' (state {} of XRT): see dmesg", design, state);
    }
}

}  // namespace tandem::npu
