#include "vulkan/rates.h"

#include <algorithm>
#include <chrono>

#include "device/host_memory.h"
#include "vulkan/kernels/contracts.h"
#include "vulkan/memory.h"
#include "vulkan/queue.h"
#include "vulkan/recorder.h"
#include "vulkan/shared_gpu.h"
#include "vulkan/weights.h"

namespace tandem::vulkan {

namespace {

constexpr uint64_t kBufferBytes = uint64_t{1} << 30;
constexpr uint64_t kTileBytes = uint64_t{kernels::ReadRate::workgroup_size()} * 4 * 16;  // as in its kernel

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

// Seconds of one submission of `call`, `passes` times; the first run is not counted.
Result<double> best_seconds(Queue& queue, PipelineCache& pipelines, const KernelCall& call, const Dispatch& dispatch,
                            int passes) {
    constexpr int kRuns = 4;
    VkCommandBuffer commands = TRY(queue.allocate());
    TRY(Queue::begin(commands));
    Recorder recorder(pipelines, commands);
    for (int pass = 0; pass < passes; ++pass) TRY(recorder.dispatch(call, dispatch));
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
    decltype(kernels::ReadRate::Params::buffers)::Type addresses{};
    for (size_t i = 0; i < plan.buffers; ++i) {
        buffers.push_back(TRY(arena.allocate(plan.buffer_bytes)));
        addresses[i] = buffers.back().address;
    }
    TRY(queue.fill(buffers, 0x01020304));  // so that no page of them is one that was never written
    const auto tiles_per_buffer = static_cast<uint32_t>(plan.buffer_bytes / kTileBytes);
    const uint32_t tiles = tiles_per_buffer * static_cast<uint32_t>(plan.buffers);
    const kernels::ReadRate call{
        .params = {.buffers = addresses, .sum = sum.address, .tiles = tiles, .tiles_per_buffer = tiles_per_buffer}};
    const double bytes = static_cast<double>(plan.buffer_bytes) * static_cast<double>(plan.buffers) * plan.passes;
    double best = 0;
    for (uint32_t groups : {264U, 528U, 1056U, 2112U}) {
        const Dispatch dispatch{.writes = {whole(sum)}, .groups = {std::min(groups, tiles), 1, 1}};
        best = std::max(best, bytes / TRY(best_seconds(queue, pipelines, call, dispatch, plan.passes)));
    }
    return best;
}

Result<double> matrix_rate(Queue& queue, PipelineCache& pipelines) {
    constexpr uint32_t kWarps = 8;         // of a workgroup; at least 2, as in kernels/matrix_rate.comp
    constexpr uint32_t kProducts = 4 * 2;  // of an iteration, as there
    constexpr uint32_t kIterations = 1024;
    constexpr int kPasses = 8;
    const Capabilities& capabilities = queue.device()->capabilities();
    const MatrixShape& size = capabilities.fragment;
    const uint32_t warp = std::clamp(32U, capabilities.min_subgroup, capabilities.max_subgroup);
    Arena arena(queue.device(), MemoryKind::device, Arena::kAlignment);
    const Buffer y = TRY(arena.allocate(sizeof(uint32_t)));
    const kernels::MatrixRate call{.constants = {.lanes = kWarps * warp,
                                                 .subgroup = warp,
                                                 .fragment_cols = size.cols,
                                                 .fragment_rows = size.rows,
                                                 .fragment_depth = size.depth},
                                   .params = {.y = y.address, .iterations = kIterations}};
    double best = 0;
    for (uint32_t groups : {264U, 528U, 1056U}) {
        const Dispatch dispatch{.writes = {whole(y)}, .groups = {groups, 1, 1}, .subgroup = warp};
        const double flops =
            2.0 * size.cols * size.rows * size.depth * kProducts * kIterations * kWarps * groups * kPasses;
        best = std::max(best, flops / TRY(best_seconds(queue, pipelines, call, dispatch, kPasses)));
    }
    return best;
}

}  // namespace

Result<device::Rates> measure_rates(SharedGpu& gpu) {
    const std::shared_ptr<OpenedGpu> opened = TRY(gpu.opened());
    const std::unique_ptr<Queue> queue = TRY(Queue::create(opened->device));
    device::Rates rates{.read_bytes_per_s = TRY(read_rate(*queue, *opened->pipelines))};
    if (gpu.info().software()) rates.cache_bytes = static_cast<double>(device::host_cache_bytes());
    if (gpu.info().capabilities.cooperative_matrix && !gpu.info().software())
        rates.matrix_flops_per_s = TRY(matrix_rate(*queue, *opened->pipelines));
    return rates;
}

Result<double> measure_upload(SharedGpu& gpu, DType type) {
    constexpr int kCols = 4096;
    constexpr int kRuns = 3;  // the first makes the staging memory's pages present
    const std::shared_ptr<OpenedGpu> opened = TRY(gpu.opened());
    const std::unique_ptr<Queue> queue = TRY(Queue::create(opened->device));
    const int rows = gpu.info().software() ? 1 << 14 : 1 << 16;
    const std::vector<std::byte> bytes(row_bytes(type, kCols) * static_cast<size_t>(rows), std::byte{1});
    const graph::WeightView matrix{.dtype = type, .shape = {rows, kCols}, .data = bytes};
    double best = 0;
    for (int run = 0; run < kRuns; ++run) {
        WeightStore store(opened->device, *queue);
        const auto begin = std::chrono::steady_clock::now();
        TRY(store.get("matrix", matrix));
        TRY(store.finish());
        const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
        best = std::max(best, static_cast<double>(bytes.size()) / time.count());
    }
    return best;
}

}  // namespace tandem::vulkan
