#include "device/host_memory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tandem::device {
namespace {

TEST(HostMemory, IsReadFromTheSystem) {
    const HostMemory memory = host_memory();
    EXPECT_GT(memory.available_bytes, 0U);
    EXPECT_GE(memory.size_bytes, memory.available_bytes);
}

// Two dies with a cache of the third level each, and smaller ones that are not counted.
TEST(HostCache, IsWhatAllProcessorsHaveTogetherAtTheLastLevel) {
    const std::filesystem::path root = std::filesystem::path(testing::TempDir()) / "tandem_caches";
    std::filesystem::remove_all(root);
    const auto add = [&](int processor, int index, const std::string& level, const std::string& size,
                         const std::string& shared) {
        const auto folder = root / fmt::format("cpu{}/cache/index{}", processor, index);
        std::filesystem::create_directories(folder);
        std::ofstream(folder / "level") << level << "\n";
        std::ofstream(folder / "size") << size << "\n";
        std::ofstream(folder / "shared_cpu_list") << shared << "\n";
    };
    for (int processor = 0; processor < 4; ++processor) {
        add(processor, 0, "1", "32K", std::to_string(processor));
        add(processor, 3, "3", "16384K", processor < 2 ? "0-1" : "2-3");
        add(processor, 2, "2", "1024K", std::to_string(processor));
    }
    std::filesystem::create_directories(root / "cpufreq");
    EXPECT_EQ(host_cache_bytes(root), uint64_t{32} << 20);
    std::filesystem::remove_all(root);
    EXPECT_EQ(host_cache_bytes(root), 0U);
}

TEST(HostBuffer, IsOfWholePages) {
    const HostBuffer buffer = HostBuffer::allocate(5000, "a test", "none").value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % HostBuffer::kPageBytes, 0U);
    EXPECT_EQ(buffer.bytes().size(), 5000U);
    EXPECT_EQ(buffer.pages().size(), 8192U);
    EXPECT_EQ(HostBuffer::allocate(0, "a test", "none").value().pages().size(), 0U);
}

TEST(HostBuffer, IsRefusedRatherThanOvercommitted) {
    const auto refused = HostBuffer::allocate(uint64_t{1} << 60, "a test", "choose less");
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, testing::HasSubstr("a test needs"));
    EXPECT_THAT(refused.error().message, testing::HasSubstr("choose less"));
    EXPECT_FALSE(HostBuffer::allocate(UINT64_MAX, "a test", "choose less"));
}

}  // namespace
}  // namespace tandem::device
