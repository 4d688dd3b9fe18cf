#include "device/host_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::device {
namespace {

TEST(HostMemory, IsReadFromTheSystem) {
    const HostMemory memory = host_memory();
    EXPECT_GT(memory.available_bytes, 0U);
    EXPECT_GE(memory.size_bytes, memory.available_bytes);
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
