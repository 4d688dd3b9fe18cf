// The sections that describe a kernel. Their layouts are those of the structures in XRT's xclbin.h.
#include <algorithm>
#include <cstring>

#include "base/byte_reader.h"
#include "npu/xrt/xclbin.h"

namespace tandem::npu {

namespace {

enum class MemoryType : uint8_t { dram = 2 };
constexpr uint32_t kKernelInstance = 1;  // the type of an ip
constexpr uint32_t kSoftKernelInstance = 7;
constexpr size_t kIpNameBytes = 64;
constexpr size_t kIpBytes = 80;

// The memories of the topology: where the instructions lie, and where all other buffers do.
constexpr int32_t kInstructionMemory = 1;
constexpr int32_t kHostMemory = 0;

struct Argument {
    std::string name;
    std::string_view type;
    int size_bytes;
    int32_t memory;  // -1: a number
};

std::vector<Argument> arguments_of(const XclbinKernel& kernel) {
    std::vector<Argument> arguments{
        {"opcode", "uint64_t", 8, -1}, {"instr", "char *", 8, kInstructionMemory}, {"ninstr", "uint32_t", 4, -1}};
    arguments.reserve(arguments.size() + static_cast<size_t>(kernel.buffers));
    for (int i = 0; i < kernel.buffers; ++i) arguments.push_back({fmt::format("bo{}", i), "void*", 8, kHostMemory});
    return arguments;
}

std::string instance_of(const XclbinKernel& kernel) {
    return fmt::format("{0}:{0}_0", kernel.name);
}

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

// Counted tables: a number of entries and then each as a plain block.
class Table {
  public:
    explicit Table(int32_t count) { add(count); }

    template <typename T>
    Table& add(T value) {
        const auto* raw = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), raw, raw + sizeof(T));
        return *this;
    }
    Table& add(std::string_view text, size_t width) {
        CHECK(text.size() < width, "the name does not fit");
        const size_t begin = bytes_.size();
        bytes_.resize(begin + width);
        std::memcpy(bytes_.data() + begin, text.data(), text.size());
        return *this;
    }

    std::vector<std::byte> finish() && { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

std::string metadata(const XclbinKernel& kernel) {
    std::string arguments;
    int offset = 0;
    int id = 0;
    for (const Argument& argument : arguments_of(kernel)) {
        arguments += fmt::format(
            "<arg name=\"{0}\" addressQualifier=\"{1}\" id=\"{2}\" port=\"\" size=\"{3:#x}\" offset=\"{4:#x}\" "
            "hostOffset=\"0x0\" hostSize=\"{3:#x}\" type=\"{5}\"/>",
            argument.name, argument.memory < 0 ? 0 : 1, id++, argument.size_bytes, offset, argument.type);
        offset += argument.size_bytes;
    }
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><project name=\"{0}\"><platform vendor=\"\" boardid=\"\" name=\"\">"
        "<device name=\"fpga0\"><core name=\"OCL_REGION_0\" target=\"hw\" type=\"clc_region\">"
        "<kernel name=\"{0}\" language=\"c\" type=\"ps\">{1}<instance name=\"{0}_0\"/></kernel>"
        "</core></device></platform></project>",
        kernel.name, arguments);
}

std::vector<std::byte> memory_topology() {
    Table table(2);
    table.add(int32_t{0});  // entries are aligned to 8 bytes
    for (const char* name : {"HOST", "SRAM"}) {
        table.add(MemoryType::dram).add(uint8_t{1}).add("", 6);
        table.add(uint64_t{0x10000}).add(uint64_t{name[0] == 'H' ? 0x4000000U : 0x4000U}).add(name, 16);
    }
    return std::move(table).finish();
}

std::vector<std::byte> connectivity(const XclbinKernel& kernel) {
    const std::vector<Argument> arguments = arguments_of(kernel);
    const auto buffers = std::count_if(arguments.begin(), arguments.end(), [](auto& a) { return a.memory >= 0; });
    Table table(static_cast<int32_t>(buffers));
    for (size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].memory < 0) continue;
        table.add(static_cast<int32_t>(i)).add(int32_t{0}).add(arguments[i].memory);
    }
    return std::move(table).finish();
}

std::vector<std::byte> ip_layout(const XclbinKernel& kernel) {
    Table table(1);
    table.add(int32_t{0});
    table.add(kKernelInstance).add(uint32_t{0}).add(uint64_t{0}).add(instance_of(kernel), kIpNameBytes);
    return std::move(table).finish();
}

// FNV-1a, twice: enough for XRT to tell designs apart.
std::array<std::byte, 16> fingerprint(const std::vector<Xclbin::Section>& sections) {
    std::array<std::byte, 16> uuid{};
    for (size_t half = 0; half < 2; ++half) {
        uint64_t hash = 0xcbf29ce484222325U + half;
        for (const Xclbin::Section& section : sections) {
            for (std::byte byte : section.data) hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3U;
        }
        std::memcpy(uuid.data() + 8 * half, &hash, sizeof(hash));
    }
    return uuid;
}

}  // namespace

Xclbin describe_kernel(const XclbinKernel& kernel) {
    CHECK(kernel.buffers >= 0 && kernel.buffers <= XclbinKernel::kMaxBuffers);
    Xclbin xclbin;
    xclbin.sections.push_back({SectionKind::embedded_metadata, "", bytes_of(metadata(kernel))});
    xclbin.sections.push_back({SectionKind::memory_topology, "", memory_topology()});
    xclbin.sections.push_back({SectionKind::connectivity, "", connectivity(kernel)});
    xclbin.sections.push_back({SectionKind::ip_layout, "", ip_layout(kernel)});
    xclbin.sections.push_back({SectionKind::group_topology, "", memory_topology()});
    xclbin.sections.push_back({SectionKind::group_connectivity, "", connectivity(kernel)});
    xclbin.uuid = fingerprint(xclbin.sections);
    return xclbin;
}

Result<std::vector<std::string>> kernel_names(const Xclbin& xclbin) {
    const Xclbin::Section* section = xclbin.find(SectionKind::ip_layout);
    if (section == nullptr) return fail("the xclbin has no IP_LAYOUT section: build the design again");
    ByteReader in(section->data);
    const auto count = in.read<int32_t>("the number of instances");
    in.take(4, "the padding");
    if (!in.ok() || count < 0 || static_cast<uint64_t>(count) > in.remaining() / kIpBytes)
        return fail("the xclbin's IP_LAYOUT of {} bytes says it has {} instances: build the design again",
                    section->data.size(), count);
    std::vector<std::string> names;
    for (int32_t i = 0; i < count; ++i) {
        const auto type = in.read<uint32_t>("the type of an instance");
        in.take(12, "the address of an instance");
        const auto raw = in.take(kIpNameBytes, "the name of an instance");
        const auto* text = reinterpret_cast<const char*>(raw.data());
        std::string name(text, std::find(text, text + raw.size(), '\0'));
        if (type == kKernelInstance || type == kSoftKernelInstance) names.push_back(name.substr(0, name.find(':')));
    }
    return names;
}

}  // namespace tandem::npu
