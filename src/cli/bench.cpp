#include <CLI/CLI.hpp>

#include "base/file.h"
#include "cli/bench_against.h"
#include "cli/bench_load.h"
#include "cli/bench_report.h"
#include "cli/bench_saved.h"
#include "cli/bench_subject.h"
#include "cli/command.h"
#include "cli/device_flags.h"
#include "cli/engine_options.h"
#include "cli/interrupt.h"
#include "cli/rank_job.h"
#include "cli/text_output.h"
#include "cpu/backend.h"
#include "measure/agreement.h"
#include "measure/benchmark.h"
#include "measure/html_report.h"
#include "user/npu_gain.h"

namespace tandem::cli {

namespace {

constexpr int kRepetitions = 80;
constexpr double kMostSeconds = 20;  // of a measurement
constexpr int kTuneRepetitions = 20;

struct BenchOptions {
    SubjectChoice subject{.model = "tales", .type = ""};
    std::vector<int> decode = {1, 8, 32};
    std::vector<int> contexts = {512, 4096};
    std::vector<int> prompts = {512, 4096};
    int repetitions = 0;  // 0: kRepetitions, as far as kMostSeconds go
    int chunk = measure::BenchmarkOptions().chunk;
    bool profile = false;
    bool check = false;
    bool tune = false;
    bool engine = false;
    bool load = false;
    std::vector<std::string> compare;  // two files
    std::string from;                  // a file; empty: what is measured now
    std::string html;
    AgainstOptions against;
    bool json = false;
    std::string kv;
    user::DeviceOptions device;
};

measure::BenchmarkOptions benchmark_options(const BenchOptions& options) {
    measure::BenchmarkOptions benchmark;
    benchmark.repetitions = options.repetitions > 0 ? options.repetitions : kRepetitions;
    if (options.repetitions == 0) benchmark.most_seconds = kMostSeconds;
    benchmark.chunk = options.chunk;
    benchmark.kv_dtype = kv_dtype_of(options.kv);
    return benchmark;
}

// What the model runs on: `job` is null where it is one process.
struct BenchDevice {
    user::Devices& devices;
    device::Backend& backend;
    const RankJob* job = nullptr;
};

Status measure(const BenchOptions& options, const Subject& subject, const BenchDevice& device, BenchReport& report) {
    auto& [devices, backend, job] = device;
    report.rates = TRY(devices.measure_rates());
    note(fmt::format("{} ({}) reads {:.1f} GB/s; bringing the weights there", backend.describe().name,
                     backend.describe().hardware, report.rates.read_bytes_per_s / 1e9));
    const Stopwatch upload;
    measure::BenchmarkOptions what = benchmark_options(options);
    what.profile = options.profile || !options.html.empty();
    what.engine = options.engine;
    measure::EnergyMeter energy(backend.describe().kind == device::Kind::integrated_gpu);
    if (!energy.empty()) what.energy = &energy;
    report.repetitions = what.repetitions;
    const auto benchmark = TRY(measure::Benchmark::open(subject.model, backend, what));
    report.load_s = upload.seconds();
    note(fmt::format("weights are there after {:.1f} s", report.load_s));
    report.device = backend.describe();  // says which layers several devices have
    const auto add = [&](measure::BenchmarkRow row) {
        report.rows.push_back(std::move(row));
        report.shares.push_back(job != nullptr ? job->last_step() : devices.last_shares());
        note(describe(report, report.rows.back()));
    };
    for (int context : options.contexts) {
        for (int sequences : options.decode) add(TRY(benchmark->decode(sequences, context)));
    }
    for (int tokens : options.prompts) add(TRY(benchmark->prompt(tokens)));
    if (!options.check) return Ok{};

    note("comparing logits with the CPU's");
    const auto cpu = TRY(cpu::make_backend({.threads = options.device.threads}));
    report.agreement = TRY(measure::check_agreement(subject.model, backend, *cpu,
                                                    {.decode = options.decode,
                                                     .prompts = options.prompts,
                                                     .chunk = options.chunk,
                                                     .kv_dtype = kv_dtype_of(options.kv)}));
    return Ok{};
}

Status tune_device(const BenchOptions& options, const Subject& subject, user::Devices& devices,
                   device::Backend& backend) {
    measure::BenchmarkOptions what = benchmark_options(options);
    if (options.repetitions == 0) what.repetitions = kTuneRepetitions;
    const auto benchmark = TRY(measure::Benchmark::open(subject.model, backend, what));
    const auto seconds = [](const Result<measure::BenchmarkRow>& row) -> Result<double> {
        if (!row) return row.error();
        return row->seconds.median;
    };
    const std::string file = TRY(devices.tune(
        {.decode_seconds = [&](int sequences, int context) { return seconds(benchmark->decode(sequences, context)); },
         .prompt_seconds = [&](int tokens) { return seconds(benchmark->prompt(tokens)); },
         .stopped = interrupted}));
    note(fmt::format("{}kept in {}", interrupted() ? "interrupted: the best so far is " : "", file));
    return Ok{};
}

Result<double> prompt_seconds(const BenchOptions& options, const Subject& subject, const std::string& npu) {
    constexpr int kPrompt = 512;
    user::DeviceOptions with = options.device;
    with.npu.npu = npu;
    user::Devices devices(with, note);
    const auto backend = TRY(devices.open(subject.model.weights.size_bytes()));
    const auto benchmark = TRY(measure::Benchmark::open(subject.model, *backend, benchmark_options(options)));
    const measure::BenchmarkRow row = TRY(benchmark->prompt(kPrompt));
    return row.seconds.median;
}

// Whether the machine's NPU, if it has one, is worth its place beside the device: what --npu auto goes by from then on.
Status tune_npu(const BenchOptions& options, const Subject& subject, const std::string& hardware) {
    if (options.device.npu.npu != "auto" || !user::describe_npu().unusable.empty()) return Ok{};
    const user::NpuGain gain{.alone_s = TRY(prompt_seconds(options, subject, "off")),
                             .together_s = TRY(prompt_seconds(options, subject, "on"))};
    note(fmt::format("a prompt takes {:.1f} ms alone and {:.1f} ms with the NPU, which is {}", gain.alone_s * 1e3,
                     gain.together_s * 1e3, gain.helps() ? "used from now on" : "not used by itself"));
    return user::keep_npu_gain(user::npu_gain_file(), hardware, gain);
}

// One of the other ranks makes the model, or opens it, as rank 0 does.
Result<int> bench_as_rank(const BenchOptions& options, RankJob& job) {
    Subject subject;
    return job.work([&]() -> Result<const models::Model*> {
        user::Devices devices(options.device, note);
        const uint64_t bytes = TRY(subject_bytes(options.subject));
        const auto backend = TRY(devices.open(bytes));
        subject = TRY(open_subject(options.subject, backend->describe(), options.device.threads));
        return &subject.model;
    });
}

Result<int> bench(BenchOptions& options) {
    if (!options.compare.empty()) return compare_saved(options.compare[0], options.compare[1], options.json);
    if (!options.from.empty() && options.html.empty())
        return fail("--from {}: is for --html FILE; --compare takes two saved runs", options.from);
    if (!options.from.empty()) return draw_saved(options.from, options.html);
    if (!options.against.url.empty()) {
        options.against.json = options.json;
        return bench_against(options.against);
    }
    if (options.load) {
        return bench_load({.model = options.subject.model,
                           .repetitions = options.repetitions,
                           .kv_dtype = kv_dtype_of(options.kv),
                           .device = options.device,
                           .json = options.json});
    }
    const std::unique_ptr<RankJob> job = TRY(RankJob::join(options.device));
    if (job && !job->is_first()) return bench_as_rank(options, *job);
    user::Devices devices(options.device, note);
    TRY(devices.check());
    const uint64_t weight_bytes = TRY(subject_bytes(options.subject));
    const auto backend = TRY(open_device(devices, job.get(), weight_bytes));
    const Subject subject = TRY(open_subject(options.subject, backend->describe(), options.device.threads));
    if (options.tune) {
        catch_endings();
        TRY(tune_device(options, subject, devices, *backend));
        if (interrupted()) return interrupt_exit_code();
        TRY(tune_npu(options, subject, backend->describe().hardware));
    }
    BenchReport report{.model = subject.checkpoint->name(), .device = backend->describe()};
    TRY(measure(options, subject, {devices, *backend, job.get()}, report));
    if (!options.html.empty()) {
        const measure::SavedRun run = TRY(measure::parse_saved_run(to_json(report), report.model));
        TRY(write_file(options.html, measure::html_report(run)));
    }
    print(options.json ? to_json(report) : to_text(report) + (job ? job->report_text() : std::string()));
    return agrees(report) ? 0 : kExitFailed;
}

constexpr const char* kBenchExamples =
    "MODEL is a model as for `tandem run`, or a shape that is filled with random weights in memory: gemma3-1b,\n"
    "gemma3-4b, gemma3-27b (Q4_0, the embedding Q6_K or Q8_0), gemma3-1b-q8_0, gemma4-31b (Q4_K_M);\n"
    "with experts qwen3-30b-a3b (Q4_K), gpt-oss-20b (MXFP4), gemma4-26b-a4b, glm-4.5-air (Q4_K_M).\n"
    "Examples:\n"
    "  tandem bench gemma3-27b --device vulkan --check\n"
    "  tandem bench gemma3-4b --type q4_k_m\n"
    "  tandem bench --decode 1 --context 512 --prompt 512     one sequence of the embedded model on the CPU\n"
    "  tandem bench gemma3-1b --html page.html --json > a.json\n"
    "  tandem bench --compare a.json b.json\n"
    "  tandem bench model.gguf --load\n"
    "  tandem bench --against http://localhost:8080 --rate 1,2,4 --ttft-ms 500\n"
    "Figures are medians, +- is the 95 % confidence interval of the mean without outliers, which are counted. Shares "
    "are\n"
    "of what the device was measured to do at best in the same run; what fits the caches is not limited by reading "
    "and\n"
    "has none.";

}  // namespace

Command add_bench(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("bench", "Measure how fast a model runs, and how near to the limit");
    const auto options = std::make_shared<BenchOptions>();
    constexpr int kMost = 1 << 20;
    const auto list = [&](const char* name, std::vector<int>& values, const char* help) {
        // what stands behind a space is the next argument
        app->add_option(name, values, help)
            ->delimiter(',')
            ->allow_extra_args(false)
            ->option_text("N,N,...")
            ->check(CLI::Range(0, kMost));
    };
    CLI::Option* const model =
        app->add_option("MODEL,--model", options->subject.model, "Model or shape (tales)")->option_text(" ");
    std::vector<std::string> types;
    for (const models::Mix& mix : models::mixes()) types.emplace_back(mix.name);
    app->add_option("--type", options->subject.type,
                    "Type of a shape's weights, or a mix as `tandem quantize --type` has them (as below)")
        ->option_text("TYPE")
        ->transform(CLI::IsMember(types, CLI::ignore_case));
    list("--decode", options->decode, "Numbers of sequences to decode together; 0: none (1,8,32)");
    list("--context", options->contexts, "Positions they have behind them (512,4096)");
    list("--prompt", options->prompts, "Lengths of prompts (prefill); 0: none (512,4096)");
    app->add_option("--repeat", options->repetitions,
                    "Repetitions of each measurement (80, or those of 20 s and at least 10)")
        ->option_text("N")
        ->check(CLI::Range(1, kMost));
    app->add_option("--chunk", options->chunk, "Tokens of a prompt to run at once (2048)")
        ->option_text("N")
        ->check(CLI::Range(1, kMost));
    app->add_flag("--check", options->check, "Compare logits with the CPU's, and fail when they differ too much");
    app->add_flag("--tune", options->tune,
                  "First search what the GPU's kernels run fastest with, and keep it for later runs; Ctrl-C keeps\n"
                  "the best so far");
    app->add_flag("--engine", options->engine, "Measure through the engine as it serves requests, not bare steps");
    app->add_flag("--profile", options->profile, "Show where the time of each goes, if the device can tell");
    app->add_option("--html", options->html, "Also write a page with charts: roofline, sweeps, time by operation")
        ->option_text("FILE");
    app->add_option("--from", options->from, "For --html: draw a saved run, and measure nothing")
        ->option_text("RUN.json");
    app->add_option("--compare", options->compare,
                    "Compare two saved runs (of --json), and tell what is faster from what only seems so")
        ->option_text("A.json B.json")
        ->expected(2);
    app->add_flag("--load", options->load,
                  "Measure how fast the model becomes ready, beside its disk and its device, and nothing else");
    app->add_flag("--json", options->json, "Print JSON");
    add_kv_option(*app, options->kv);
    add_device_options(*app, options->device);
    add_against_options(*app, options->against);
    app->footer(kBenchExamples);
    return {app, [options, model]() -> Result<int> {
                if (model->count() > 0) options->against.model = options->subject.model;
                std::erase(options->decode, 0);
                std::erase(options->prompts, 0);
                return bench(*options);
            }};
}

}  // namespace tandem::cli
