#include "vulkan/weights.h"

#include <fstream>

#include "unit/vulkan/gpu.h"

namespace tandem::vulkan {
namespace {

// Weights are not mapped: a kernel brings their first plane back.
std::vector<float> floats_at(VkDeviceAddress address, uint32_t count) {
    const Buffer zero = gpu().buffer(count * sizeof(float));
    const Buffer y = gpu().buffer(count * sizeof(float));
    gpu().run([&](Recorder& recorder) {
        return recorder.dispatch(
            kernels::Add{.params = {.a = address, .b = zero.address, .y = y.address, .count = count}},
            {.reads = {whole(zero)},
             .writes = {whole(y)},
             .groups = {divide_up(count, kernels::Add::workgroup_size()), 1, 1}});
    });
    return gpu().read<float>(y);
}

graph::WeightView view_of(const std::vector<float>& values, std::vector<int64_t> shape) {
    return {DType::f32, std::move(shape), std::as_bytes(std::span(values))};
}

TEST(WeightStore, LaysTheRowsOfMergedMatricesOneAfterAnother) {
    const std::vector<float> q{1, 2, 3, 4, 5, 6, 7, 8};
    const std::vector<float> k{9, 10, 11, 12};
    const graph::WeightView q_view = view_of(q, {2, 4});
    const graph::WeightView k_view = view_of(k, {1, 4});
    WeightStore store(gpu().device(), gpu().queue());
    const std::vector<NamedWeight> parts{{"q", &q_view}, {"k", &k_view}};
    const DeviceWeight merged = store.get(parts).value();
    ASSERT_TRUE(store.finish());
    EXPECT_EQ(floats_at(merged.planes[0], 12), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
    EXPECT_EQ(store.get(parts).value().planes, merged.planes);
    EXPECT_EQ(store.get("k", k_view).value().planes[0], merged.planes[0] + 8 * sizeof(float)) << "not a second copy";
}

TEST(WeightStore, MergesVectorsOfAnyLength) {
    const std::vector<float> a{1, 2, 3};
    const std::vector<float> b{4, 5};
    const graph::WeightView a_view = view_of(a, {3});
    const graph::WeightView b_view = view_of(b, {2});
    WeightStore store(gpu().device(), gpu().queue());
    const DeviceWeight merged = store.get(std::vector<NamedWeight>{{"a", &a_view}, {"b", &b_view}}).value();
    ASSERT_TRUE(store.finish());
    EXPECT_EQ(floats_at(merged.planes[0], 5), (std::vector<float>{1, 2, 3, 4, 5}));
    const DeviceWeight alone = store.get("b", b_view).value();
    ASSERT_TRUE(store.finish());
    EXPECT_EQ(alone.planes[0] % 16, 0U) << "a part that kernels could not read where it lies is a copy";
    EXPECT_EQ(floats_at(alone.planes[0], 2), (std::vector<float>{4, 5}));
}

TEST(WeightStore, PutsEachPlaneOfAMergedMatrixOneAfterAnother) {
    constexpr int64_t kRows = 16;
    constexpr int64_t kCols = 256;
    const std::vector<std::byte> blocks(kRows * row_bytes(DType::q6_k, kCols), std::byte{1});
    const graph::WeightView view{DType::q6_k, {kRows, kCols}, blocks};
    WeightStore store(gpu().device(), gpu().queue());
    const DeviceWeight merged = store.get(std::vector<NamedWeight>{{"gate", &view}, {"up", &view}}).value();
    const DeviceWeight up = store.get("up", view).value();
    const auto bytes = plane_bytes(DType::q6_k, kRows * kCols);
    for (size_t plane = 0; plane < Planes::count; ++plane)
        EXPECT_EQ(up.planes[plane], merged.planes[plane] + bytes[plane]);
}

uint64_t taken_bytes() {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < gpu().device()->memory().memoryHeapCount; ++i) bytes += gpu().device()->allocated_bytes(i);
    return bytes;
}

// Of this process, in KiB, without the pages of files.
uint64_t own_kib() {
    uint64_t kib = 0;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        for (const std::string_view name : {"RssAnon:", "RssShmem:"}) {
            if (line.starts_with(name)) kib += std::stoull(line.substr(name.size()));
        }
    }
    return kib;
}

// The device of these tests shares the machine's memory, as an integrated GPU does.
TEST(WeightStore, FillsTheMemoryThatAGpuSharesOnceAndKeepsNoSecondCopy) {
    ASSERT_EQ(weight_memory(*gpu().device()), MemoryKind::unified);
    constexpr int64_t kRows = 4096;
    constexpr int64_t kCols = 8192;
    const std::vector<std::byte> blocks(kRows * row_bytes(DType::q8_0, kCols), std::byte{1});
    const graph::WeightView view{DType::q8_0, {kRows, kCols}, blocks};
    const uint64_t kib = own_kib();
    const uint64_t taken = taken_bytes();
    WeightStore store(gpu().device(), gpu().queue());
    ASSERT_TRUE(store.get("w", view));
    EXPECT_EQ(taken_bytes() - taken, store.size_bytes()) << "there is staging memory";
    EXPECT_LT(own_kib() - kib, (blocks.size() >> 10) * 5 / 4) << "the weights are there once, not twice";
    ASSERT_TRUE(store.finish());
}

TEST(Uploader, BringsTensorsThatAreLargerThanAllItsStaging) {
    std::vector<float> values(100'000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    const graph::WeightView view = view_of(values, {100, 1000});
    Arena arena(gpu().device(), MemoryKind::device, uint64_t{1} << 20);
    const PlanePlace place{.buffer = arena.allocate(2 * values.size() * sizeof(float)).value()};
    Uploader uploader(gpu().queue(), uint64_t{16} << 10);
    ASSERT_TRUE(uploader.put(view, place, 0, false));
    ASSERT_TRUE(uploader.put(view, place, 100'000, false));
    ASSERT_TRUE(uploader.finish());
    EXPECT_EQ(floats_at(place.buffer.address, 100'000), values);
    EXPECT_EQ(floats_at(place.buffer.address + values.size() * sizeof(float), 100'000), values);
    ASSERT_TRUE(uploader.put(view, place, 0, false)) << "it can be used again";
    ASSERT_TRUE(uploader.finish());
}

}  // namespace
}  // namespace tandem::vulkan
