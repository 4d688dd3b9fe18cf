#include "npu/xrt/xclbin.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/byte_reader.h"

namespace tandem::npu {

namespace {

constexpr std::string_view kMagic{"xclbin2\0", 8};
constexpr size_t kNameBytes = 16;  // of a section, with its final zero
constexpr uint64_t kHeaderBytes = 456;
constexpr uint64_t kSectionHeaderBytes = 40;
constexpr uint32_t kMaxSections = 256;  // the format allows 65536, and no compiler writes more than two dozen
constexpr int32_t kNoSignature = -1;

uint64_t align(uint64_t offset) {
    return (offset + 7) / 8 * 8;
}

class ByteWriter {
  public:
    template <typename T>
    requires std::is_arithmetic_v<T>
    void write(T value) {
        const auto* raw = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), raw, raw + sizeof(T));
    }
    void write(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    // Text with zeros up to `width`, the last of which is always there.
    void write(std::string_view text, size_t width) {
        CHECK(text.size() < width, "the name does not fit");
        write(std::as_bytes(std::span(text)));
        fill(width - text.size(), std::byte{0});
    }
    void fill(uint64_t count, std::byte value) { bytes_.insert(bytes_.end(), static_cast<size_t>(count), value); }

    size_t size() const { return bytes_.size(); }
    std::vector<std::byte> finish() && { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

std::string text_of(std::span<const std::byte> bytes) {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    return {text, std::find(text, text + bytes.size(), '\0')};
}

}  // namespace

const Xclbin::Section* Xclbin::find(SectionKind kind) const {
    const auto found = std::find_if(sections.begin(), sections.end(), [&](const Section& s) { return s.kind == kind; });
    return found == sections.end() ? nullptr : &*found;
}

std::vector<std::byte> write_xclbin(const Xclbin& xclbin) {
    uint64_t end = kHeaderBytes + xclbin.sections.size() * kSectionHeaderBytes;
    for (const Xclbin::Section& section : xclbin.sections) end = align(end) + section.data.size();

    ByteWriter out;
    out.write(std::as_bytes(std::span(kMagic)));
    out.write(kNoSignature);
    out.fill(28, std::byte{0xff});  // reserved
    out.fill(256, std::byte{0});    // of the signature
    out.write(uint64_t{0});         // unique id, not in use any more
    out.write(end);
    out.write(uint64_t{0});  // when it was made: not said, so that the same design is the same file
    out.write(uint64_t{0});  // feature ROM
    out.write(uint16_t{0});  // version: patch, major, minor
    out.write(uint8_t{2});
    out.write(uint8_t{13});
    out.write(uint16_t{0});      // mode: flat
    out.write(uint16_t{0});      // actions
    out.fill(16, std::byte{0});  // feature ROM's uuid
    out.write("", 64);           // platform
    out.write(xclbin.uuid);
    out.write("", 16);  // file with debug information
    out.write(static_cast<uint32_t>(xclbin.sections.size()));
    out.fill(4, std::byte{0});
    CHECK(out.size() == kHeaderBytes);

    uint64_t offset = kHeaderBytes + xclbin.sections.size() * kSectionHeaderBytes;
    for (const Xclbin::Section& section : xclbin.sections) {
        offset = align(offset);
        out.write(static_cast<uint32_t>(section.kind));
        out.write(section.name, kNameBytes);
        out.fill(4, std::byte{0});
        out.write(offset);
        out.write(uint64_t{section.data.size()});
        offset += section.data.size();
    }
    for (const Xclbin::Section& section : xclbin.sections) {
        out.fill(align(out.size()) - out.size(), std::byte{0});
        out.write(section.data);
    }
    return std::move(out).finish();
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

}  // namespace tandem::npu
