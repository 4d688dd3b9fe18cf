// xclbin: the container in which XRT takes a compiled design. Sections behind a header, "xclbin2", little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::npu {

// The kinds of sections that we name; files hold others too.
enum class SectionKind : uint32_t {
    embedded_metadata = 2,  // XML: the kernels, their arguments and instances
    memory_topology = 6,
    connectivity = 7,  // of arguments and memories
    ip_layout = 8,     // the instances of kernels
    group_topology = 26,
    group_connectivity = 27,
    aie_partition = 32,  // the array's configuration
};

struct Xclbin {
    struct Section {
        SectionKind kind{};
        std::string name;  // at most 15 characters
        std::vector<std::byte> data;
    };

    std::array<std::byte, 16> uuid{};
    std::vector<Section> sections;

    const Section* find(SectionKind kind) const;
};

std::vector<std::byte> write_xclbin(const Xclbin& xclbin);
// `name` is for messages. Everything in the file is checked before it is used.
Result<Xclbin> read_xclbin(std::span<const std::byte> file, std::string_view name);

// A kernel as XRT sees it: the runtime sequence of a design. Its first arguments are those that all designs have (an
// operation code, the instructions and their count); behind them are buffers.
struct XclbinKernel {
    std::string name = "MLIR_AIE";
    int buffers = 0;

    static constexpr int kFirstBuffer = 3;  // its number as an argument
    static constexpr int kMaxBuffers = 16;
};

// An xclbin that describes the kernel, whole but for what configures the array: that is the vendor's compiler's to
// make. The uuid comes from the contents.
Xclbin describe_kernel(const XclbinKernel& kernel);
// The names of the kernels in an xclbin, as instances without their number.
Result<std::vector<std::string>> kernel_names(const Xclbin& xclbin);

}  // namespace tandem::npu
