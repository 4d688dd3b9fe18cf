// XrtContext: an xclbin on the device and its kernel. The one place that differs between versions of XRT.
#pragma once

#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include <span>
#include <string>

#if __has_include(<experimental/xrt_xclbin.h>)
#include <experimental/xrt_xclbin.h>
#else
#include <xrt/experimental/xrt_xclbin.h>  // where newer ones have it
#endif

#if __has_include(<xrt/xrt_hw_context.h>)
#include <xrt/xrt_hw_context.h>
#define TANDEM_XRT_CONTEXTS 1
#else
#define TANDEM_XRT_CONTEXTS 0  // before 2.17: the device has one xclbin at a time
#endif

#ifdef TANDEM_XRT_RUNLIST  // src/CMakeLists.txt has tried it: headers of that name are older than the class
#include <xrt/experimental/xrt_kernel.h>
#endif

namespace tandem::npu {

struct XrtContext {
    static constexpr bool kSeveral = TANDEM_XRT_CONTEXTS != 0;

#if TANDEM_XRT_CONTEXTS
    XrtContext(xrt::device& device, const xrt::xclbin& xclbin, const std::string& name)
        : hardware(device, device.register_xclbin(xclbin)), kernel(hardware, name) {}

    xrt::hw_context hardware;
#else
    XrtContext(xrt::device& device, const xrt::xclbin& xclbin, const std::string& name)
        : kernel(device, device.load_xclbin(xclbin), name) {}
#endif
    xrt::kernel kernel;
};

}  // namespace tandem::npu
