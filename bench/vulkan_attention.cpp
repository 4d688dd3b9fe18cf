// bench_vulkan_attention: how fast attention and what comes before it run on this GPU, on the shapes of Gemma 3 27B,
// and which sizes are best. Each dispatch waits for the one before it, as in a model, and reads another layer's cache
// than it.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "base/float16.h"
#include "vulkan/kernels/attention.h"
#include "vulkan/kernels/heads.h"
#include "vulkan/kernels/rope.h"
#include "vulkan/queue.h"

namespace tandem::vulkan {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Shape {
    int heads = 32;
    int kv_heads = 16;
    int head_dim = 128;
};

// Sequences of equal length.
struct Case {
    int sequences = 1;
    int rows = 1;  // of each
    int past = 0;
    int window = 0;

    int all_rows() const { return sequences * rows; }
    bool one_row_each() const { return rows == 1; }
    // Positions that the rows of a sequence see, all together.
    double seen() const {
        double sum = 0;
        for (int r = 0; r < rows; ++r) sum += window == 0 ? past + r + 1 : std::min(past + r + 1, window);
        return sum;
    }
};

struct Setting {
    Shape shape;
    std::vector<Case> cases;
    uint64_t noise_elements;
    uint64_t pool_bytes;  // of cache, so that none of it is in the GPU's own caches; one layer at least
    double sample_seconds;
    double wake_seconds;
    double budget_seconds;
};

Setting full_setting(double budget_seconds) {
    Setting setting{.shape = {},
                    .cases = {},
                    .noise_elements = uint64_t{1} << 23,
                    .pool_bytes = uint64_t{512} << 20,
                    .sample_seconds = 0.02,
                    .wake_seconds = 0.2,
                    .budget_seconds = budget_seconds};
    for (int sequences : {1, 8, 32}) {
        for (int context : {512, 4096, 32768}) {
            if (sequences * context <= 8 * 32768) {
                setting.cases.push_back({.sequences = sequences, .rows = 1, .past = context - 1, .window = 0});
            }
        }
    }
    for (int rows : {512, 4096}) {
        for (int window : {0, 1024})
            setting.cases.push_back({.sequences = 1, .rows = rows, .past = 0, .window = window});
    }
    return setting;
}

Setting quick_setting() {
    return {.shape = {.heads = 4, .kv_heads = 2, .head_dim = 64},
            .cases = {{.sequences = 1, .rows = 1, .past = 99, .window = 0},
                      {.sequences = 3, .rows = 1, .past = 40, .window = 30},
                      {.sequences = 1, .rows = 50, .past = 0, .window = 20}},
            .noise_elements = 1 << 12,
            .pool_bytes = 1 << 16,
            .sample_seconds = 0,
            .wake_seconds = 0,
            .budget_seconds = 1};
}

// The default, then what else may be faster.
std::vector<AttentionTuning> tunings_for(const Device& device, const Case& c) {
    const AttentionTuning usual = default_tuning(device.info()).attention;
    std::vector<AttentionTuning> all{usual};
    const auto add = [&](auto first, std::initializer_list<uint32_t> firsts, auto second,
                         std::initializer_list<uint32_t> seconds) {
        for (uint32_t a : firsts) {
            for (uint32_t b : seconds) {
                AttentionTuning tuning = usual;
                if (!c.one_row_each()) tuning.lane_rows = 0;
                tuning.*first = a;
                tuning.*second = b;
                if (tuning != usual) all.push_back(tuning);
            }
        }
    };
    using T = AttentionTuning;
    if (c.one_row_each()) {
        add(&T::lanes, {128, 256, 64}, &T::groups, {264, 528, 132});
        return all;
    }
    if (usual.lane_rows != 0) add(&T::lane_rows, {64, 128, 32}, &T::lane_positions, {32, 64, 16});
    add(&T::tile_rows, {64, 128, 32}, &T::tile_positions, {32, 64, 16});
    return all;
}

// The GPU, and noise that repeats, so that the host can tell what any place of the cache holds.
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

    // Makes the cache and the step of a case.
    Status prepare(const Case& c);
    Result<double> measure_attention(const Case& c, const AttentionTuning& tuning);
    Result<double> measure_heads(const Case& c);
    // Says which result of the last measurement is wrong; empty: none.
    Result<std::string> check(const Case& c);

  private:
    explicit Bench(Setting setting) : setting_(std::move(setting)) {}

    Status make_data();
    Status run(const std::function<Status(Recorder&)>& record);
    Result<double> measure(const std::function<Status(Recorder&, int layer)>& record);
    int repeats_for(double seconds_each) const {
        return static_cast<int>(std::clamp(setting_.sample_seconds / seconds_each, 2.0, 400.0));
    }
    void repeat(Recorder& recorder, Buffer to);
    size_t cols() const {
        return static_cast<size_t>(setting_.shape.heads) * static_cast<size_t>(setting_.shape.head_dim);
    }
    op::Attention attention(const Case& c, int layer) const {
        const Shape& shape = setting_.shape;
        return {.cache = layer,
                .heads = shape.heads,
                .kv_heads = shape.kv_heads,
                .head_dim = shape.head_dim,
                .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim)),
                .window = c.window};
    }
    // Where a head of a position lies in the cache: blocks are handed out in order.
    size_t element(const Case& c, int sequence, int position, int kv_head) const {
        const int blocks = blocks_of(c);
        const int block = sequence * blocks + position / kBlockTokens;
        const int slot = (block * setting_.shape.kv_heads + kv_head) * kBlockTokens + position % kBlockTokens;
        return static_cast<size_t>(slot) * static_cast<size_t>(setting_.shape.head_dim);
    }
    static int blocks_of(const Case& c) { return (c.past + c.rows + kBlockTokens - 1) / kBlockTokens; }
    double noise(size_t element) const { return noise_values_[element % noise_values_.size()]; }
    std::vector<double> reference(const Case& c, int row, int head) const;

    static constexpr int kBlockTokens = 32;

    Setting setting_;
    std::shared_ptr<Device> device_;
    std::unique_ptr<Queue> queue_;
    std::unique_ptr<PipelineCache> pipelines_;
    std::unique_ptr<Arena> memory_;
    std::unique_ptr<Arena> host_;
    std::vector<float> noise_values_;
    Buffer noise_, q_, qkv_, y_, scratch_, zero_, turns_, read_;
    op::Rope rope_;
    std::shared_ptr<DeviceCache> cache_;
    std::unique_ptr<StepState> step_;
    double run_seconds_ = 0;
};

Status Bench::run(const std::function<Status(Recorder&)>& record) {
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

void Bench::repeat(Recorder& recorder, Buffer to) {
    for (uint64_t left = to.size_bytes; left > 0;) {
        const uint64_t bytes = std::min(left, noise_.size_bytes);
        recorder.copy(noise_, to, bytes);
        to.offset += bytes;
        to.address += bytes;
        left -= bytes;
    }
}

Status Bench::make_data() {
    const Shape& shape = setting_.shape;
    uint64_t rows = 0;
    uint64_t scratch = 0;
    for (const Case& c : setting_.cases) {
        rows = std::max(rows, static_cast<uint64_t>(c.all_rows()));
        const AttentionTuning most{.groups = 528};
        scratch =
            std::max(scratch, attention_scratch_bytes(most, attention(c, 0), static_cast<uint32_t>(c.all_rows())));
    }
    noise_ = TRY(host_->allocate(setting_.noise_elements * sizeof(uint16_t)));
    std::mt19937 random(7);
    for (uint64_t i = 0; i < setting_.noise_elements; ++i) {
        const uint16_t half = f32_to_f16(static_cast<float>(random() >> 8) * 0x1p-23F - 1.0F);
        std::memcpy(noise_.mapped + i * sizeof(half), &half, sizeof(half));
        noise_values_.push_back(f16_to_f32(half));
    }
    for (int i = 0; i < shape.head_dim / 2; ++i) rope_.inv_freq.push_back(1.0F / static_cast<float>(i + 1));
    const std::vector<uint64_t> turns = turns_of(rope_.inv_freq);
    turns_ = TRY(host_->allocate(turns.size() * sizeof(uint64_t)));
    std::memcpy(turns_.mapped, turns.data(), turns.size() * sizeof(uint64_t));
    q_ = TRY(memory_->allocate(rows * cols() * sizeof(uint16_t)));
    qkv_ = TRY(memory_->allocate(rows * static_cast<uint64_t>((shape.heads + 2 * shape.kv_heads) * shape.head_dim) *
                                 sizeof(float)));
    y_ = TRY(memory_->allocate(activation_bytes(ActivationFormat::f16, rows, cols())));
    scratch_ = TRY(memory_->allocate(scratch));
    zero_ = TRY(host_->allocate(scratch));
    std::memset(zero_.mapped, 0, scratch);
    read_ = TRY(host_->allocate(static_cast<uint64_t>(shape.head_dim) * sizeof(uint16_t)));
    return Ok{};
}

Status Bench::prepare(const Case& c) {
    const Shape& shape = setting_.shape;
    const int blocks = c.sequences * blocks_of(c);
    const uint64_t layer_bytes = uint64_t{4} * static_cast<uint64_t>(blocks * kBlockTokens) *
                                 static_cast<uint64_t>(shape.kv_heads * shape.head_dim);
    const uint64_t layers = std::clamp<uint64_t>(setting_.pool_bytes / layer_bytes, 1, 64);
    const graph::CacheLayer layer{.kv_heads = shape.kv_heads, .head_dim = shape.head_dim, .window = 0, .group = 0};
    cache_.reset();
    cache_ = TRY(DeviceCache::create(*queue_, {.layers = std::vector<graph::CacheLayer>(layers, layer),
                                               .dtype = DType::f16,
                                               .block_tokens = kBlockTokens,
                                               .blocks = {blocks}}));
    const graph::Extents extents{.tokens = c.all_rows(), .outputs = 1};
    step_ = TRY(StepState::create(device_, {.extents = extents, .groups = 1, .blocks = blocks_of(c)}));
    device::Batch batch;
    std::vector<std::vector<int32_t>> tables(static_cast<size_t>(c.sequences));
    for (int s = 0; s < c.sequences; ++s) {
        std::vector<int32_t>& table = tables[static_cast<size_t>(s)];
        for (int i = 0; i < blocks_of(c); ++i) table.push_back(s * blocks_of(c) + i);
        batch.sequences.push_back({.first_row = s * c.rows, .rows = c.rows, .past = c.past, .blocks = {table}});
        for (int r = 0; r < c.rows; ++r) batch.positions.push_back(c.past + r);
    }
    batch.tokens.resize(batch.positions.size());
    TRY(step_->write(batch, extents));
    return run([&](Recorder& recorder) -> Status {
        for (uint64_t i = 0; i < layers; ++i) {
            repeat(recorder, cache_->layer(static_cast<int>(i)).keys);
            repeat(recorder, cache_->layer(static_cast<int>(i)).values);
        }
        repeat(recorder, q_);
        recorder.copy(zero_, scratch_, scratch_.size_bytes);
        return Ok{};
    });
}

Result<double> Bench::measure(const std::function<Status(Recorder&, int layer)>& record) {
    const auto timed = [&](int repeats) -> Result<double> {
        const Status done = run([&](Recorder& recorder) -> Status {
            for (int i = 0; i < repeats; ++i) {
                TRY(record(recorder, i % static_cast<int>(cache_->shape().layers.size())));
            }
            return Ok{};
        });
        TRY(done);
        return run_seconds_ / repeats;
    };
    TRY(timed(1));  // makes the pipelines
    // A GPU that had nothing to do is slow at first.
    double seconds = TRY(timed(2));
    for (const Clock::time_point begin = Clock::now(); seconds_since(begin) < setting_.wake_seconds;) {
        seconds = TRY(timed(repeats_for(seconds)));
    }
    return timed(repeats_for(seconds));
}

Result<double> Bench::measure_attention(const Case& c, const AttentionTuning& tuning) {
    return measure([&](Recorder& recorder, int layer) {
        const op::Attention op = attention(c, layer);
        return record_attention(recorder, tuning, device_->capabilities(),
                                {.q = q_.address,
                                 .rows = static_cast<uint32_t>(c.all_rows()),
                                 .op = op,
                                 .cache = *cache_,
                                 .step = step_->addresses(),
                                 .scratch = scratch_.address,
                                 .y = y_.address,
                                 .format = ActivationFormat::f16,
                                 .one_row_each = c.one_row_each()});
    });
}

Result<double> Bench::measure_heads(const Case& c) {
    return measure([&](Recorder& recorder, int layer) {
        return record_heads(recorder, device_->capabilities(),
                            {.qkv = qkv_.address,
                             .splits = 1,
                             .rows = static_cast<uint32_t>(c.all_rows()),
                             .heads = static_cast<uint32_t>(setting_.shape.heads),
                             .rope = &rope_,
                             .turns = turns_.address,
                             .cache = *cache_,
                             .layer = layer,
                             .step = step_->addresses(),
                             .q = q_.address});
    });
}

std::vector<double> Bench::reference(const Case& c, int row, int head) const {
    const Shape& shape = setting_.shape;
    const auto dim = static_cast<size_t>(shape.head_dim);
    const int sequence = row / c.rows;
    const int last = c.past + row % c.rows;
    const size_t q = static_cast<size_t>(row) * cols() + static_cast<size_t>(head) * dim;
    double sum = 0;
    std::vector<double> y(dim);
    for (int position = c.window == 0 ? 0 : std::max(0, last + 1 - c.window); position <= last; ++position) {
        const size_t at = element(c, sequence, position, head / (shape.heads / shape.kv_heads));
        double score = 0;
        for (size_t i = 0; i < dim; ++i) score += noise(q + i) * noise(at + i);
        const double weight = std::exp(score / std::sqrt(static_cast<double>(shape.head_dim)));
        sum += weight;
        for (size_t i = 0; i < dim; ++i) y[i] += weight * noise(at + i);
    }
    for (double& value : y) value /= sum;
    return y;
}

Result<std::string> Bench::check(const Case& c) {
    for (int row : {0, c.all_rows() / 2, c.all_rows() - 1}) {
        for (int head : {0, setting_.shape.heads - 1}) {
            TRY(run([&](Recorder& recorder) -> Status {
                Buffer from = y_;
                const uint64_t at =
                    static_cast<uint64_t>(row) * cols() + static_cast<uint64_t>(head * setting_.shape.head_dim);
                from.offset += at * sizeof(uint16_t);
                recorder.copy(from, read_, read_.size_bytes);
                return Ok{};
            }));
            const std::vector<double> want = reference(c, row, head);
            for (size_t i = 0; i < want.size(); ++i) {
                uint16_t half = 0;
                std::memcpy(&half, read_.mapped + i * sizeof(half), sizeof(half));
                const double got = f16_to_f32(half);
                if (!(std::abs(got - want[i]) <= 0.002)) {
                    return fmt::format("row {}, head {}, element {}: {} instead of {}", row, head, i, got, want[i]);
                }
            }
        }
    }
    return std::string();
}

struct Measurement {
    AttentionTuning tuning;
    double seconds = 0;
    bool is_default = false;
    std::string wrong;
};

void print(const Measurement& m, const Setting& setting, const Case& c) {
    const Shape& shape = setting.shape;
    const double seen = c.seen() * c.sequences;
    const std::string sizes = c.one_row_each() ? fmt::format("lanes {:3} groups {:3}", m.tuning.lanes, m.tuning.groups)
                              : m.tuning.lane_rows != 0
                                  ? fmt::format("lanes {:3} x {:2}", m.tuning.lane_rows, m.tuning.lane_positions)
                                  : fmt::format("tile {:3} x {:2}", m.tuning.tile_rows, m.tuning.tile_positions);
    const double rate =
        c.one_row_each() ? seen * 4 * shape.kv_heads * shape.head_dim : seen * 4 * shape.heads * shape.head_dim;
    fmt::print("{:2} x {:4} rows, context {:5}, window {:4}: {:22} {:9.1f} us {:7.2f} {}{}{}{}\n", c.sequences, c.rows,
               c.past + c.rows, c.window, sizes, m.seconds * 1e6, rate / m.seconds / 1e12,
               c.one_row_each() ? "TB/s" : "TFLOP/s", m.is_default ? " (default)" : "",
               m.wrong.empty() ? "" : " WRONG ", m.wrong);
}

// The best three and the default; returns whether all results were right.
Result<bool> sweep_case(Bench& bench, const Setting& setting, const Case& c) {
    const Clock::time_point start = Clock::now();
    TRY(bench.prepare(c));
    std::vector<Measurement> measured;
    for (const AttentionTuning& tuning : tunings_for(bench.device(), c)) {
        const double budget = setting.budget_seconds / static_cast<double>(setting.cases.size());
        if (!measured.empty() && seconds_since(start) > budget) break;
        Measurement m{.tuning = tuning,
                      .seconds = TRY(bench.measure_attention(c, tuning)),
                      .is_default = measured.empty(),
                      .wrong = {}};
        m.wrong = TRY(bench.check(c));
        measured.push_back(m);
    }
    std::stable_sort(measured.begin(), measured.end(),
                     [](const Measurement& a, const Measurement& b) { return a.seconds < b.seconds; });
    bool right = true;
    for (size_t i = 0; i < measured.size(); ++i) {
        right = right && measured[i].wrong.empty();
        if (i < 3 || measured[i].is_default || !measured[i].wrong.empty()) print(measured[i], setting, c);
    }
    // last: it changes what the cache holds
    fmt::print("{:2} x {:4} rows: norm, rope and cache write {:9.1f} us\n", c.sequences, c.rows,
               TRY(bench.measure_heads(c)) * 1e6);
    std::fflush(stdout);
    return right;
}

Result<bool> sweep(const std::string& selector, const Setting& setting) {
    const std::unique_ptr<Bench> bench = TRY(Bench::open(selector, setting));
    fmt::print("{}\n", bench->device().info().name);
    bool right = true;
    for (const Case& c : setting.cases) right = TRY(sweep_case(*bench, setting, c)) && right;
    return right;
}

}  // namespace
}  // namespace tandem::vulkan

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): out of memory ends a benchmark
    CLI::App app("Measures Vulkan attention and finds its best sizes");
    std::string device;
    bool quick = false;
    double seconds = 30;
    app.add_option("--device", device, "Index or part of the name");
    app.add_option("--seconds", seconds, "Time to spend, about");
    app.add_flag("--quick", quick, "Tiny shapes, to see that it runs");
    CLI11_PARSE(app, argc, argv);
    namespace bench = tandem::vulkan;
    const tandem::Result<bool> right =
        bench::sweep(device, quick ? bench::quick_setting() : bench::full_setting(seconds));
    if (!right) fmt::print(stderr, "{}\n", right.error().message);
    return right && *right ? 0 : 1;
}
