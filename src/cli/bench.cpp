#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/text_output.h"
#include "cpu/backend.h"
#include "engine/agreement.h"
#include "engine/benchmark.h"
#include "engine/bundle.h"
#include "models/synthetic.h"

namespace tandem::cli {

namespace {

struct BenchOptions {
    std::string model;
    std::vector<int> decode = {1, 8, 32};
    std::vector<int> contexts = {512, 4096};
    std::vector<int> prompts = {512, 4096};
    int repetitions = 20;
    int chunk = engine::BenchmarkOptions().chunk;
    bool profile = false;
    bool check = false;
    bool tune = false;
    bool engine = false;
    bool json = false;
    std::string kv;
    DeviceOptions device;
};

// A model to measure and what its weights lie in.
struct Subject {
    models::MemoryFile random;  // of a shape; empty for a model that exists
    std::unique_ptr<const format::Checkpoint> checkpoint;
    models::Model model;
};

const models::NamedShape* find_shape(const std::string& name) {
    const std::span<const models::NamedShape> shapes = models::named_shapes();
    const auto found =
        std::find_if(shapes.begin(), shapes.end(), [&](const models::NamedShape& shape) { return shape.name == name; });
    return found == shapes.end() ? nullptr : &*found;
}

Result<models::MemoryFile> make_weights(const models::NamedShape& shape, int thread_count) {
    const uint64_t needed = TRY(models::random_gguf_bytes(shape.spec));
    const auto cpu = TRY(cpu::make_backend({.threads = thread_count}));
    const uint64_t available = cpu->describe().pools.at(0).free_bytes;
    if (available < needed) {
        return fail("{}: its random weights need {} MiB of memory, {} MiB short of what is free", shape.name,
                    needed >> 20, (needed - available) >> 20);
    }
    note(fmt::format("making {} of random weights", format_bytes(needed)));
    Progress progress("weights");
    ThreadPool threads(thread_count);
    return models::make_random_gguf(shape.spec, threads, [&](uint64_t done, uint64_t total) {
        progress.show(static_cast<double>(done), static_cast<double>(total));
    });
}

Result<Subject> open_subject(const BenchOptions& options) {
    Subject subject;
    if (const models::NamedShape* const shape = find_shape(options.model)) {
        subject.random = TRY(make_weights(*shape, options.device.threads));
        subject.checkpoint = std::make_unique<format::Checkpoint>(
            TRY(format::Checkpoint::from_gguf(subject.random.bytes(), std::string(shape->name))));
    } else {
        subject.checkpoint = std::make_unique<format::Checkpoint>(TRY(engine::open_checkpoint(options.model)));
    }
    subject.model = TRY(models::load(*subject.checkpoint));
    return subject;
}

Status measure(const BenchOptions& options, const Subject& subject, device::Backend& backend, BenchReport& report) {
    report.rates = TRY(measure_rates(options.device));
    note(fmt::format("{} ({}) reads {:.1f} GB/s; bringing the weights there", backend.describe().name,
                     backend.describe().hardware, report.rates.read_bytes_per_s / 1e9));
    const Stopwatch upload;
    const auto benchmark = TRY(engine::Benchmark::open(subject.model, backend,
                                                       {.repetitions = options.repetitions,
                                                        .chunk = options.chunk,
                                                        .kv_dtype = kv_dtype_of(options.kv),
                                                        .profile = options.profile,
                                                        .engine = options.engine}));
    report.load_s = upload.seconds();
    note(fmt::format("weights are there after {:.1f} s", report.load_s));
    const auto add = [&](engine::BenchmarkRow row) {
        report.rows.push_back(std::move(row));
        note(describe(report, report.rows.back()));
    };
    for (int context : options.contexts) {
        for (int sequences : options.decode) add(TRY(benchmark->decode(sequences, context)));
    }
    for (int tokens : options.prompts) add(TRY(benchmark->prompt(tokens)));
    if (!options.check) return Ok{};

    note("comparing logits with the CPU's");
    const auto cpu = TRY(cpu::make_backend({.threads = options.device.threads}));
    report.agreement = TRY(engine::check_agreement(subject.model, backend, *cpu,
                                                   {.decode = options.decode,
                                                    .prompts = options.prompts,
                                                    .chunk = options.chunk,
                                                    .kv_dtype = kv_dtype_of(options.kv)}));
    return Ok{};
}

Status tune_device(const BenchOptions& options, const Subject& subject, device::Backend& backend) {
    const auto benchmark = TRY(engine::Benchmark::open(
        subject.model, backend,
        {.repetitions = options.repetitions, .chunk = options.chunk, .kv_dtype = kv_dtype_of(options.kv)}));
    const auto seconds = [](const Result<engine::BenchmarkRow>& row) -> Result<double> {
        if (!row) return row.error();
        return row->seconds.median;
    };
    const std::string file = TRY(tune(
        options.device, backend,
        {.decode_seconds = [&](int sequences, int context) { return seconds(benchmark->decode(sequences, context)); },
         .prompt_seconds = [&](int tokens) { return seconds(benchmark->prompt(tokens)); }}));
    note(fmt::format("kept in {}", file));
    return Ok{};
}

Result<int> bench(const BenchOptions& options) {
    const auto backend = TRY(open_device(options.device));
    const Subject subject = TRY(open_subject(options));
    if (options.tune) TRY(tune_device(options, subject, *backend));
    BenchReport report{.model = subject.checkpoint->name(), .device = backend->describe()};
    report.repetitions = options.repetitions;
    TRY(measure(options, subject, *backend, report));
    print(options.json ? to_json(report) : to_text(report));
    return agrees(report) ? 0 : kExitFailed;
}

constexpr const char* kBenchExamples =
    "MODEL is a model as for `tandem run`, or a shape that is filled with random weights in memory: gemma3-1b,\n"
    "gemma3-4b, gemma3-27b (Q4_0, the embedding Q6_K or Q8_0), gemma3-1b-q8_0.\n"
    "Examples:\n"
    "  tandem bench --device vulkan --model gemma3-27b --check\n"
    "  tandem bench --decode 1 --context 512 --prompt 512     one sequence of the embedded model on the CPU\n"
    "Figures are medians. Shares are of what the device was measured to do at best in the same run.";

}  // namespace

Command add_bench(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("bench", "Measure how fast a model runs, and how near to the limit");
    const auto options = std::make_shared<BenchOptions>();
    constexpr int kMost = 1 << 20;
    const auto list = [&](const char* name, std::vector<int>& values, const char* help) {
        app->add_option(name, values, help)->delimiter(',')->option_text("N,N,...")->check(CLI::Range(0, kMost));
    };
    app->add_option("--model", options->model, "Model or shape (the embedded model)")->option_text("MODEL");
    list("--decode", options->decode, "Numbers of sequences to decode together; 0: none (1,8,32)");
    list("--context", options->contexts, "Positions they have behind them (512,4096)");
    list("--prompt", options->prompts, "Lengths of prompts; 0: none (512,4096)");
    app->add_option("--repeat", options->repetitions, "Repetitions of each measurement (20)")
        ->option_text("N")
        ->check(CLI::Range(1, kMost));
    app->add_option("--chunk", options->chunk, "Tokens of a prompt to run at once (2048)")
        ->option_text("N")
        ->check(CLI::Range(1, kMost));
    app->add_flag("--check", options->check, "Compare logits with the CPU's, and fail when they differ too much");
    app->add_flag("--tune", options->tune,
                  "First search what the GPU's kernels run fastest with, and keep it for later runs");
    app->add_flag("--engine", options->engine, "Measure through the engine as it serves requests, not bare steps");
    app->add_flag("--profile", options->profile, "Show where the time of each goes, if the device can tell");
    app->add_flag("--json", options->json, "Print JSON");
    add_kv_option(*app, options->kv);
    add_device_options(*app, options->device);
    app->footer(kBenchExamples);
    return {app, [options]() -> Result<int> {
                std::erase(options->decode, 0);
                std::erase(options->prompts, 0);
                return bench(*options);
            }};
}

}  // namespace tandem::cli
