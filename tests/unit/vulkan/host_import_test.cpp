#include "vulkan/host_import.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "device/host_memory.h"
#include "unit/vulkan/gpu.h"
#include "vulkan/cache.h"

namespace tandem::vulkan {
namespace {

using testing::HasSubstr;

std::shared_ptr<device::HostBuffer> pages(uint64_t size_bytes) {
    return std::make_shared<device::HostBuffer>(device::HostBuffer::allocate(size_bytes, "a test", "none").value());
}

std::span<uint32_t> words(const device::HostBuffer& memory) {
    return {reinterpret_cast<uint32_t*>(memory.data()), memory.bytes().size() / sizeof(uint32_t)};
}

TEST(HostImport, IsTheSameMemoryForTheHostAndTheDevice) {
    const auto from = pages(8192), to = pages(12288);
    const auto imported_from = HostImport::create(gpu().device(), from->pages(), from);
    ASSERT_TRUE(imported_from) << imported_from.error().message;
    const auto imported_to = HostImport::create(gpu().device(), to->pages(), to).value();
    EXPECT_EQ((*imported_from)->buffer().mapped, from->data()) << "no copy, but the address itself";

    std::fill(words(*to).begin(), words(*to).end(), 7U);
    for (uint32_t round : {1U, 2U}) {  // what the host writes later is seen later
        std::fill(words(*from).begin(), words(*from).end(), 100 * round);
        words(*from)[2047] = round;
        gpu().run([&](Recorder& recorder) -> Status {
            recorder.copy((*imported_from)->buffer(), imported_to->buffer(), 8192);
            return Ok{};
        });
        EXPECT_EQ(words(*to)[0], 100 * round);
        EXPECT_EQ(words(*to)[2047], round);
        EXPECT_EQ(words(*to)[2048], 7U) << "nothing else is written";
    }
}

TEST(HostImport, KeepsTheMemoryAsLongAsTheDeviceMayUseIt) {
    auto memory = pages(4096);
    const std::weak_ptr<device::HostBuffer> watched = memory;
    auto imported = HostImport::create(gpu().device(), memory->pages(), memory).value();
    memory.reset();
    EXPECT_FALSE(watched.expired());
    ASSERT_TRUE(gpu().queue().fill(std::vector<Buffer>{imported->buffer()}, 9));
    EXPECT_EQ(words(*watched.lock())[1023], 9U);
    imported.reset();
    EXPECT_TRUE(watched.expired());
}

TEST(HostImport, RefusesWhatIsNotWholePages) {
    const auto memory = pages(8192);
    const auto refusal = [&](std::span<std::byte> part) {
        const auto refused = HostImport::create(gpu().device(), part);
        return refused ? std::string("no error") : refused.error().message;
    };
    EXPECT_THAT(refusal(memory->pages().subspan(64)), HasSubstr("in pages of 4096 bytes, not 8128 bytes"));
    EXPECT_THAT(refusal(memory->pages().first(100)), HasSubstr("not 100 bytes"));
    EXPECT_THAT(refusal({}), HasSubstr("not 0 bytes"));
}

TEST(DeviceCache, HasHostMemoryOnlyWhenItIsShared) {
    device::CacheShape shape{.layers = {{.kv_heads = 2, .head_dim = 32, .window = 0, .group = 0}}, .blocks = {3}};
    const auto own = DeviceCache::create(gpu().queue(), shape).value();
    EXPECT_TRUE(own->host_keys(0).empty());
    EXPECT_TRUE(own->host_values(0).empty());
    shape.shared = true;
    const auto shared = DeviceCache::create(gpu().queue(), shape).value();
    EXPECT_EQ(shared->host_keys(0).data(), shared->layer(0).keys.mapped);
    EXPECT_EQ(shared->host_values(0).data(), shared->layer(0).values.mapped);
    EXPECT_EQ(shared->host_keys(0).size(), 12288U) << "3 blocks of 32 tokens of 2 heads of 32 f16";
}

}  // namespace
}  // namespace tandem::vulkan
