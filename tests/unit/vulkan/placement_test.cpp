#include "vulkan/placement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "graph/builder.h"

namespace tandem::vulkan {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::vector<WeightDemand> demands() {
    return {{.name = "embedding", .size_bytes = 4 * kMiB, .share = 0},
            {.name = "first", .size_bytes = 3 * kMiB},
            {.name = "second", .size_bytes = 3 * kMiB},
            {.name = "small", .size_bytes = kMiB}};
}

TEST(Placement, TakesTheDevicesOwnMemoryWhileThereIsSome) {
    EXPECT_TRUE(place_weights(demands(), {.device_bytes = 11 * kMiB, .host_bytes = 0}).value().empty());
    EXPECT_THAT(place_weights(demands(), {.device_bytes = 10 * kMiB, .host_bytes = 9 * kMiB}).value(),
                UnorderedElementsAre("embedding"))
        << "a table of which rows are read goes first";
    EXPECT_THAT(place_weights(demands(), {.device_bytes = 4 * kMiB, .host_bytes = 9 * kMiB}).value(),
                UnorderedElementsAre("embedding", "second"));
}

TEST(Placement, SaysWhatIsMissing) {
    const auto refused = place_weights(demands(), {.device_bytes = 4 * kMiB, .host_bytes = 5 * kMiB});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("weights of 11 MiB do not fit: 2 MiB are missing"));
}

class FakeSys {
  public:
    FakeSys() { std::filesystem::create_directories(path_); }
    ~FakeSys() { std::filesystem::remove_all(path_); }
    void put(const std::filesystem::path& file, uint64_t number) const {
        std::filesystem::create_directories((path_ / file).parent_path());
        std::ofstream(path_ / file) << number << "\n";
    }
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_ =
        std::filesystem::path(testing::TempDir()) / fmt::format("tandem-sys-{}", static_cast<int>(getpid()));
};

TEST(Placement, ReadsWhatTheKernelLendsTheGpu) {
    const FakeSys sys;
    EXPECT_FALSE(read_machine_memory(sys.path()));
    sys.put("class/drm/card0/device/mem_info_vram_total", 512 * kMiB);
    sys.put("class/drm/card0/device/mem_info_gtt_total", 16384 * kMiB);
    sys.put("module/ttm/parameters/pages_limit", 2048 * 1024);
    const auto memory = read_machine_memory(sys.path());
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->carve_out_bytes, 512 * kMiB);
    EXPECT_EQ(memory->gtt_bytes, 16384 * kMiB);
    EXPECT_EQ(memory->ttm_bytes, 8192 * kMiB);
    sys.put("class/drm/card1/device/mem_info_gtt_total", kMiB);
    EXPECT_FALSE(read_machine_memory(sys.path())) << "which of two is meant cannot be told";
}

TEST(Placement, NamesWhatLimitsAnIntegratedGpu) {
    const MachineMemory machine{
        .size_bytes = 32768 * kMiB, .carve_out_bytes = 512 * kMiB, .gtt_bytes = 16384 * kMiB, .ttm_bytes = 8192 * kMiB};
    const std::string enough = memory_remedy(machine, 1024 * kMiB);
    EXPECT_THAT(enough, HasSubstr("512 MiB that the firmware sets aside"));
    EXPECT_THAT(enough, HasSubstr("8192 MiB that the kernel lends"));
    EXPECT_THAT(enough, HasSubstr("ttm.pages_limit=2490368 and amdgpu.gttsize=9728"));
    EXPECT_THAT(memory_remedy(machine, 30000 * kMiB), HasSubstr("too little for this model"));
    const auto refused =
        place_weights(demands(), {.device_bytes = 4 * kMiB, .host_bytes = 5 * kMiB, .machine = machine});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("weights of 81 % of that size would fit"));
    EXPECT_THAT(refused.error().message, HasSubstr("ttm.pages_limit"));
}

TEST(Placement, KnowsATableThatIsAlsoTheOutput) {
    graph::Graph g;
    const graph::Tensor tied = g.weight("tied", graph::matrix_type(DType::f16, graph::Dim::of(8), 4));
    const graph::Tensor table = g.weight("table", graph::matrix_type(DType::f16, graph::Dim::of(8), 4));
    const graph::Tensor x = g.embed(tied, g.tokens());
    g.result("logits", g.linear(tied, g.add(x, g.embed(table, g.tokens()))));
    const std::vector<WeightDemand> found = weight_demands(std::move(g).finish());
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].name, "tied");
    EXPECT_EQ(found[0].size_bytes, 64U);
    EXPECT_EQ(found[0].share, 1);
    EXPECT_EQ(found[1].share, 0);
}

TEST(Placement, KeepsWhatEveryTokenReadsBeforeExperts) {
    const auto experts_of = [](int64_t count) {
        return graph::TensorType{DType::f16, {graph::Dim::of(count), graph::Dim::of(8), graph::Dim::of(8)}};
    };
    graph::Graph g;
    const graph::Tensor x =
        g.embed(g.weight("table", graph::matrix_type(DType::f16, graph::Dim::of(8), 8)), g.tokens());
    const graph::Tensor routing = g.route(x, {.used = 2});
    const graph::Tensor y = g.expert_linear({.weight = g.weight("experts", experts_of(8)), .count = 8}, x, routing);
    const graph::Tensor sum = g.expert_sum(y, routing);
    g.result("logits", g.linear(g.weight("output", graph::matrix_type(DType::f16, graph::Dim::of(64), 8)), sum));
    const std::vector<WeightDemand> found = weight_demands(std::move(g).finish());
    ASSERT_EQ(found.size(), 3U);
    EXPECT_EQ(found[1].name, "experts");
    EXPECT_EQ(found[1].share, 0.25);
    EXPECT_THAT(place_weights(found, {.device_bytes = 1024, .host_bytes = 4096}).value(),
                UnorderedElementsAre("table", "experts"));
}

}  // namespace
}  // namespace tandem::vulkan
