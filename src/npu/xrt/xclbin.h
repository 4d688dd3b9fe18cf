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

// The kind of section that we read; files hold others too.
enum class SectionKind : uint32_t {
    ip_layout = 8,  // the instances of kernels
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

// `name` is for messages. Everything in the file is checked before it is used.
Result<Xclbin> read_xclbin(std::span<const std::byte> file, std::string_view name);

// The names of the kernels in an xclbin, as instances without their number.
Result<std::vector<std::string>> kernel_names(const Xclbin& xclbin);

}  // namespace tandem::npu
