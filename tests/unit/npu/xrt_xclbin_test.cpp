#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "npu/xrt/xclbin.h"
#include "unit/npu/make_xclbin.h"

namespace tandem::npu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> bytes(std::string_view text) {
    const auto raw = std::as_bytes(std::span(text));
    return {raw.begin(), raw.end()};
}

template <typename T>
void store(std::vector<std::byte>& file, size_t offset, T value) {
    ASSERT_LE(offset + sizeof(T), file.size());
    std::memcpy(file.data() + offset, &value, sizeof(T));
}

// Offsets of the format, as XRT's own header has them.
constexpr size_t kLengthAt = 304, kSectionCountAt = 448, kFirstSection = 456, kOffsetAt = 24, kSizeAt = 32;

TEST(Xclbin, IsReadAsItWasWritten) {
    Xclbin written;
    written.uuid[3] = std::byte{0x5a};
    written.sections = {{kMemoryTopology, "array", bytes("twelve bytes")},
                        {kMetadata, "", {}},
                        {static_cast<SectionKind>(99), "fifteen letters", bytes("x")}};
    const std::vector<std::byte> file = write_xclbin(written);
    EXPECT_EQ(file.size(), 456U + 3 * 40 + 16 + 1);
    const Result<Xclbin> read = read_xclbin(file, "test.xclbin");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->uuid, written.uuid);
    ASSERT_EQ(read->sections.size(), 3U);
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(read->sections[i].kind, written.sections[i].kind);
        EXPECT_EQ(read->sections[i].name, written.sections[i].name);
        EXPECT_EQ(read->sections[i].data, written.sections[i].data);
    }
    EXPECT_EQ(read->find(kMemoryTopology), read->sections.data());
    EXPECT_EQ(read->find(kConnectivity), nullptr);
}

TEST(Xclbin, NamesItsKernels) {
    EXPECT_THAT(kernel_names(describe_kernel(3, "gemm")).value(), ElementsAre("gemm"));
}

TEST(Xclbin, RefusesFilesThatLieAboutThemselves) {
    const std::vector<std::byte> good = write_xclbin(describe_kernel(2));
    const auto error = [](std::vector<std::byte> file) {
        const Result<Xclbin> read = read_xclbin(file, "bad.xclbin");
        return read ? std::string("no error") : read.error().message;
    };
    EXPECT_THAT(error({}), HasSubstr("bad.xclbin: not an xclbin file"));
    EXPECT_THAT(error(bytes("xclbin0")), HasSubstr("not an xclbin file"));
    EXPECT_THAT(error({good.begin(), good.begin() + 100}), HasSubstr("only"));
    EXPECT_THAT(error({good.begin(), good.end() - 1}), HasSubstr("says it has"));

    std::vector<std::byte> bad = good;
    store(bad, kLengthAt, UINT64_MAX);
    EXPECT_THAT(error(bad), HasSubstr("says it has 18446744073709551615 bytes"));
    bad = good;
    store(bad, kSectionCountAt, UINT32_MAX);
    EXPECT_THAT(error(bad), HasSubstr("says it has 4294967295 sections"));
    bad = good;
    store(bad, kFirstSection + kOffsetAt, uint64_t{good.size() + 1});
    EXPECT_THAT(error(bad), HasSubstr("section 0"));
    bad = good;
    store(bad, kFirstSection + kSizeAt, UINT64_MAX - 8);
    EXPECT_THAT(error(bad), HasSubstr("is not within the file"));
    bad = good;  // every section is nearly the whole file
    for (size_t i = 0; i < 6; ++i) {
        store(bad, kFirstSection + 40 * i + kOffsetAt, uint64_t{8});
        store(bad, kFirstSection + 40 * i + kSizeAt, uint64_t{good.size() - 8});
    }
    EXPECT_THAT(error(bad), HasSubstr("section 1"));
}

TEST(Xclbin, SurvivesEveryCutAndEveryChangedByte) {
    const std::vector<std::byte> good = write_xclbin(describe_kernel(2));
    for (size_t length = 0; length < good.size(); ++length)
        EXPECT_FALSE(read_xclbin(std::span(good).first(length), "cut.xclbin"));
    for (size_t i = 0; i < good.size(); ++i) {
        std::vector<std::byte> changed = good;
        changed[i] ^= std::byte{0xff};
        const Result<Xclbin> read = read_xclbin(changed, "changed.xclbin");
        if (read) static_cast<void>(kernel_names(*read));
    }
}

TEST(Xclbin, RefusesALayoutThatIsTooShortForItsInstances) {
    Xclbin xclbin = describe_kernel(1);
    EXPECT_THAT(kernel_names(Xclbin{}).error().message, HasSubstr("no IP_LAYOUT"));
    for (Xclbin::Section& section : xclbin.sections) {
        if (section.kind == SectionKind::ip_layout) store(section.data, 0, int32_t{2});
    }
    EXPECT_THAT(kernel_names(xclbin).error().message, HasSubstr("IP_LAYOUT of 88 bytes says it has 2 instances"));
}

}  // namespace
}  // namespace tandem::npu
