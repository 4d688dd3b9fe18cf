// Reads any bytes as an xclbin, as a toolchain left it in the cache or a user put it there.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "npu/xrt/xclbin.h"
#include "unit/npu/make_xclbin.h"

namespace tandem::npu {
namespace {

// What was read can be written and read again.
void copy(const Xclbin& xclbin) {
    const std::vector<std::byte> bytes = write_xclbin(xclbin);
    const auto again = read_xclbin(bytes, "copy");
    CHECK(again, again ? "" : again.error().message);
    CHECK(again->uuid == xclbin.uuid && again->sections.size() == xclbin.sections.size());
    for (size_t i = 0; i < xclbin.sections.size(); ++i) {
        CHECK(again->sections[i].kind == xclbin.sections[i].kind);
        CHECK(again->sections[i].name == xclbin.sections[i].name);
        CHECK(again->sections[i].data == xclbin.sections[i].data);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto xclbin = read_xclbin(std::as_bytes(std::span(data, size)), "fuzz");
    if (!xclbin) {
        CHECK(!xclbin.error().message.empty());
        return 0;
    }
    size_t total = 0;
    for (const Xclbin::Section& section : xclbin->sections) {
        total += section.data.size();
        CHECK(xclbin->find(section.kind) != nullptr);
    }
    CHECK(total <= size);
    const auto names = kernel_names(*xclbin);
    CHECK(!names || names->size() <= size);
    copy(*xclbin);
    return 0;
}

}  // namespace tandem::npu
