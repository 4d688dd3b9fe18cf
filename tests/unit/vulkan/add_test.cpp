#include "unit/vulkan/gpu.h"

namespace tandem::vulkan {
namespace {

TEST(Recorder, OrdersADispatchAfterTheOneThatMakesItsInput) {
    const Buffer a = gpu().upload(std::vector<float>{1, 2, 3, 4});
    const Buffer sum = gpu().buffer(16);
    const Buffer twice = gpu().buffer(16);
    gpu().run([&](Recorder& recorder) -> Status {
        for (const auto& [from, to] : {std::pair{a, sum}, std::pair{sum, twice}}) {
            TRY(recorder.dispatch(
                kernels::Add{.params = {.a = from.address, .b = from.address, .y = to.address, .count = 4}},
                {.reads = {whole(from)}, .writes = {whole(to)}}));
        }
        EXPECT_EQ(recorder.barriers(), 1);
        return Ok{};
    });
    EXPECT_EQ(gpu().read<float>(twice), (std::vector<float>{4, 8, 12, 16}));
}

}  // namespace
}  // namespace tandem::vulkan
