// xclbin files for tests: whole but for what configures the array, which is the vendor's compiler's to make.
#pragma once

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "npu/xrt/xclbin.h"

namespace tandem::npu {

// Sections that only XRT reads.
constexpr SectionKind kMetadata{2}, kMemoryTopology{6}, kConnectivity{7}, kGroupTopology{26}, kGroupConnectivity{27};

class XclbinBytes {
  public:
    template <typename T>
    XclbinBytes& add(T value) {
        const auto* raw = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), raw, raw + sizeof(T));
        return *this;
    }
    // Text with zeros up to `width`, the last of which is always there.
    XclbinBytes& text(std::string_view text, size_t width) {
        CHECK(text.size() < width, "the name does not fit");
        const auto raw = std::as_bytes(std::span(text));
        bytes_.insert(bytes_.end(), raw.begin(), raw.end());
        return fill(width - text.size());
    }
    XclbinBytes& fill(size_t count, std::byte value = {}) {
        bytes_.insert(bytes_.end(), count, value);
        return *this;
    }
    XclbinBytes& all(std::span<const std::byte> bytes) {
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
        return *this;
    }
    size_t size() const { return bytes_.size(); }
    std::vector<std::byte> finish() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

inline std::vector<std::byte> write_xclbin(const Xclbin& xclbin) {
    constexpr uint64_t kHeaderBytes = 456, kSectionHeaderBytes = 40;
    const auto align = [](uint64_t offset) { return (offset + 7) / 8 * 8; };
    uint64_t end = kHeaderBytes + xclbin.sections.size() * kSectionHeaderBytes;
    for (const Xclbin::Section& section : xclbin.sections) end = align(end) + section.data.size();
    XclbinBytes out;
    out.text("xclbin2", 8).add(int32_t{-1}).fill(28, std::byte{0xff});  // no signature, reserved
    out.fill(256).add(uint64_t{0}).add(end);                            // of the signature, id, length
    out.add(uint64_t{0}).add(uint64_t{0});                              // when it was made, feature ROM
    out.add(uint16_t{0}).add(uint8_t{2}).add(uint8_t{13});              // version: patch, major, minor
    out.add(uint16_t{0}).add(uint16_t{0}).fill(16).text("", 64);        // mode, actions, uuid of the ROM, platform
    out.add(xclbin.uuid).text("", 16);                                  // file with debug information
    out.add(static_cast<uint32_t>(xclbin.sections.size())).fill(4);
    CHECK(out.size() == kHeaderBytes);
    uint64_t offset = kHeaderBytes + xclbin.sections.size() * kSectionHeaderBytes;
    for (const Xclbin::Section& section : xclbin.sections) {
        offset = align(offset);
        out.add(static_cast<uint32_t>(section.kind)).text(section.name, 16).fill(4);
        out.add(offset).add(uint64_t{section.data.size()});
        offset += section.data.size();
    }
    for (const Xclbin::Section& section : xclbin.sections) out.fill(align(out.size()) - out.size()).all(section.data);
    return out.finish();
}

// What describes a kernel with an operation code, instructions, their count and then so many buffers. The layouts are
// those of the structures in XRT's xclbin.h.
inline Xclbin describe_kernel(int buffers, const std::string& name = "MLIR_AIE") {
    struct Argument {
        std::string name, type;
        int size_bytes;
        int32_t memory;  // -1: a number
    };
    std::vector<Argument> arguments{
        {"opcode", "uint64_t", 8, -1}, {"instr", "char *", 8, 1}, {"ninstr", "uint32_t", 4, -1}};
    for (int i = 0; i < buffers; ++i) arguments.push_back({fmt::format("bo{}", i), "void*", 8, 0});
    std::string listed;
    int at = 0;
    XclbinBytes connectivity;
    connectivity.add(int32_t{buffers + 1});
    for (size_t i = 0; i < arguments.size(); ++i) {
        const Argument& argument = arguments[i];
        listed += fmt::format(
            "<arg name=\"{0}\" addressQualifier=\"{1}\" id=\"{2}\" port=\"\" size=\"{3:#x}\" offset=\"{4:#x}\" "
            "hostOffset=\"0x0\" hostSize=\"{3:#x}\" type=\"{5}\"/>",
            argument.name, argument.memory < 0 ? 0 : 1, i, argument.size_bytes, at, argument.type);
        at += argument.size_bytes;
        if (argument.memory >= 0) connectivity.add(static_cast<int32_t>(i)).add(int32_t{0}).add(argument.memory);
    }
    const std::string metadata = fmt::format(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><project name=\"{0}\"><platform vendor=\"\" boardid=\"\" name=\"\">"
        "<device name=\"fpga0\"><core name=\"OCL_REGION_0\" target=\"hw\" type=\"clc_region\">"
        "<kernel name=\"{0}\" language=\"c\" type=\"ps\">{1}<instance name=\"{0}_0\"/></kernel>"
        "</core></device></platform></project>",
        name, listed);
    XclbinBytes memories;
    memories.add(int32_t{2}).add(int32_t{0});
    for (const auto& [memory, size] : {std::pair{"HOST", uint64_t{0x4000000}}, std::pair{"SRAM", uint64_t{0x4000}}})
        memories.add(uint8_t{2}).add(uint8_t{1}).fill(6).add(uint64_t{0x10000}).add(size).text(memory, 16);
    XclbinBytes instances;
    instances.add(int32_t{1}).add(int32_t{0}).add(uint32_t{1}).add(uint32_t{0}).add(uint64_t{0});
    instances.text(fmt::format("{0}:{0}_0", name), 64);
    const std::vector<std::byte> memory = memories.finish(), connected = connectivity.finish();
    Xclbin xclbin;
    xclbin.uuid[0] = static_cast<std::byte>(buffers + 1);
    xclbin.sections = {{kMetadata, "", XclbinBytes().all(std::as_bytes(std::span(metadata))).finish()},
                       {kMemoryTopology, "", memory},
                       {kConnectivity, "", connected},
                       {SectionKind::ip_layout, "", instances.finish()},
                       {kGroupTopology, "", memory},
                       {kGroupConnectivity, "", connected}};
    return xclbin;
}

}  // namespace tandem::npu
