// bench_vulkan_matmul: which tiles the products of Q4_0 weights and many rows run fastest with on this GPU, on the
// shapes of Gemma 3 27B. Each product waits for the one before it, as in a model, and reads other weights than it.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numbers>
#include <random>

#include "base/float16.h"
#include "vulkan/activations.h"
#include "vulkan/kernels/matmul.h"
#include "vulkan/queue.h"

namespace tandem::vulkan {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Shape {
    const char* name;
    uint32_t outputs;
    uint32_t inputs;
    bool glu = false;

    double weight_bytes() const { return 1.0 * outputs * inputs * 18 / 32; }
};

struct Setting {
    std::vector<Shape> shapes;
    std::vector<uint32_t> rows;
    uint64_t period_bytes;  // of the random quants, which repeat
    uint64_t pool_bytes;    // of quants: many times the GPU's caches
    double sample_seconds;
    double budget_seconds;
};

Setting full_setting(double budget_seconds) {
    return {.shapes = {{"qkv", 8192, 5376}, {"o", 5376, 4096}, {"gate+up", 43008, 5376, true}, {"down", 5376, 21504}},
            .rows = {8, 32, 64, 512, 2048},
            .period_bytes = uint64_t{32} << 20,
            .pool_bytes = uint64_t{512} << 20,
            .sample_seconds = 0.01,
            .budget_seconds = budget_seconds};
}

Setting quick_setting() {
    return {.shapes = {{"plain", 96, 128}, {"glu", 128, 64, true}},
            .rows = {8, 40},
            .period_bytes = 64 << 10,
            .pool_bytes = 256 << 10,
            .sample_seconds = 0,
            .budget_seconds = 1};
}

// Tiles worth trying for a number of rows.
std::vector<MatmulTuning> candidates(uint32_t rows) {
    std::vector<MatmulTuning> all;
    const auto add = [&](MatmulTuning t) {
        for (uint32_t stages : {1U, 2U}) {
            t.stages = stages;
            t.max_rows = ~0U;
            all.push_back(t);
        }
    };
    if (rows <= 64) {
        const uint32_t fragment = rows <= 8 ? 8 : 16;
        const uint32_t tile = (rows + fragment - 1) / fragment * fragment;
        for (uint32_t depth : {128U, 64U, 256U}) {
            for (uint32_t cols : {128U, 64U, 256U}) {
                add({.tile_rows = tile,
                     .tile_cols = cols,
                     .depth = depth,
                     .warp_rows = std::min(tile, 64U),
                     .warp_cols = 32});
                if (tile > 16) {
                    add({.tile_rows = tile, .tile_cols = cols, .depth = depth, .warp_rows = tile / 2, .warp_cols = 32});
                }
                add({.tile_rows = tile,
                     .tile_cols = cols,
                     .depth = depth,
                     .warp_rows = std::min(tile, 64U),
                     .warp_cols = 64});
            }
        }
        return all;
    }
    for (uint32_t depth : {32U, 64U}) {
        add({.tile_rows = 128, .tile_cols = 128, .depth = depth, .warp_rows = 64, .warp_cols = 64});
        add({.tile_rows = 128, .tile_cols = 128, .depth = depth, .warp_rows = 64, .warp_cols = 32});
        add({.tile_rows = 128, .tile_cols = 256, .depth = depth, .warp_rows = 64, .warp_cols = 64});
        add({.tile_rows = 256, .tile_cols = 128, .depth = depth, .warp_rows = 64, .warp_cols = 64});
        add({.tile_rows = 128, .tile_cols = 128, .depth = depth, .warp_rows = 32, .warp_cols = 64});
        add({.tile_rows = 256, .tile_cols = 128, .depth = depth, .warp_rows = 128, .warp_cols = 32});
        add({.tile_rows = 128, .tile_cols = 64, .depth = depth, .warp_rows = 64, .warp_cols = 32});
        add({.tile_rows = 64, .tile_cols = 128, .depth = depth, .warp_rows = 64, .warp_cols = 32});
    }
    return all;
}

struct Measurement {
    MatmulTuning tuning;
    uint32_t splits = 1;
    double seconds = 0;
    bool is_default = false;
    std::string wrong;  // what the check of the results found
};

// Random data that repeats, so that the host can tell what any place of a large buffer holds.
class Bench {
  public:
    static Result<std::unique_ptr<Bench>> open(const std::string& selector, const Setting& setting) {
        std::unique_ptr<Bench> bench(new Bench(setting));
        bench->device_ = TRY(Device::open(selector));
        bench->queue_ = TRY(Queue::create(bench->device_));
        bench->pipelines_ = TRY(PipelineCache::open(bench->device_, {}));
        bench->memory_ = std::make_unique<Arena>(bench->device_, MemoryKind::device);
        bench->host_ = std::make_unique<Arena>(bench->device_, MemoryKind::readback);
        TRY(bench->make_data());
        return bench;
    }

    const Device& device() const { return *device_; }

    // Writes the activations of `rows` rows: noise of period `x_noise_`, then scales of 1.
    Status prepare(uint32_t rows, uint32_t inputs) {
        return run([&](Recorder& recorder) -> Status {
            const uint64_t bytes = uint64_t{2} * rows * inputs;
            repeat(recorder, x_noise_, x_, bytes);
            Buffer scales = x_;
            scales.offset += bytes;
            recorder.copy(ones_, scales, uint64_t{4} * rows);
            return Ok{};
        });
    }

    Result<Measurement> measure(const Shape& shape, uint32_t rows, const MatmulTuning& tuning) {
        const Tuning only{.matmul = {tuning}};
        Measurement m{.tuning = tuning, .splits = matmul_splits(only, call(shape, rows, 0))};
        TRY(timed(only, shape, rows, 1));  // makes the pipeline
        const double once = TRY(timed(only, shape, rows, 2)) / 2;
        const auto repeats = static_cast<int>(std::clamp(setting_.sample_seconds / once, 2.0, 400.0));
        m.seconds = TRY(timed(only, shape, rows, repeats)) / repeats;
        m.wrong = TRY(check(shape, rows, m.splits));
        return m;
    }

  private:
    explicit Bench(Setting setting) : setting_(std::move(setting)) {}

    Status make_data() {
        uint64_t x_bytes = 0;
        uint64_t y_bytes = 0;
        for (const Shape& shape : setting_.shapes) {
            x_bytes = std::max(x_bytes, activation_bytes(ActivationFormat::f16, setting_.rows.back(), shape.inputs));
            y_bytes = std::max(y_bytes, uint64_t{4} * setting_.rows.back() * shape.outputs);
        }
        y_bytes = std::max(y_bytes, y_bytes / setting_.rows.back() * 64 * kMaxMatmulSplits);
        quants_ = TRY(memory_->allocate(setting_.pool_bytes));
        scales_ = TRY(memory_->allocate(setting_.pool_bytes / 8));
        x_ = TRY(memory_->allocate(x_bytes));
        y_ = TRY(memory_->allocate(y_bytes));
        quant_noise_ = TRY(host_->allocate(setting_.period_bytes));
        scale_noise_ = TRY(host_->allocate(setting_.period_bytes / 8));
        x_noise_ = TRY(host_->allocate(setting_.period_bytes / 16));
        ones_ = TRY(host_->allocate(uint64_t{4} * setting_.rows.back()));
        read_ = TRY(host_->allocate(kMaxMatmulSplits * sizeof(float)));
        std::mt19937 random(7);
        for (uint64_t i = 0; i < quant_noise_.size_bytes; ++i) quant_noise_.mapped[i] = std::byte(random() >> 24);
        const auto halves = [&](const Buffer& to, float low, float high) {
            for (uint64_t i = 0; i < to.size_bytes; i += 2) {
                const uint16_t half = f32_to_f16(low + (high - low) * static_cast<float>(random() >> 8) * 0x1p-24F);
                std::memcpy(to.mapped + i, &half, 2);
            }
        };
        halves(scale_noise_, 0.002F, 0.01F);
        halves(x_noise_, -1.0F, 1.0F);
        for (uint64_t i = 0; i < ones_.size_bytes; i += 4) std::memcpy(ones_.mapped + i, &kOne, 4);
        return run([&](Recorder& recorder) -> Status {
            repeat(recorder, quant_noise_, quants_, quants_.size_bytes);
            repeat(recorder, scale_noise_, scales_, scales_.size_bytes);
            return Ok{};
        });
    }

    static void repeat(Recorder& recorder, const Buffer& from, Buffer to, uint64_t bytes) {
        for (uint64_t at = 0; at < bytes; at += from.size_bytes) {
            recorder.copy(from, to, std::min(from.size_bytes, bytes - at));
            to.offset += from.size_bytes;
            to.address += from.size_bytes;
        }
    }

    Status run(const std::function<Status(Recorder&)>& record) {
        VkCommandBuffer commands = TRY(queue_->allocate());
        TRY(Queue::begin(commands));
        Recorder recorder(*pipelines_, commands);
        TRY(record(recorder));
        recorder.finish();
        TRY(Queue::end(commands));
        const Clock::time_point start = Clock::now();
        const uint64_t done = TRY(queue_->submit(commands));
        TRY(queue_->wait(done));
        run_seconds_ = seconds_since(start);
        queue_->free(commands);
        return Ok{};
    }

    // Copies of the weight in the pool; each begins where the noise does.
    uint64_t slot_bytes(const Shape& shape) const {
        const uint64_t bytes = uint64_t{shape.outputs} * shape.inputs / 2;
        return (bytes + setting_.period_bytes - 1) / setting_.period_bytes * setting_.period_bytes;
    }
    int slots(const Shape& shape) const { return static_cast<int>(setting_.pool_bytes / slot_bytes(shape)); }

    MatmulCall call(const Shape& shape, uint32_t rows, int slot) const {
        const uint64_t at = slot_bytes(shape) * static_cast<uint64_t>(slot);
        MatmulCall made{.dtype = DType::q4_0, .outputs = shape.outputs, .inputs = shape.inputs, .rows = rows};
        made.weight.planes = {quants_.address + at, scales_.address + at / 8};
        made.x = x_.address;
        if (shape.glu) made.glu = op::Activation::gelu_tanh;
        made.y = y_.address;
        return made;
    }

    Result<double> timed(const Tuning& tuning, const Shape& shape, uint32_t rows, int repeats) {
        const Status done = run([&](Recorder& recorder) -> Status {
            for (int i = 0; i < repeats; ++i) {
                TRY(record_matmul(recorder, tuning, device_->capabilities(), call(shape, rows, i % slots(shape))));
            }
            return Ok{};
        });
        TRY(done);
        return run_seconds_;
    }

    float half_at(const Buffer& noise, uint64_t element) const {
        uint16_t half = 0;
        std::memcpy(&half, noise.mapped + element * 2 % noise.size_bytes, 2);
        return f16_to_f32(half);
    }

    // The sum of products, and the root of the sum of their squares.
    std::array<double, 2> dot(const Shape& shape, uint32_t row, uint64_t output) const {
        double sum = 0;
        double squares = 0;
        for (uint64_t i = 0; i < shape.inputs; ++i) {
            const uint64_t block = (output * shape.inputs + i) / 32;
            const auto byte =
                std::to_integer<int>(quant_noise_.mapped[(block * 16 + i % 16) % quant_noise_.size_bytes]);
            const int q = (i % 32 < 16 ? byte & 15 : byte >> 4) - 8;
            const double product = static_cast<double>(half_at(scale_noise_, block)) * q *
                                   half_at(x_noise_, uint64_t{row} * shape.inputs + i);
            sum += product;
            squares += product * product;
        }
        return {sum, std::sqrt(squares)};
    }

    // Compares the corners of the result; says what is wrong.
    Result<std::string> check(const Shape& shape, uint32_t rows, uint32_t splits) {
        const uint32_t results = shape.glu ? shape.outputs / 2 : shape.outputs;
        for (uint32_t row : {0U, rows / 2, rows - 1}) {
            for (uint32_t output : {0U, results / 2 + 5, results - 1}) {
                auto [want, error] = dot(shape, row, output);
                error *= 0.01;
                if (shape.glu) {
                    const auto [up, up_error] = dot(shape, row, uint64_t{results} + output);
                    const double inner = std::sqrt(2 / std::numbers::pi) * (want + 0.044715 * want * want * want);
                    const double active = 0.5 * want * (1 + std::tanh(inner));
                    error = 1.13 * error * (std::abs(up) + up_error) + std::abs(active) * 0.01 * up_error;
                    want = active * up;
                }
                const double got = TRY(result_at(splits, rows, results, uint64_t{row} * results + output));
                if (!(std::abs(got - want) <= error)) {
                    return fmt::format("row {}, output {}: {} instead of {}", row, output, got, want);
                }
            }
        }
        return std::string();
    }

    Result<double> result_at(uint32_t splits, uint32_t rows, uint32_t results, uint64_t at) {
        TRY(run([&](Recorder& recorder) -> Status {
            for (uint32_t split = 0; split < splits; ++split) {
                Buffer from = y_;
                from.offset += 4 * (uint64_t{split} * rows * results + at);
                Buffer to = read_;
                to.offset += 4 * split;
                recorder.copy(from, to, 4);
            }
            return Ok{};
        }));
        double sum = 0;
        for (uint32_t split = 0; split < splits; ++split) {
            float part = 0;
            std::memcpy(&part, read_.mapped + 4 * split, 4);
            sum += part;
        }
        return sum;
    }

    static constexpr float kOne = 1.0F;

    Setting setting_;
    std::shared_ptr<Device> device_;
    std::unique_ptr<Queue> queue_;
    std::unique_ptr<PipelineCache> pipelines_;
    std::unique_ptr<Arena> memory_;
    std::unique_ptr<Arena> host_;
    Buffer quants_, scales_, x_, y_;
    Buffer quant_noise_, scale_noise_, x_noise_, ones_, read_;
    double run_seconds_ = 0;
};

void print(const Measurement& m, const Shape& shape, uint32_t rows, size_t place) {
    const MatmulTuning& t = m.tuning;
    const double flops = 2.0 * rows * shape.outputs * shape.inputs;
    fmt::print("{:5} {:8} {:3}. {:3}x{:3}x{:3} w{:3}x{:2} s{} k{} {:9.1f} us {:6.3f} TB/s {:6.1f} TFLOP/s{}{}{}\n",
               rows, shape.name, place, t.tile_rows, t.tile_cols, t.depth, t.warp_rows, t.warp_cols, t.stages, m.splits,
               m.seconds * 1e6, shape.weight_bytes() / m.seconds / 1e12, flops / m.seconds / 1e12,
               m.is_default ? " (default)" : "", m.wrong.empty() ? "" : " WRONG ", m.wrong);
}

// The best three and the default; returns whether all results were right.
bool report(std::vector<Measurement> measured, const Shape& shape, uint32_t rows) {
    std::sort(measured.begin(), measured.end(),
              [](const Measurement& a, const Measurement& b) { return a.seconds < b.seconds; });
    bool right = true;
    for (size_t i = 0; i < measured.size(); ++i) {
        right = right && measured[i].wrong.empty();
        if (i < 3 || measured[i].is_default || !measured[i].wrong.empty()) print(measured[i], shape, rows, i + 1);
    }
    return right;
}

// The default of the device for so many rows, then what else fits it.
std::vector<MatmulTuning> tunings_for(const Device& device, uint32_t rows) {
    std::vector<MatmulTuning> chosen;
    for (const MatmulTuning& tuning : default_tuning(device.info()).matmul) {
        if (rows > tuning.max_rows) continue;
        chosen.push_back(tuning);
        break;
    }
    for (const MatmulTuning& tuning : candidates(rows)) {
        const Result<MatmulTuning> fitted = fit_matmul(tuning, device.capabilities());
        if (fitted && *fitted == tuning) chosen.push_back(tuning);
    }
    return chosen;
}

Result<bool> sweep_rows(Bench& bench, const Setting& setting, uint32_t rows) {
    const Clock::time_point start = Clock::now();
    const double budget = setting.budget_seconds / static_cast<double>(setting.rows.size());
    const std::vector<MatmulTuning> tunings = tunings_for(bench.device(), rows);
    std::vector<std::vector<Measurement>> measured(setting.shapes.size());
    size_t tried = 0;
    for (; tried < tunings.size() && (tried == 0 || seconds_since(start) < budget); ++tried) {
        for (size_t s = 0; s < setting.shapes.size(); ++s) {
            const Shape& shape = setting.shapes[s];
            TRY(bench.prepare(rows, shape.inputs));
            for (uint32_t groups : {264U, 528U}) {
                MatmulTuning tuning = tunings[tried];
                tuning.groups = groups;
                Measurement m = TRY(bench.measure(shape, rows, tuning));
                m.is_default = tried == 0;
                measured[s].push_back(m);
                if (shape.glu || rows > 64) break;  // never split
            }
        }
    }
    if (tried < tunings.size())
        fmt::print("{:5} the time was up after {} of {} tilings\n", rows, tried, tunings.size());
    bool right = true;
    for (size_t s = 0; s < setting.shapes.size(); ++s) right = report(measured[s], setting.shapes[s], rows) && right;
    return right;
}

Result<bool> sweep(const std::string& selector, const Setting& setting) {
    const std::unique_ptr<Bench> bench = TRY(Bench::open(selector, setting));
    const Capabilities& c = bench->device().capabilities();
    fmt::print(
        "{}: {}\n", bench->device().info().name,
        c.cooperative_matrix ? (c.narrow_matrix ? "matrices 16x16x16, 16x8x16" : "matrices 16x16x16") : "no matrices");
    bool right = true;
    for (uint32_t rows : setting.rows) {
        right = TRY(sweep_rows(*bench, setting, rows)) && right;
        std::fflush(stdout);
    }
    return right;
}

}  // namespace
}  // namespace tandem::vulkan

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): out of memory ends a benchmark
    CLI::App app("Finds the fastest tiles of Vulkan matrix products");
    std::string device;
    bool quick = false;
    double seconds = 60;
    std::vector<uint32_t> rows;
    app.add_option("--device", device, "Index or part of the name");
    app.add_option("--seconds", seconds, "Time to spend, about");
    app.add_option("--rows", rows, "Numbers of rows, ascending; by default 8 32 64 512 2048");
    app.add_flag("--quick", quick, "Tiny products, to see that it runs");
    CLI11_PARSE(app, argc, argv);
    using namespace tandem::vulkan;  // NOLINT(google-build-using-namespace): all of this program
    Setting setting = quick ? quick_setting() : full_setting(seconds);
    if (!rows.empty()) setting.rows = rows;
    const tandem::Result<bool> right = sweep(device, setting);
    if (!right) fmt::print(stderr, "{}\n", right.error().message);
    return right && *right ? 0 : 1;
}
