#include "measure/benchmark.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "engine/engine.h"

namespace tandem::measure {

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
    std::vector<double> samples_s;
    double cpu_s = 0;               // of one repetition
    std::vector<EnergyUse> energy;  // of one as well

    // To those of a part of a repetition, or of each of its tokens.
    void scale(double factor) {
        seconds.scale(factor);
        for (double& sample : samples_s) sample *= factor;
    }
};

// What was used, for each of so many.
std::vector<EnergyUse> shared_among(std::vector<EnergyUse> energy, double count) {
    for (EnergyUse& use : energy) use.joules /= count;
    return energy;
}

// Counts processor time and energy from the first repetition that counts.
class Consumption {
  public:
    explicit Consumption(EnergyMeter* meter) : meter_(meter) {}
    void begin() {
        cpu_before_ = processor_seconds();
        if (meter_ != nullptr) span_.emplace(*meter_);
    }
    double cpu_s() const { return processor_seconds() - cpu_before_; }
    std::vector<EnergyUse> energy() { return span_ ? span_->stop() : std::vector<EnergyUse>(); }

  private:
    EnergyMeter* meter_;
    double cpu_before_ = 0;
    std::optional<EnergySpan> span_;
};
template <typename F>
Result<Timing> repeat(int warm_up, const BenchmarkOptions& options, const F& body) {
    constexpr int kLeast = 10;
    std::vector<double> samples;
    Consumption consumption(options.energy);
    double spent = 0;
    for (int i = 0; i < warm_up + options.repetitions; ++i) {
        if (i == warm_up) consumption.begin();
        if (i >= warm_up + kLeast && spent > options.most_seconds) break;
        const auto begin = std::chrono::steady_clock::now();
        TRY(body(i));
        if (i < warm_up) continue;
        samples.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        spent += samples.back();
    }
    const auto count = static_cast<double>(samples.size());
    return Timing{.seconds = summarize(samples),
                  .samples_s = samples,
                  .cpu_s = consumption.cpu_s() / count,
                  .energy = shared_among(consumption.energy(), count)};
}

using Clock = std::chrono::steady_clock;

// Seconds of one step, once it takes no longer and no shorter from one moment to the next: a GPU wakes up slowly, and a
// driver tidies up after weights were brought there.
template <typename F>
Result<double> settled_seconds(const F& step) {
    constexpr std::chrono::milliseconds kMoment{150};
    constexpr std::chrono::seconds kMost{4};
    constexpr double kAlike = 1.05;
    const Clock::time_point begin = Clock::now();
    double least = std::numeric_limits<double>::infinity();
    for (int alike = 0; alike < 2 && Clock::now() - begin < kMost;) {
        const Clock::time_point moment = Clock::now();
        int steps = 0;
        for (; steps == 0 || Clock::now() - moment < kMoment; ++steps) TRY(step());
        const double seconds = std::chrono::duration<double>(Clock::now() - moment).count() / steps;
        alike = seconds < least * kAlike && seconds * kAlike > least ? alike + 1 : 0;
        least = std::min(least, seconds);
    }
    return least;
}

// A request of the fixed tokens for `tokens` more.
engine::Request fixed_request(const models::Model& model, int length, int tokens) {
    engine::Request request;
    request.max_tokens = tokens;
    request.prompt.reserve(static_cast<size_t>(length));
    for (int i = 0; i < length; ++i) request.prompt.push_back(fixed_token(i, model.vocab));
    return request;
}

// Of `sequences` that each run `rows` after `past` positions.
plan::Work work_of_rows(const models::Model& model, int sequences, int past, int rows, DType kv_dtype) {
    device::Batch batch;
    batch.tokens.resize(static_cast<size_t>(sequences) * static_cast<size_t>(rows));
    batch.output_rows.resize(static_cast<size_t>(sequences));
    batch.sequences.assign(static_cast<size_t>(sequences), {.first_row = 0, .rows = rows, .past = past, .blocks = {}});
    return plan::work_of(model.program, batch, kv_dtype);
}

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
    if (options_.engine) return decode_by_engine(sequences, context);
    constexpr int kWarmUp = 3;
    // So many in a row, and then from the first position again: the context should stay near the one asked for.
    constexpr int kInARow = 20;
    const int most_steps = engine::tokens_at_once(0);
    const auto stage = TRY(Stage::open(
        model_, backend_,
        {.sequences = sequences, .positions = context + kInARow * most_steps + 1, .kv_dtype = options_.kv_dtype}));
    const double step_seconds = TRY(settled_seconds([&] { return stage->step(context, 1, 0); }));
    const int steps = std::min(stage->max_steps(), engine::tokens_at_once(step_seconds));
    Timing timing = TRY(repeat(
        kWarmUp, options_, [&](int i) { return stage->step_with_drawn(context + 1 + i % kInARow * steps, steps); }));
    timing.scale(1.0 / steps);
    const plan::Work work = stage->work();
    TRY(stage->step(context + 1, 1, 0));  // what is profiled is a single step
    const auto profile = TRY(profile_of(*stage));
    return BenchmarkRow{.kind = BenchmarkRow::Kind::decode,
                        .sequences = sequences,
                        .context = context,
                        .tokens = sequences,
                        .seconds = timing.seconds,
                        .samples_s = timing.samples_s,
                        .work = work,
                        .pass_bytes = work.bytes,
                        .cpu_s = timing.cpu_s / (sequences * steps),
                        .energy = shared_among(timing.energy, sequences * steps),
                        .profile = profile};
}

Result<BenchmarkRow> Benchmark::prompt(int tokens) {
    if (options_.engine) return prompt_by_engine(tokens);
    constexpr int kWarmUp = 2;
    const int chunk = std::min(options_.chunk, tokens);
    const auto stage =
        TRY(Stage::open(model_, backend_, {.positions = tokens, .rows = chunk, .kv_dtype = options_.kv_dtype}));
    plan::Work work;
    double pass_bytes = 0;
    const auto read = [&](int /*repetition*/) -> Status {
        work = {};
        for (int past = 0; past < tokens; past += chunk) {
            const int rows = std::min(chunk, tokens - past);
            TRY(stage->step(past, rows, past + rows == tokens ? std::optional(rows - 1) : std::nullopt));
            const plan::Work part = stage->work();
            work.bytes += part.bytes;
            work.flops += part.flops;
            pass_bytes = std::max(pass_bytes, part.bytes);
        }
        return Ok{};
    };
    const Timing timing = TRY(repeat(kWarmUp, options_, read));
    const auto profile = TRY(profile_of(*stage));
    return BenchmarkRow{.kind = BenchmarkRow::Kind::prompt,
                        .context = tokens,
                        .tokens = tokens,
                        .seconds = timing.seconds,
                        .samples_s = timing.samples_s,
                        .work = work,
                        .pass_bytes = pass_bytes,
                        .cpu_s = timing.cpu_s / tokens,
                        .energy = shared_among(timing.energy, tokens),
                        .profile = profile};
}

Result<BenchmarkRow> Benchmark::decode_by_engine(int sequences, int context) {
    constexpr int kWarmUp = 3;
    // What was drawn cannot be taken back, and more of it would measure another context than the one asked for.
    const int repetitions = std::min(options_.repetitions, 20);
    const int more = (kWarmUp + 1 + repetitions) * engine::tokens_at_once(0);
    const int length = std::max(1, context) + more;
    const auto engine = TRY(engine::Engine::open(model_, {}, backend_,
                                                 {.context = length,
                                                  .sequences = sequences,
                                                  .rows = options_.chunk,
                                                  .cache_tokens = sequences * length,
                                                  .kv_dtype = options_.kv_dtype}));
    int64_t drawn = 0;
    int begun = 0;
    Error failure;
    for (int i = 0; i < sequences; ++i) {
        engine::Request request = fixed_request(model_, std::max(1, context), more);
        request.salt = fmt::format("{}", i);  // each has blocks of its own
        request.on_event = [&, first = true](const engine::Event& event) mutable {
            drawn += std::ssize(event.tokens);
            if (std::exchange(first, false)) ++begun;
            if (event.finish != nullptr) failure.message = event.finish->error;
        };
        TRY(engine->submit(std::move(request)));
    }
    const auto step = [&]() -> Status {
        engine->step();
        if (!failure.message.empty()) return failure;
        return Ok{};
    };
    while (begun < sequences) TRY(step());
    std::vector<double> samples;
    Consumption consumption(options_.energy);
    int64_t drawn_before = 0;
    for (int i = 0; i < kWarmUp + repetitions; ++i) {
        if (i == kWarmUp) {
            consumption.begin();
            drawn_before = drawn;
        }
        const int64_t before = drawn;
        const auto begin = Clock::now();
        TRY(step());
        const std::chrono::duration<double> seconds = Clock::now() - begin;
        if (i >= kWarmUp) samples.push_back(seconds.count() * sequences / static_cast<double>(drawn - before));
    }
    const auto counted = static_cast<double>(drawn - drawn_before);
    const DType kv_dtype = options_.kv_dtype.value_or(engine::default_kv_dtype(model_));
    const plan::Work work = work_of_rows(model_, sequences, context, 1, kv_dtype);
    return BenchmarkRow{.kind = BenchmarkRow::Kind::decode,
                        .sequences = sequences,
                        .context = context,
                        .tokens = sequences,
                        .seconds = summarize(samples),
                        .samples_s = samples,
                        .work = work,
                        .pass_bytes = work.bytes,
                        .cpu_s = consumption.cpu_s() / counted,
                        .energy = shared_among(consumption.energy(), counted)};
}

Result<BenchmarkRow> Benchmark::prompt_by_engine(int tokens) {
    constexpr int kWarmUp = 2;
    const auto engine = TRY(engine::Engine::open(model_, {}, backend_,
                                                 {.context = tokens,
                                                  .sequences = 1,
                                                  .rows = options_.chunk,
                                                  .cache_tokens = tokens,
                                                  .kv_dtype = options_.kv_dtype}));
    const auto read = [&](int repetition) -> Status {
        engine::Request request = fixed_request(model_, tokens, 1);
        request.salt = fmt::format("{}", repetition);  // nothing of it is known
        Error failure;
        request.on_event = [&](const engine::Event& event) {
            if (event.finish != nullptr) failure.message = event.finish->error;
        };
        TRY(engine->submit(std::move(request)));
        engine->run_until_idle();
        if (!failure.message.empty()) return failure;
        return Ok{};
    };
    const Timing timing = TRY(repeat(kWarmUp, options_, read));
    const DType kv_dtype = options_.kv_dtype.value_or(engine::default_kv_dtype(model_));
    plan::Work work;
    double pass_bytes = 0;
    for (int past = 0; past < tokens; past += options_.chunk) {
        const plan::Work part = work_of_rows(model_, 1, past, std::min(options_.chunk, tokens - past), kv_dtype);
        work.bytes += part.bytes;
        work.flops += part.flops;
        pass_bytes = std::max(pass_bytes, part.bytes);
    }
    return BenchmarkRow{.kind = BenchmarkRow::Kind::prompt,
                        .context = tokens,
                        .tokens = tokens,
                        .seconds = timing.seconds,
                        .samples_s = timing.samples_s,
                        .work = work,
                        .pass_bytes = pass_bytes,
                        .cpu_s = timing.cpu_s / tokens,
                        .energy = shared_among(timing.energy, tokens)};
}

}  // namespace tandem::measure
