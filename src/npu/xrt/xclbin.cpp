#include "npu/xrt/xclbin.h"

#include <algorithm>
#include <cstring>

#include "base/byte_reader.h"

namespace tandem::npu {

namespace {

constexpr std::string_view kMagic{"xclbin2\0", 8};
constexpr size_t kNameBytes = 16;  // of a section, with its final zero
constexpr uint64_t kSectionHeaderBytes = 40;
constexpr uint32_t kMaxSections = 256;  // the format allows 65536, and no compiler writes more than two dozen
// Of IP_LAYOUT, as in XRT's xclbin.h.
constexpr uint32_t kKernelInstance = 1;  // the type of an ip
constexpr uint32_t kSoftKernelInstance = 7;
constexpr size_t kIpNameBytes = 64;
constexpr size_t kIpBytes = 80;

std::string text_of(std::span<const std::byte> bytes) {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    return {text, std::find(text, text + bytes.size(), '\0')};
}

}  // namespace

const Xclbin::Section* Xclbin::find(SectionKind kind) const {
    const auto found = std::find_if(sections.begin(), sections.end(), [&](const Section& s) { return s.kind == kind; });
    return found == sections.end() ? nullptr : &*found;
}

Result<Xclbin> read_xclbin(std::span<const std::byte> file, std::string_view name) {
    ByteReader in(file);
    const auto magic = in.take(kMagic.size(), "the magic");
    if (!in.ok() || std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0)
        return fail("{}: not an xclbin file (it does not begin with 'xclbin2')", name);
    in.take(4 + 28 + 256 + 8, "the signature");
    const auto length = in.read<uint64_t>("the length");
    in.take(16 + 8 + 16 + 64, "the platform");
    const auto uuid = in.take(16, "the uuid");
    in.take(16, "the debug file");
    const auto count = in.read<uint32_t>("the number of sections");
    in.take(4, "the padding");
    if (!in.ok()) return fail("{}: {}: build the design again", name, in.status().error().message);
    if (length != file.size())
        return fail("{}: says it has {} bytes, but it has {}: build the design again", name, length, file.size());
    if (count > kMaxSections || count > in.remaining() / kSectionHeaderBytes)
        return fail("{}: says it has {} sections: build the design again", name, count);

    Xclbin xclbin;
    std::memcpy(xclbin.uuid.data(), uuid.data(), uuid.size());
    xclbin.sections.reserve(count);
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; ++i) {
        Xclbin::Section section;
        section.kind = static_cast<SectionKind>(in.read<uint32_t>("the kind of a section"));
        section.name = text_of(in.take(kNameBytes - 1, "the name of a section"));
        in.take(1 + 4, "the padding");
        const auto offset = in.read<uint64_t>("the offset of a section");
        const auto size = in.read<uint64_t>("the size of a section");
        total += std::min<uint64_t>(size, file.size());
        // Sections may not overlap either, or a small file could be made into many large ones.
        if (offset > file.size() || size > file.size() - offset || total > file.size()) {
            return fail("{}: section {} ('{}') of {} bytes at {} is not within the file's {} bytes: build it again",
                        name, i, section.name, size, offset, file.size());
        }
        const auto data = file.subspan(static_cast<size_t>(offset), static_cast<size_t>(size));
        section.data.assign(data.begin(), data.end());
        xclbin.sections.push_back(std::move(section));
    }
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
        const std::string name = text_of(in.take(kIpNameBytes, "the name of an instance"));
        if (type == kKernelInstance || type == kSoftKernelInstance) names.push_back(name.substr(0, name.find(':')));
    }
    return names;
}

}  // namespace tandem::npu
