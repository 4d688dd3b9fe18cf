// The product of a matrix and one row on a GPU, for the shapes of Gemma 3 27B and every tuning worth trying.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "vulkan/activations.h"
#include "vulkan/kernels/gemv.h"
#include "vulkan/timestamps.h"

namespace {

using namespace tandem;          // NOLINT(google-build-using-namespace): a program of its own
using namespace tandem::vulkan;  // NOLINT(google-build-using-namespace)

struct Shape {
    std::string_view name;
    DType dtype;
    uint32_t outputs;
    uint32_t inputs;
    bool glu;
};

constexpr int kPasses = 4;

struct Timing {
    GemvTuning tuning;
    double apart_us = 0;     // with a barrier after each
    double together_us = 0;  // without
};

class Bench {
  public:
    static Result<Bench> open() {
        Bench bench;
        bench.device_ = TRY(Device::open(""));
        bench.queue_ = TRY(Queue::create(bench.device_));
        bench.pipelines_ = TRY(PipelineCache::open(bench.device_, {}));
        bench.times_ = TRY(Timestamps::create(bench.device_, 4096));
        bench.arena_ = std::make_unique<Arena>(bench.device_, MemoryKind::device);
        return bench;
    }

    const DeviceInfo& info() const { return device_->info(); }

    Status sweep(const Shape& shape, bool quick) {
        const uint32_t rows = shape.glu ? 2 * shape.outputs : shape.outputs;
        const auto sizes = plane_bytes(shape.dtype, int64_t{rows} * shape.inputs);
        double weight_bytes = 0;
        for (uint64_t size : sizes) weight_bytes += static_cast<double>(size);
        // Copies enough that none is still in a cache when its turn comes again.
        const uint64_t wanted = quick ? 1 : std::clamp<uint64_t>(static_cast<uint64_t>(1e9 / weight_bytes), 2, 64);
        std::vector<DeviceWeight> copies(wanted);
        for (DeviceWeight& copy : copies) {
            for (size_t plane = 0; plane < Planes::count; ++plane) {
                if (sizes[plane] == 0) continue;
                const Buffer buffer = TRY(arena_->allocate(sizes[plane]));
                TRY(queue_->fill(std::span(&buffer, 1), 0));
                copy.planes[plane] = buffer.address;
            }
        }
        const Buffer x = TRY(arena_->allocate(activation_bytes(ActivationFormat::q8, 1, shape.inputs)));
        const Buffer y = TRY(arena_->allocate(uint64_t{rows} * 4));
        // All are recorded first: while pipelines are compiled the GPU falls asleep, and wakes up slowly.
        std::vector<Timing> timings;
        std::vector<VkCommandBuffer> recorded;
        for (const GemvTuning& tuning : tunings(shape, quick)) {
            timings.push_back({.tuning = tuning, .apart_us = 1e30, .together_us = 1e30});
            for (bool apart : {true, false}) {
                const auto index = static_cast<uint32_t>(recorded.size());
                recorded.push_back(TRY(record(shape, tuning, copies, x, y, apart, index)));
            }
        }
        for (int pass = 0; pass < kPasses; ++pass) {
            uint64_t done = 0;
            for (VkCommandBuffer commands : recorded) done = TRY(queue_->submit(commands));
            TRY(queue_->wait(done));
            const std::vector<double> at = TRY(times_->read(2 * static_cast<uint32_t>(recorded.size())));
            const auto us = [&](size_t i) { return (at[2 * i + 1] - at[2 * i]) / 1e3 / static_cast<double>(wanted); };
            for (size_t i = 0; i < timings.size(); ++i) {
                timings[i].apart_us = std::min(timings[i].apart_us, us(2 * i));
                timings[i].together_us = std::min(timings[i].together_us, us(2 * i + 1));
            }
        }
        for (VkCommandBuffer commands : recorded) queue_->free(commands);
        std::sort(timings.begin(), timings.end(),
                  [](const Timing& a, const Timing& b) { return a.apart_us < b.apart_us; });
        fmt::print("{} {} {} x {}: {:.1f} MB\n", shape.name, name(shape.dtype), rows, shape.inputs, weight_bytes / 1e6);
        for (size_t i = 0; i < std::min<size_t>(timings.size(), 6); ++i) {
            const Timing& t = timings[i];
            fmt::print(
                "  {:4} lanes {:3} per row {} rows unroll {:2} groups {:4} {}: {:6.2f} us {:5.2f} TB/s, without "
                "barriers {:5.2f} TB/s\n",
                t.tuning.lanes, t.tuning.lanes_per_row, t.tuning.rows, t.tuning.unroll, t.tuning.groups,
                t.tuning.staged != 0 ? "staged" : "direct", t.apart_us, weight_bytes / t.apart_us * 1e-6,
                weight_bytes / t.together_us * 1e-6);
        }
        return Ok{};
    }

  private:
    static std::vector<GemvTuning> tunings(const Shape& shape, bool quick) {
        std::vector<GemvTuning> all;
        const uint32_t blocks = shape.inputs / 32;
        for (uint32_t lanes : {128U, 256U, 512U}) {
            for (uint32_t per_row : {4U, 8U, 16U, 32U}) {
                for (uint32_t rows : {1U, 2U, 4U}) {
                    for (uint32_t unroll : {2U, 3U, 4U, 6U, 7U, 8U}) {
                        for (uint32_t groups : {264U, 528U, 1056U}) {
                            for (uint32_t staged : {1U, 0U}) {
                                const bool fits = lanes / per_row * rows % 32 == 0 || !shape.glu;
                                const bool regs = rows * unroll * (shape.glu ? 2 : 1) <= 12;
                                const bool whole = blocks % (per_row * unroll) == 0 || unroll == 4;
                                if (!fits || !regs || !whole || lanes * groups > 132 * 2048) continue;
                                all.push_back({.lanes = lanes,
                                               .lanes_per_row = per_row,
                                               .rows = rows,
                                               .unroll = unroll,
                                               .groups = groups,
                                               .staged = staged});
                            }
                        }
                    }
                }
            }
        }
        if (quick) all.resize(2);
        return all;
    }

    Result<VkCommandBuffer> record(const Shape& shape, const GemvTuning& tuning,
                                   const std::vector<DeviceWeight>& copies, const Buffer& x, const Buffer& y,
                                   bool apart, uint32_t index) {
        VkCommandBuffer commands = TRY(queue_->allocate());
        TRY(Queue::begin(commands));
        times_->reset(commands, 2 * index, 2);
        Recorder recorder(*pipelines_, commands);
        times_->write(commands, 2 * index);
        for (const DeviceWeight& copy : copies) {
            GemvCall call{.dtype = shape.dtype,
                          .weight = copy,
                          .outputs = shape.outputs,
                          .inputs = shape.inputs,
                          .x = whole(x),
                          .y = {}};
            call.y = apart ? whole(y) : Access{y.address, 0};
            if (shape.glu) call.glu = op::Activation::gelu_tanh;
            TRY(record_gemv(recorder, tuning, device_->capabilities(), call));
        }
        recorder.finish();
        times_->write(commands, 2 * index + 1);
        TRY(Queue::end(commands));
        return commands;
    }

    std::shared_ptr<Device> device_;
    std::unique_ptr<Queue> queue_;
    std::unique_ptr<PipelineCache> pipelines_;
    std::unique_ptr<Timestamps> times_;
    std::unique_ptr<Arena> arena_;
};

Status run(bool quick) {
    Bench bench = TRY(Bench::open());
    fmt::print("{}\n", bench.info().name);
    const uint32_t small = quick ? 32 : 1;
    for (const Shape& shape :
         {Shape{"qkv", DType::q4_0, 8192 / small, 5376, false}, Shape{"o", DType::q4_0, 5376 / small, 4096, false},
          Shape{"gate and up", DType::q4_0, 21504 / small, 5376, true},
          Shape{"down", DType::q4_0, 5376 / small, 21504, false},
          Shape{"head", DType::q6_k, 262144 / small, 5376, false}}) {
        TRY(bench.sweep(shape, quick));
    }
    return Ok{};
}

}  // namespace

int main(int argc, char** argv) {
    const Status status = run(argc > 1 && std::string_view(argv[1]) == "--quick");
    if (!status) fmt::print(stderr, "bench_vulkan_gemv: {}\n", status.error().message);
    return status ? 0 : 1;
}
