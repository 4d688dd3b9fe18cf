#include "vulkan/rates.h"

#include <algorithm>
#include <chrono>

#include "vulkan/memory.h"
#include "vulkan/queue.h"
#include "vulkan/recorder.h"

namespace tandem::vulkan {

namespace {

constexpr size_t kMostBuffers = 6;
constexpr uint64_t kBufferBytes = uint64_t{1} << 30;
constexpr uint64_t kTileBytes = uint64_t{256} * 4 * 16;  // as in kernels/read_rate.comp

struct ReadParams {
    VkDeviceAddress buffers[kMostBuffers];
    VkDeviceAddress sum;
    uint32_t tiles;
    uint32_t tiles_per_buffer;
};

// How much is read: more than any cache holds, and small on a device that is software.
struct ReadPlan {
    uint64_t buffer_bytes = 0;
    size_t buffers = 0;
    int passes = 0;  // in one submission, so that its own cost does not count
};

ReadPlan plan_for(const Device& device) {
    if (device.info().software()) return {.buffer_bytes = uint64_t{64} << 20, .buffers = 1, .passes = 1};
    uint64_t free_bytes = 0;
    for (const HeapBudget& heap : heap_budgets(device)) {
        if (heap.device_local) free_bytes = std::max(free_bytes, heap.free_bytes);
    }
    const uint64_t buffer = std::min({kBufferBytes, device.capabilities().max_allocation_bytes, free_bytes / 4});
    return {.buffer_bytes = buffer / kTileBytes * kTileBytes,
            .buffers = std::clamp<size_t>(free_bytes / 2 / std::max<uint64_t>(buffer, 1), 1, 4),
            .passes = 16};
}

// Seconds of one submission of `dispatch`, `passes` times; the first run is not counted.
Result<double> best_seconds(Queue& queue, PipelineCache& pipelines, const Dispatch& dispatch, int passes) {
    constexpr int kRuns = 4;
    VkCommandBuffer commands = TRY(queue.allocate());
    TRY(Queue::begin(commands));
    Recorder recorder(pipelines, commands);
    for (int pass = 0; pass < passes; ++pass) TRY(recorder.dispatch(dispatch));
    recorder.finish();
    TRY(Queue::end(commands));
    double best = 1e9;
    for (int run = 0; run < kRuns; ++run) {
        const auto begin = std::chrono::steady_clock::now();
        const uint64_t done = TRY(queue.submit(commands));
        TRY(queue.wait(done));
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
        if (run > 0) best = std::min(best, time.count());
    }
    queue.free(commands);
    return best;
}

Result<double> read_rate(Queue& queue, PipelineCache& pipelines) {
    const ReadPlan plan = plan_for(*queue.device());
    Arena arena(queue.device(), MemoryKind::device, plan.buffer_bytes);
    Arena sums(queue.device(), MemoryKind::device, Arena::kAlignment);
    const Buffer sum = TRY(sums.allocate(sizeof(uint32_t)));
    std::vector<Buffer> buffers;
    ReadParams params{};
    for (size_t i = 0; i < plan.buffers; ++i) {
        buffers.push_back(TRY(arena.allocate(plan.buffer_bytes)));
        params.buffers[i] = buffers.back().address;
    }
    TRY(queue.fill(buffers, 0x01020304));  // so that no page of them is one that was never written
    params.sum = sum.address;
    params.tiles_per_buffer = static_cast<uint32_t>(plan.buffer_bytes / kTileBytes);
    params.tiles = params.tiles_per_buffer * static_cast<uint32_t>(plan.buffers);
    const double bytes = static_cast<double>(plan.buffer_bytes) * static_cast<double>(plan.buffers) * plan.passes;
    double best = 0;
    for (uint32_t groups : {264U, 528U, 1056U, 2112U}) {
        const Dispatch dispatch{.pipeline = {.kernel = "read_rate", .constants = {}},
                                .push = params,
                                .reads = {},
                                .writes = {whole(sum)},
                                .groups = {std::min(groups, params.tiles), 1, 1}};
        best = std::max(best, bytes / TRY(best_seconds(queue, pipelines, dispatch, plan.passes)));
    }
    return best;
}

struct MatrixParams {
    VkDeviceAddress y;
    uint32_t iterations;
};

Result<double> matrix_rate(Queue& queue, PipelineCache& pipelines) {
    constexpr uint32_t kWarps = 8;         // of a workgroup; at least 2, as in kernels/matrix_rate.comp
    constexpr uint32_t kProducts = 4 * 2;  // of an iteration, as there
    constexpr uint32_t kSize = 16;
    constexpr uint32_t kIterations = 1024;
    constexpr int kPasses = 8;
    const Capabilities& capabilities = queue.device()->capabilities();
    const uint32_t warp = std::clamp(32U, capabilities.min_subgroup, capabilities.max_subgroup);
    Arena arena(queue.device(), MemoryKind::device, Arena::kAlignment);
    const Buffer y = TRY(arena.allocate(sizeof(uint32_t)));
    double best = 0;
    for (uint32_t groups : {264U, 528U, 1056U}) {
        const Dispatch dispatch{.pipeline = {.kernel = "matrix_rate.khr",
                                             .constants = {kWarps * warp, warp, kSize, kSize, kSize},
                                             .subgroup = warp},
                                .push = MatrixParams{y.address, kIterations},
                                .reads = {},
                                .writes = {whole(y)},
                                .groups = {groups, 1, 1}};
        const double flops = 2.0 * kSize * kSize * kSize * kProducts * kIterations * kWarps * groups * kPasses;
        best = std::max(best, flops / TRY(best_seconds(queue, pipelines, dispatch, kPasses)));
    }
    return best;
}

}  // namespace

Result<device::Rates> measure_rates(const std::string& device) {
    const std::shared_ptr<Device> opened = TRY(Device::open(device));
    const std::unique_ptr<Queue> queue = TRY(Queue::create(opened));
    const std::unique_ptr<PipelineCache> pipelines = TRY(PipelineCache::open(opened, {}));
    device::Rates rates{.read_bytes_per_s = TRY(read_rate(*queue, *pipelines))};
    if (opened->capabilities().cooperative_matrix) rates.matrix_flops_per_s = TRY(matrix_rate(*queue, *pipelines));
    return rates;
}

}  // namespace tandem::vulkan
