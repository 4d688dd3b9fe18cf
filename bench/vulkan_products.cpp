// bench_vulkan_products: which sizes the products of few rows run fastest with on this GPU, on the shapes of Gemma 3
// 27B: one row by kernels/gemv, more by kernels/stream. Each product waits for the one before it, in a chain as the
// steps of a model do, and reads other weights than it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

#include "vulkan/activations.h"
#include "vulkan/kernels/gemv.h"
#include "vulkan/kernels/stream.h"
#include "vulkan/queue.h"
#include "vulkan/timestamps.h"

namespace tandem::vulkan {
namespace {

struct Shape {
    const char* name;
    DType dtype;
    uint32_t outputs;  // rows of the matrix
    uint32_t inputs;
    bool glu = false;
};

// One way to make a product.
struct Candidate {
    std::string name;
    GemvTuning gemv;
    StreamTuning stream;
    double seconds = 1e30;
};

constexpr int kPasses = 3;
constexpr std::chrono::milliseconds kWakingTime{500};  // until its clocks are up
constexpr size_t kShown = 5;

std::vector<Candidate> gemv_candidates(const Shape& shape) {
    std::vector<Candidate> all;
    const uint32_t blocks = shape.inputs / 32;
    for (uint32_t lanes : {128U, 256U, 512U}) {
        for (uint32_t per_row : {4U, 8U, 16U, 32U}) {
            for (uint32_t rows : {1U, 2U, 4U}) {
                for (uint32_t unroll : {2U, 3U, 4U, 6U, 7U, 8U}) {
                    for (uint32_t groups : {264U, 528U, 1056U}) {
                        for (uint32_t staged : {1U, 0U}) {
                            const bool fits = lanes / per_row * rows % 32 == 0 || !shape.glu;
                            const bool registers = rows * unroll * (shape.glu ? 2 : 1) <= 12;
                            const bool whole = blocks % (per_row * unroll) == 0 || unroll == 4;
                            if (!fits || !registers || !whole || lanes * groups > 132 * 2048) continue;
                            all.push_back(
                                {.name = fmt::format("{:3} lanes, {:2} a row, {} rows, unroll {}, {:4} groups{}", lanes,
                                                     per_row, rows, unroll, groups, staged != 0 ? ", staged" : ""),
                                 .gemv = {.lanes = lanes,
                                          .lanes_per_row = per_row,
                                          .rows = rows,
                                          .unroll = unroll,
                                          .groups = groups,
                                          .staged = staged},
                                 .stream = {}});
                        }
                    }
                }
            }
        }
    }
    return all;
}

std::vector<Candidate> stream_candidates(const Shape& shape, uint32_t rows) {
    std::vector<Candidate> all;
    const uint32_t tiles = (rows + tile_rows(rows) - 1) / tile_rows(rows);
    for (uint32_t row_tiles : {1U, 2U, 4U}) {
        for (uint32_t col_tiles : {2U, 4U}) {
            for (uint32_t depth_warps : {1U, 2U, 4U, 8U}) {
                for (uint32_t col_warps : {1U, 2U, 4U, 8U}) {
                    for (uint32_t groups : {264U, 528U, 1056U}) {
                        const uint32_t warps = depth_warps * col_warps;
                        const uint32_t lane_sums = col_tiles * row_tiles * tile_rows(rows) / 2;
                        const uint32_t shared_bytes = (depth_warps - 1) * col_warps * lane_sums * 128;
                        if (row_tiles > tiles || (tiles <= 2 && row_tiles != tiles)) continue;
                        if (warps > 16 || warps < 2 || shared_bytes > 48 << 10 || lane_sums > 64) continue;
                        if (rows > 64 && (depth_warps > 1 || groups != 264)) continue;
                        if (shape.glu && groups != 264) continue;  // never split
                        all.push_back({.name = fmt::format("{} x 16 outputs, {} row tiles, {} x {} warps, {:4} groups",
                                                           col_tiles, row_tiles, col_warps, depth_warps, groups),
                                       .gemv = {},
                                       .stream = {.col_tiles = col_tiles,
                                                  .row_tiles = row_tiles,
                                                  .warps = warps,
                                                  .depth_warps = depth_warps,
                                                  .groups = groups}});
                    }
                }
            }
        }
    }
    return all;
}

class Bench {
  public:
    static Result<std::unique_ptr<Bench>> open(const std::string& selector, bool quick) {
        std::unique_ptr<Bench> bench(new Bench);
        bench->quick_ = quick;
        bench->device_ = TRY(Device::open(selector));
        bench->queue_ = TRY(Queue::create(bench->device_));
        bench->pipelines_ = TRY(PipelineCache::open(bench->device_, {}));
        bench->times_ = TRY(Timestamps::create(bench->device_, 4096));
        return bench;
    }

    const DeviceInfo& info() const { return device_->info(); }

    Status sweep(const Shape& shape, uint32_t rows) {
        Arena arena(device_, MemoryKind::device);
        TRY(make_data(arena, shape, rows));
        std::vector<Candidate> candidates = rows == 1 ? gemv_candidates(shape) : stream_candidates(shape, rows);
        if (quick_) candidates.resize(2);
        // All are recorded first: while pipelines are compiled the GPU falls asleep, and wakes up slowly.
        std::vector<VkCommandBuffer> recorded;
        for (const Candidate& candidate : candidates) {
            const auto index = static_cast<uint32_t>(recorded.size());
            recorded.push_back(TRY(record(shape, rows, candidate, index)));
        }
        const auto begin = std::chrono::steady_clock::now();
        for (int pass = 0; pass < kPasses; ++pass) {
            uint64_t done = 0;
            for (VkCommandBuffer commands : recorded) done = TRY(queue_->submit(commands));
            TRY(queue_->wait(done));
            const std::vector<double> at = TRY(times_->read(2 * static_cast<uint32_t>(recorded.size())));
            for (size_t i = 0; i < candidates.size(); ++i) {
                const double seconds = (at[2 * i + 1] - at[2 * i]) * 1e-9 / static_cast<double>(copies_.size());
                candidates[i].seconds = std::min(candidates[i].seconds, seconds);
            }
            if (std::chrono::steady_clock::now() - begin < kWakingTime && !quick_) --pass;
        }
        for (VkCommandBuffer commands : recorded) queue_->free(commands);
        report(shape, rows, std::move(candidates));
        return Ok{};
    }

  private:
    Bench() = default;

    Status make_data(Arena& arena, const Shape& shape, uint32_t rows) {
        constexpr std::array<uint32_t, Planes::count> kWords = {0x5a3c9617, 0x20002000, 0x12345678, 0x20002000};
        const auto sizes = plane_bytes(shape.dtype, int64_t{shape.outputs} * shape.inputs);
        weight_bytes_ = 0;
        for (uint64_t size : sizes) weight_bytes_ += static_cast<double>(size);
        // Copies enough that none is still in a cache when its turn comes again.
        copies_.resize(quick_ ? 1 : std::clamp<size_t>(static_cast<size_t>(1e9 / weight_bytes_), 2, 64));
        for (DeviceWeight& copy : copies_) {
            copy.tiled = is_tiled(shape.dtype, shape.outputs, shape.inputs);
            for (size_t plane = 0; plane < Planes::count; ++plane) {
                if (sizes[plane] == 0) continue;
                const Buffer buffer = TRY(arena.allocate(sizes[plane]));
                TRY(queue_->fill(std::span(&buffer, 1), kWords[plane]));
                copy.planes[plane] = buffer.address;
            }
        }
        const ActivationFormat format = rows == 1 ? ActivationFormat::q8 : ActivationFormat::tiles;
        x_ = TRY(arena.allocate(activation_bytes(format, rows, shape.inputs)));
        y_ = TRY(arena.allocate(uint64_t{kMaxMatmulSplits} * rows * shape.outputs * sizeof(float)));
        const Buffer bounds = TRY(arena.allocate(2 * sizeof(float)));
        TRY(queue_->fill(std::span(&bounds, 1), 0x3f800000));
        for (DeviceWeight& copy : copies_) copy.bounds = bounds.address;
        chain_ = TRY(arena.allocate(Recorder::chain_bytes(copies_.size())));
        chain_broken_ = TRY(arena.allocate(sizeof(uint32_t)));
        return queue_->fill(std::span(&x_, 1), 0x2c013401);
    }

    Status dispatch(Recorder& recorder, const Shape& shape, uint32_t rows, const Candidate& candidate,
                    const DeviceWeight& weight) {
        const auto glu = shape.glu ? std::optional(op::Activation::gelu_tanh) : std::nullopt;
        if (rows == 1) {
            return record_gemv(recorder, candidate.gemv, device_->capabilities(),
                               {.dtype = shape.dtype,
                                .weight = weight,
                                .outputs = shape.glu ? shape.outputs / 2 : shape.outputs,
                                .inputs = shape.inputs,
                                .x = whole(x_),
                                .glu = glu,
                                .y = whole(y_)});
        }
        Tuning tuning;
        tuning.stream = {candidate.stream};
        return record_stream(recorder, tuning, device_->capabilities(),
                             {.dtype = shape.dtype,
                              .weight = weight,
                              .outputs = shape.outputs,
                              .inputs = shape.inputs,
                              .rows = rows,
                              .x = x_.address,
                              .glu = glu,
                              .max_splits = kMaxMatmulSplits,
                              .y = y_.address,
                              .y_tiles = shape.glu && shape.outputs / 2 % kMatrixInputs == 0});
    }

    Result<VkCommandBuffer> record(const Shape& shape, uint32_t rows, const Candidate& candidate, uint32_t index) {
        VkCommandBuffer commands = TRY(queue_->allocate());
        TRY(Queue::begin(commands));
        times_->reset(commands, 2 * index, 2);
        Recorder recorder(*pipelines_, commands);
        TRY(recorder.begin_chain(chain_, chain_broken_));
        times_->write(commands, 2 * index);
        for (const DeviceWeight& copy : copies_) TRY(dispatch(recorder, shape, rows, candidate, copy));
        recorder.finish();
        times_->write(commands, 2 * index + 1);
        TRY(Queue::end(commands));
        return commands;
    }

    void report(const Shape& shape, uint32_t rows, std::vector<Candidate> candidates) const {
        std::sort(candidates.begin(), candidates.end(),
                  [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
        fmt::print("{} {} {} x {}, {} rows: {:.1f} MB\n", shape.name, name(shape.dtype), shape.outputs, shape.inputs,
                   rows, weight_bytes_ / 1e6);
        for (size_t i = 0; i < std::min(candidates.size(), kShown); ++i) {
            fmt::print("  {}: {:6.2f} us {:5.2f} TB/s\n", candidates[i].name, candidates[i].seconds * 1e6,
                       weight_bytes_ / candidates[i].seconds * 1e-12);
        }
        std::fflush(stdout);
    }

    bool quick_ = false;
    std::shared_ptr<Device> device_;
    std::unique_ptr<Queue> queue_;
    std::unique_ptr<PipelineCache> pipelines_;
    std::unique_ptr<Timestamps> times_;
    double weight_bytes_ = 0;
    std::vector<DeviceWeight> copies_;
    Buffer x_, y_, chain_, chain_broken_;
};

Status run(const std::string& selector, const std::vector<uint32_t>& rows, const std::vector<std::string>& names,
           bool quick) {
    const std::unique_ptr<Bench> bench = TRY(Bench::open(selector, quick));
    fmt::print("{}\n", bench->info().name);
    const uint32_t small = quick ? 32 : 1;
    for (uint32_t count : rows) {
        for (const Shape& shape :
             {Shape{"qkv", DType::q4_0, 8192 / small, 5376}, Shape{"o", DType::q4_0, 5376 / small, 4096},
              Shape{"gate+up", DType::q4_0, 43008 / small, 5376, true}, Shape{"down", DType::q4_0, 5376 / small, 21504},
              Shape{"head", DType::q6_k, 262144 / small, 5376}}) {
            if (!names.empty() && std::find(names.begin(), names.end(), shape.name) == names.end()) continue;
            TRY(bench->sweep(shape, count));
        }
    }
    return Ok{};
}

}  // namespace
}  // namespace tandem::vulkan

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): out of memory ends a benchmark
    CLI::App app("Finds what the products of few rows run fastest with");
    std::string device;
    std::vector<uint32_t> rows = {1, 8, 32};
    std::vector<std::string> names;
    bool quick = false;
    app.add_option("--device", device, "Index or part of the name");
    app.add_option("--rows", rows, "Numbers of rows");
    app.add_option("--shapes", names, "Of qkv, o, gate+up, down and head; by default all");
    app.add_flag("--quick", quick, "Small matrices, to see that it runs");
    CLI11_PARSE(app, argc, argv);
    const tandem::Status status = tandem::vulkan::run(device, rows, names, quick);
    if (!status) fmt::print(stderr, "bench_vulkan_products: {}\n", status.error().message);
    return status ? 0 : 1;
}
