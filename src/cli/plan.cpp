#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/machine_profile.h"
#include "cli/plan_report.h"
#include "cli/plan_subject.h"
#include "cli/text_output.h"
#include "engine/runner.h"
#include "measure/benchmark.h"
#include "npu/xrt/discovery.h"
#include "user/devices.h"

namespace tandem::cli {

namespace {

constexpr int kMostTogether = 256;  // sequences that are tried for a target
constexpr int kMostMachines = 64;

struct PlanOptions {
    std::string model = "gemma3-27b";
    std::string machine;  // empty: this one, or the first where its figures are given
    std::vector<int> batches = {1, 8, 32};
    int context = 0;
    std::vector<int> prompts;
    std::string type;
    std::string kv;
    double target = 0;
    user::DeviceOptions device;
    double gpu_tflops = 0;
    double gpu_gb_per_s = 0;
    std::string array;
    double gpu_watts = PlacementQuestion().gpu_watts;
    double npu_watts = PlacementQuestion().npu_watts;
    bool json = false;
    std::string svg;
    int machines = 0;  // together; 0: not asked for
    std::vector<std::string> links = {"2.5gbe", "10gbe", "usb4"};

    // Figures that are not this machine's.
    bool is_imagined() const { return gpu_tflops > 0 || gpu_gb_per_s > 0 || !array.empty(); }
};

// ---- Machines

// A GPU with memory of its own reads the machine's through a bus: that is no room for what is to be fast.
uint64_t room_of(const device::Description& device) {
    if (device.kind == device::Kind::gpu && !device.pools.empty()) return device.pools.front().free_bytes;
    return device.free_bytes();
}

Result<PlanDevice> device_here(const user::DeviceOptions& options) {
    user::Devices devices(options, note);
    const std::unique_ptr<device::Backend> backend = TRY(devices.open(0));
    const DeviceProfile profile = TRY(profile_of(devices, *backend));
    const device::Description now = backend->describe();
    return PlanDevice{.name = now.name,
                      .hardware = now.hardware,
                      .speeds = profile.speeds,
                      .room_bytes = room_of(now),
                      .step_rows = now.step_rows};
}

Result<PlanMachine> machine_here(const PlanOptions& options) {
    PlanMachine machine{.name = "here", .title = {}, .known = nullptr, .devices = {}, .npu = {}};
    user::DeviceOptions device = options.device;
    device.npu.npu = "off";
    machine.devices.push_back(TRY(device_here(device)));
    if (device.device == "auto" && machine.devices.front().name != "cpu") {
        device.device = "cpu";
        machine.devices.push_back(TRY(device_here(device)));
    }
    for (const PlanDevice& each : machine.devices)
        machine.title += fmt::format("{}{}", machine.title.empty() ? "" : ", ", each.hardware);
    const npu::Discovery found = npu::discover(npu::System::here());
    if (found.device) machine.npu = found.device->array;
    return machine;
}

PlanMachine machine_of(const plan::KnownMachine& known, const PlanOptions& options) {
    PlanMachine machine{.name = std::string(known.name),
                        .title = std::string(known.title),
                        .known = &known,
                        .devices = {},
                        .npu = options.array.empty() ? std::string(known.npu) : options.array};
    plan::Speeds speeds = plan::speeds_of(known);
    if (options.gpu_gb_per_s > 0) speeds.rates.read_bytes_per_s = options.gpu_gb_per_s * 1e9;
    if (options.gpu_tflops > 0) {  // that its kernels reach
        speeds.rates.matrix_flops_per_s = options.gpu_tflops * 1e12;
        speeds.matrix_share = 1;
    }
    machine.devices.push_back({.name = "gpu",
                               .hardware = machine.title,
                               .speeds = speeds,
                               .room_bytes = static_cast<uint64_t>(known.memory_gb.value * 1e9)});
    return machine;
}

Result<PlanMachine> find_planned_machine(const PlanOptions& options) {
    if (options.machine == "here" || (options.machine.empty() && !options.is_imagined())) {
        if (options.is_imagined())
            return fail("--machine here: --gpu-tflops, --gpu-gb-per-s and --npu-array are for machines that are not");
        return machine_here(options);
    }
    if (options.machine.empty()) return machine_of(plan::known_machines().front(), options);
    return machine_of(*TRY(plan::find_machine(options.machine)), options);
}

// ---- What is asked

engine::MemoryShape shape_for(const PlanReport& report, const PlanDevice& device, int sequences) {
    engine::MemoryShape shape = report.shape;
    shape.sequences = sequences;
    shape.rows = std::max({shape.rows, device.step_rows, shape.sequences + 1});
    return shape;
}

void add_fits(const graph::Program& program, const std::vector<int>& batches, PlanReport& report) {
    for (const PlanDevice& device : report.machine.devices) {
        for (const int sequences : batches) {
            const engine::MemoryShape shape = shape_for(report, device, sequences);
            const int longest = engine::longest_context(program, shape, device.room_bytes, report.trained_context);
            report.fits.push_back({.device = device.name,
                                   .sequences = sequences,
                                   .need = engine::memory_need(program, shape),
                                   .room_bytes = device.room_bytes,
                                   .longest_context = longest});
        }
    }
}

void add_lines(const graph::Program& program, const PlanOptions& options, PlanReport& report) {
    std::vector<int> prompts = options.prompts;
    if (prompts.empty()) {
        for (const int usual : {512, 4096}) prompts.push_back(std::min(usual, report.trained_context));
        prompts.erase(std::unique(prompts.begin(), prompts.end()), prompts.end());
    }
    const DType kv_dtype = report.shape.kv_dtype;
    for (const PlanDevice& device : report.machine.devices) {
        for (const int sequences : options.batches) {
            report.lines.push_back(
                {.device = device.name,
                 .sequences = sequences,
                 .length = report.shape.context,
                 .forecast = forecast_decode(program, sequences, report.shape.context, kv_dtype, device.speeds)});
        }
        const int chunk = measure::BenchmarkOptions().chunk;
        for (const int tokens : prompts) {
            report.lines.push_back(
                {.device = device.name,
                 .sequences = 0,
                 .length = tokens,
                 .forecast = forecast_prompt(program, tokens, std::min(chunk, tokens), kv_dtype, device.speeds)});
        }
    }
}

void add_types(const graph::Program& program, PlanReport& report) {
    const PlanDevice& device = report.machine.devices.front();
    const engine::MemoryShape shape = shape_for(report, device, 1);
    for (const DType type : {DType::q8_0, DType::q6_k, DType::q5_k, DType::q4_k, DType::q3_k, DType::q2_k}) {
        const graph::Program other = with_type(program, type);
        report.types.push_back(
            {.type = std::string(name(type)),
             .need = engine::memory_need(other, shape),
             .longest_context = engine::longest_context(other, shape, device.room_bytes, report.trained_context),
             .tokens_per_s = forecast_decode(other, 1, shape.context, shape.kv_dtype, device.speeds).tokens_per_s()});
    }
}

double weight_bits(const graph::Program& program) {
    double bytes = 0;
    double count = 0;
    for (const graph::Value& value : program.values) {
        if (value.kind != graph::Value::Kind::weight || value.type.shape.size() < 2) continue;
        bytes += static_cast<double>(value.type.size_bytes({}));
        double elements = 1;
        for (const graph::Dim& dim : value.type.shape) elements *= static_cast<double>(dim.count);
        count += elements;
    }
    return count > 0 ? 8 * bytes / count : 0;
}

PlanTarget find_target(const graph::Program& program, double tokens_per_s, const PlanReport& report) {
    const plan::Speeds& speeds = report.machine.devices.front().speeds;
    const int context = report.shape.context;
    const DType kv_dtype = report.shape.kv_dtype;
    PlanTarget target{.tokens_per_s = tokens_per_s,
                      .alone = forecast_decode(program, 1, context, kv_dtype, speeds),
                      .bits_per_weight = weight_bits(program),
                      .sequences = sequences_for(program, tokens_per_s, context, kv_dtype, speeds, kMostTogether),
                      .most_sequences = kMostTogether,
                      .machines = {}};
    const auto together = [&](int sequences) {
        return forecast_decode(program, sequences, context, kv_dtype, speeds).tokens_per_s();
    };
    if (target.sequences > 0) target.together_per_s = together(target.sequences);
    target.most_together_per_s = together(kMostTogether);
    const auto needed = static_cast<double>(report.fits.front().need.total());
    for (const plan::KnownMachine& machine : plan::known_machines()) {
        const plan::Forecast there = forecast_decode(program, 1, context, kv_dtype, plan::speeds_of(machine));
        if (there.tokens_per_s() >= tokens_per_s && machine.memory_gb.value * 1e9 >= needed)
            target.machines.push_back(fmt::format("{} ({})", machine.name, format_rate(there.tokens_per_s())));
    }
    return target;
}

// The figures of the GPU that its kernels reach, as the placements take them.
Status add_placements(const graph::Program& program, const PlanOptions& options, PlanReport& report) {
    if (report.machine.npu.empty()) {
        return options.svg.empty() ? Status(Ok{})
                                   : fail("--svg {}: it draws prompts on a machine with an NPU, and {} has none",
                                          options.svg, report.machine.name);
    }
    const plan::Speeds& speeds = report.machine.devices.front().speeds;
    report.question = {.model = options.model,
                       .prompts = options.prompts.empty() ? std::vector<int>{128, 512, 2048, 8192} : options.prompts,
                       .gpu = {.read_bytes_per_s = speeds.rates.read_bytes_per_s,
                               .matrix_flops_per_s = speeds.rates.matrix_flops_per_s * speeds.matrix_share},
                       .array = report.machine.npu,
                       .gpu_watts = options.gpu_watts,
                       .npu_watts = options.npu_watts};
    report.placements = TRY(plan_placements(program, report.question));
    return options.svg.empty() ? Status(Ok{}) : write_plan_chart(options.svg, options.model, report.placements->rows);
}

Status add_clusters(const graph::Program& program, const PlanOptions& options, PlanReport& report) {
    const PlanDevice& device = report.machine.devices.front();
    report.cluster = {.most_machines = options.machines,
                      .links = options.links,
                      .batches = options.batches,
                      .prompt = options.prompts.empty() ? std::min(4096, report.trained_context) : options.prompts[0],
                      .shape = report.shape,
                      .speeds = device.speeds,
                      .room_bytes = device.room_bytes};
    report.clusters = TRY(plan_clusters(program, report.cluster));
    return options.svg.empty() ? Status(Ok{}) : write_cluster_chart(options.svg, options.model, report.clusters);
}

Result<int> plan_model(const PlanOptions& options) {
    if (options.machine == "list") {
        print(options.json ? machines_json() : machines_text());
        return 0;
    }
    const std::optional<DType> type = parse_dtype(options.type);
    const PlannedModel planned = TRY(open_planned(options.model, type));
    PlanReport report{.model = planned.name, .what = planned.what, .machine = TRY(find_planned_machine(options))};
    const graph::Program& program = planned.model.program;
    report.trained_context = std::max(planned.model.context_length, options.context);
    constexpr int kUsualContext = 4096;
    report.shape = {
        .context = options.context > 0 ? options.context : std::min(kUsualContext, planned.model.context_length),
        .kv_dtype = kv_dtype_of(options.kv).value_or(engine::default_kv_dtype(planned.model))};
    add_fits(program, options.batches, report);
    add_lines(program, options, report);
    add_types(program, report);
    if (options.target > 0) report.target = find_target(program, options.target, report);
    TRY(options.machines > 0 ? add_clusters(program, options, report) : add_placements(program, options, report));
    print(options.json ? to_json(report) : to_text(report));
    return 0;
}

constexpr const char* kPlanFooter =
    "MODEL is a file, a name of `tandem list` or `list --available`, or a shape: gemma3-4b, qwen3-30b-a3b, ...\n"
    "Nothing of the model runs. This machine is known by `tandem doctor`, or measured now; others (--machine list) by\n"
    "published and reckoned figures, each with its source. Prompts with an NPU are shown as docs/npu.md has them.\n"
    "Examples:\n"
    "  tandem plan gemma3:4b                            does it fit here, how fast would it be, what limits it\n"
    "  tandem plan gemma3-27b --machine 780m --target 81    what 81 tokens/s would take there\n"
    "  tandem plan llama3.3-70b --machine 780m --machines 8 --link 2.5gbe    what up to 8 of them do together";

void add_machine_options(CLI::App& app, PlanOptions& options) {
    app.add_option("--machine", options.machine, "here, one of those that `list` lists, or list (here)")
        ->option_text("NAME");
    CLI::Option* const machines =
        app.add_option("--machines", options.machines, "So many of it over a network, each with some of the layers")
            ->option_text("N")
            ->check(CLI::Range(1, kMostMachines));
    app.add_option("--link", options.links, "Of these networks: 1gbe, 2.5gbe, 10gbe, usb4 (2.5gbe,10gbe,usb4)")
        ->option_text("NAME,...")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->needs(machines);
    app.add_option("--device", options.device.device,
                   "Of this machine: as for `tandem run`; auto: its best, and the CPU (auto)")
        ->option_text("DEVICE");
    app.add_option("--threads", options.device.threads, "CPU threads of this machine; 0: one per core (0)")
        ->option_text("N")
        ->check(CLI::Range(0, 1024));
    constexpr double kMost = 1e6;
    app.add_option("--gpu-tflops", options.gpu_tflops, "What the matrix kernels of a GPU reach, instead of --machine's")
        ->option_text("X")
        ->check(CLI::Range(0.001, kMost));
    app.add_option("--gpu-gb-per-s", options.gpu_gb_per_s, "What it reads, likewise")
        ->option_text("X")
        ->check(CLI::Range(0.001, kMost));
    app.add_option("--npu-array", options.array, "An NPU beside it: npu1 (Phoenix, Hawk Point) or npu2 (Strix)")
        ->option_text("NAME");
    app.add_option("--gpu-watts", options.gpu_watts, "What the GPU draws (14, published for a Strix)")
        ->option_text("X")
        ->check(CLI::Range(0.001, kMost));
    app.add_option("--npu-watts", options.npu_watts, "What the NPU draws (1.2, published for a Strix)")
        ->option_text("X")
        ->check(CLI::Range(0.001, kMost));
}

}  // namespace

Command add_plan(CLI::App& parent) {
    CLI::App* const app =
        parent.add_subcommand("plan", "Say whether a model fits a machine, how fast it would be, and what limits it");
    const auto options = std::make_shared<PlanOptions>();
    constexpr int kMost = 1 << 20;
    app->add_option("MODEL", options->model, "A model, a name or a shape (gemma3-27b)")->option_text(" ");
    add_machine_options(*app, *options);
    app->add_option("--batch", options->batches, "Sequences that decode together (1,8,32)")
        ->option_text("N,...")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(1, 4096));
    app->add_option("--context", options->context, "Tokens of each of them (4096, or what the model was trained for)")
        ->option_text("N")
        ->check(CLI::Range(1, kMost));
    app->add_option("--prompt", options->prompts, "Tokens of prompts (512,4096; with an NPU 128,512,2048,8192)")
        ->option_text("N,...")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(1, kMost));
    app->add_option("--type", options->type, "As if all matrices were of this type: q8_0, q4_k, ...")
        ->option_text("TYPE")
        ->check([](const std::string& text) {
            return parse_dtype(text) ? std::string() : fmt::format("{}: no type; try q8_0, q6_k, q4_k or q4_0", text);
        });
    add_kv_option(*app, options->kv);
    app->add_option("--target", options->target, "Tokens a second: say what they would take")
        ->option_text("X")
        ->check(CLI::Range(0.001, 1e9));
    app->add_option("--svg", options->svg, "Draw the placements of prompts with an NPU, or --machines, into this file")
        ->option_text("FILE");
    app->add_flag("--json", options->json, "Print JSON");
    app->footer(kPlanFooter);
    return {app, [options] { return plan_model(*options); }};
}

}  // namespace tandem::cli
