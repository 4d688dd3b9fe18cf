#include "engine/benchmark.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "engine/generate.h"

namespace tandem::engine {

namespace {

double processor_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Runs body(i) for a warm-up and then for each repetition.
struct Timing {
    Summary seconds;
    double cpu_s = 0;  // of one repetition
};
template <typename F>
Result<Timing> repeat(int warm_up, int repetitions, const F& body) {
    std::vector<double> samples;
    double cpu_before = 0;
    for (int i = 0; i < warm_up + repetitions; ++i) {
        if (i == warm_up) cpu_before = processor_seconds();
        const auto begin = std::chrono::steady_clock::now();
        TRY(body(i));
        if (i >= warm_up)
            samples.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    const double cpu = processor_seconds() - cpu_before;
    return Timing{.seconds = summarize(std::move(samples)), .cpu_s = cpu / repetitions};
}

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kWakingTime{300};

}  // namespace

Result<std::unique_ptr<Benchmark>> Benchmark::open(const models::Model& model, device::Backend& backend,
                                                   const BenchmarkOptions& options) {
    std::unique_ptr<Benchmark> benchmark(new Benchmark(model, backend, options));
    benchmark->smallest_ = TRY(Stage::open(model, backend, {.kv_dtype = options.kv_dtype}));
    return benchmark;
}

Result<std::vector<device::StageTime>> Benchmark::profile_of(Stage& stage) const {
    if (!options_.profile) return std::vector<device::StageTime>();
    TRY(stage.profile());  // the first warms up
    return stage.profile();
}

Result<BenchmarkRow> Benchmark::decode(int sequences, int context) {
    constexpr int kWarmUp = 3;
    const int most_steps = tokens_at_once(0);
    const auto stage = TRY(Stage::open(model_, backend_,
                                       {.sequences = sequences,
                                        .positions = context + (kWarmUp + options_.repetitions) * most_steps + 1,
                                        .kv_dtype = options_.kv_dtype}));
    const auto begin = Clock::now();
    Clock::time_point last;
    do {
        last = Clock::now();
        TRY(stage->step(context, 1, 0));  // the same again and again, until a GPU's clocks are up
    } while (Clock::now() - begin < kWakingTime);
    const std::chrono::duration<double> step_time = Clock::now() - last;
    const int steps = std::min(stage->max_steps(), tokens_at_once(step_time.count()));
    Timing timing = TRY(repeat(kWarmUp, options_.repetitions,
                               [&](int i) { return stage->step_with_drawn(context + 1 + i * steps, steps); }));
    timing.seconds.scale(1.0 / steps);
    const Work work = stage->work();
    TRY(stage->step(context + 1, 1, 0));  // what is profiled is a single step
    const auto profile = TRY(profile_of(*stage));
    return BenchmarkRow{.kind = BenchmarkRow::Kind::decode,
                        .sequences = sequences,
                        .context = context,
                        .tokens = sequences,
                        .seconds = timing.seconds,
                        .work = work,
                        .cpu_s = timing.cpu_s / (sequences * steps),
                        .profile = profile};
}

Result<BenchmarkRow> Benchmark::prompt(int tokens) {
    constexpr int kWarmUp = 2;
    const int chunk = std::min(options_.chunk, tokens);
    const auto stage =
        TRY(Stage::open(model_, backend_, {.positions = tokens, .rows = chunk, .kv_dtype = options_.kv_dtype}));
    Work work;
    const auto read = [&](int /*repetition*/) -> Status {
        work = {};
        for (int past = 0; past < tokens; past += chunk) {
            const int rows = std::min(chunk, tokens - past);
            TRY(stage->step(past, rows, past + rows == tokens ? std::optional(rows - 1) : std::nullopt));
            const Work part = stage->work();
            work.bytes += part.bytes;
            work.flops += part.flops;
        }
        return Ok{};
    };
    const Timing timing = TRY(repeat(kWarmUp, options_.repetitions, read));
    const auto profile = TRY(profile_of(*stage));
    return BenchmarkRow{.kind = BenchmarkRow::Kind::prompt,
                        .context = tokens,
                        .tokens = tokens,
                        .seconds = timing.seconds,
                        .work = work,
                        .cpu_s = timing.cpu_s / tokens,
                        .profile = profile};
}

}  // namespace tandem::engine
