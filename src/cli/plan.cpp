#include "plan/cost.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/plan_chart.h"
#include "cli/text_output.h"
#include "cpu/backend.h"
#include "engine/bundle.h"
#include "models/model.h"
#include "models/synthetic.h"
#include "npu/backend.h"
#include "npu/emulator_runtime.h"
#include "plan/micro_batch.h"
#include "user/models.h"

namespace tandem::cli {

namespace {

constexpr int kChunkRows = plan::kMicroBatches * plan::kMicroRows;  // that the engine gives to both devices at once

struct PlanOptions {
    std::string model = "gemma3-27b";
    std::vector<int> prompts = {128, 512, 2048, 8192};
    double gpu_tflops = 11;      // what good kernels reach on a Radeon 780M
    double gpu_gb_per_s = 86.7;  // measured by others
    std::string array = "npu1";
    double gpu_watts = 14;   // published of a Strix, for decoding 8B: 14 W on its GPU,
    double npu_watts = 1.2;  // and so many on its NPU
    bool json = false;
    std::string svg;
};

// The Program of a model, and what it points into.
struct PlannedModel {
    models::MemoryFile empty;
    std::unique_ptr<format::Checkpoint> checkpoint;
    models::Model model;
};

Result<PlannedModel> open_shape(const std::string& name) {
    PlannedModel planned;
    const auto shapes = models::named_shapes();
    const auto shape = std::find_if(shapes.begin(), shapes.end(), [&](const auto& each) { return each.name == name; });
    if (shape == shapes.end()) {
        Result<format::Checkpoint> opened = user::open_checkpoint(name);
        if (!opened) {
            std::string names;
            for (const auto& each : shapes) names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
            return fail("{}, nor the name of a shape ({})", opened.error().message, names);
        }
        planned.checkpoint = std::make_unique<format::Checkpoint>(std::move(*opened));
    } else {
        planned.empty = TRY(models::make_empty_gguf(shape->spec));
        planned.checkpoint = std::make_unique<format::Checkpoint>(
            TRY(format::Checkpoint::from_gguf(planned.empty.bytes(), std::string(name))));
    }
    planned.model = TRY(models::load(*planned.checkpoint));
    return planned;
}

// The machine with the NPU as it is taken for, and with one that is slower and one that is faster.
struct Machines {
    plan::Machine middle, low, high;
};

// A prompt chunk after chunk; the layers that the NPU has are those that suit a whole chunk.
PlanRow predict_prompt(const graph::Program& program, plan::Policy policy, int prompt, const Machines& machines) {
    const plan::Machine& machine = machines.middle;
    const auto chunk_at = [&](int past) {
        const int rows = std::min(kChunkRows, prompt - past);
        return plan::ChunkShape{
            .rows = rows, .past = past, .micro_rows = plan::micro_rows(rows), .kv_dtype = DType::q8_0};
    };
    plan::Placement placement{.policy = policy};
    if (policy == plan::Policy::npu_prefill) placement = best_npu_prefill(program, chunk_at(0), machine).placement;
    if (policy == plan::Policy::automatic) placement = best_placement(program, chunk_at(0), machine).placement;
    PlanRow row{.prompt = prompt, .policy = policy, .placement = placement};
    for (int past = 0; past < prompt; past += kChunkRows) {
        const plan::Prediction part = predict(program, placement, chunk_at(past), machine);
        row.seconds += part.seconds;
        row.main_busy_s += part.main_busy_s;
        row.npu_busy_s += part.npu_busy_s;
        row.memory_bytes += part.memory_bytes;
        row.low_s += predict(program, placement, chunk_at(past), machines.low).seconds;
        row.high_s += predict(program, placement, chunk_at(past), machines.high).seconds;
    }
    return row;
}

std::string plan_table(const std::vector<PlanRow>& rows) {
    Table table(
        {"PROMPT", "PLACEMENT", "NPU LAYERS", "TIME", "TOKENS/S", "GPU BUSY", "NPU BUSY", "GAIN", "LOW", "HIGH"},
        {0, 2, 3, 4, 5, 6, 7, 8, 9});
    double alone = 0;
    for (const PlanRow& row : rows) {
        if (row.policy == plan::Policy::main_only) alone = row.seconds;
        std::string placement(plan::name(row.policy));
        if (row.policy == plan::Policy::automatic) placement += fmt::format(": {}", plan::name(row.placement.policy));
        table.add({std::to_string(row.prompt), placement,
                   row.placement.policy == plan::Policy::npu_prefill ? std::to_string(row.placement.npu_layers) : "-",
                   format_seconds(row.seconds), format_rate(row.tokens_per_s()),
                   fmt::format("{:.0f} %", 100 * row.main_busy_s / row.seconds),
                   fmt::format("{:.0f} %", 100 * row.npu_busy_s / row.seconds),
                   fmt::format("{:+.0f} %", 100 * (alone / row.seconds - 1)),
                   fmt::format("{:+.0f} %", 100 * (alone / row.low_s - 1)),
                   fmt::format("{:+.0f} %", 100 * (alone / row.high_s - 1))});
    }
    return table.to_string();
}

// A prompt, and a token of the answer to it, by the GPU alone or by the NPU while the GPU sleeps and the CPU does the
// rest.
struct AloneRow {
    int prompt = 0;
    plan::Policy policy = plan::Policy::main_only;
    double prompt_s = 0;
    double token_s = 0;
    double cpu_busy_s = 0;  // of the token
    double prompt_j = 0;    // of the GPU or the NPU, for each token
    double token_j = 0;
};

// The CPU reads what the GPU reads. What it computes is little: attention.
AloneRow predict_alone(const graph::Program& program, plan::Policy policy, int prompt, const PlanOptions& options,
                       plan::Machine machine) {
    constexpr double kCpuFlopsPerS = 0.3e12;  // of four cores: an assumption
    const bool gpu = policy == plan::Policy::main_only;
    if (!gpu) machine.main.matrix_flops_per_s = kCpuFlopsPerS;
    AloneRow row{.prompt = prompt, .policy = policy};
    double busy_s = 0;
    for (int past = 0; past < prompt; past += kChunkRows) {
        const int rows = std::min(kChunkRows, prompt - past);
        const plan::Prediction part =
            predict(program, {.policy = policy}, {.rows = rows, .past = past, .micro_rows = plan::kMicroRows}, machine);
        row.prompt_s += part.seconds;
        busy_s += gpu ? part.main_busy_s : part.npu_busy_s;
    }
    const plan::Prediction token = predict(program, {.policy = policy}, {.rows = 1, .past = prompt}, machine);
    const double watts = gpu ? options.gpu_watts : options.npu_watts;
    row.token_s = token.seconds;
    row.cpu_busy_s = gpu ? 0 : token.main_busy_s;
    row.prompt_j = busy_s * watts / prompt;
    row.token_j = (gpu ? token.main_busy_s : token.npu_busy_s) * watts;
    return row;
}

std::string alone_table(const std::vector<AloneRow>& rows) {
    Table table({"PROMPT", "ALONE", "PROMPT TOKENS/S", "J A TOKEN", "ANSWER TOKENS/S", "J A TOKEN", "CPU BUSY"},
                {0, 2, 3, 4, 5, 6});
    for (const AloneRow& row : rows)
        table.add({std::to_string(row.prompt), std::string(plan::name(row.policy)),
                   format_rate(row.prompt / row.prompt_s), fmt::format("{:.3f}", row.prompt_j),
                   format_rate(1 / row.token_s), fmt::format("{:.3f}", row.token_j),
                   fmt::format("{:.0f} %", 100 * row.cpu_busy_s / row.token_s)});
    return table.to_string();
}

nlohmann::ordered_json alone_json(const std::vector<AloneRow>& rows) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const AloneRow& row : rows)
        list.push_back({{"prompt", row.prompt},
                        {"policy", plan::name(row.policy)},
                        {"prompt_tokens_per_s", row.prompt / row.prompt_s},
                        {"prompt_joules_per_token", row.prompt_j},
                        {"answer_tokens_per_s", 1 / row.token_s},
                        {"answer_joules_per_token", row.token_j},
                        {"cpu_busy_s_per_token", row.cpu_busy_s}});
    return list;
}

std::string plan_json(const PlanOptions& options, const std::vector<PlanRow>& rows, const std::vector<AloneRow>& alone,
                      const std::vector<std::string>& left) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const PlanRow& row : rows) {
        list.push_back({{"prompt", row.prompt},
                        {"policy", plan::name(row.policy)},
                        {"placement", plan::name(row.placement.policy)},
                        {"npu_layers", row.placement.npu_layers},
                        {"seconds", row.seconds},
                        {"seconds_low", row.low_s},
                        {"seconds_high", row.high_s},
                        {"tokens_per_s", row.tokens_per_s()},
                        {"gpu_busy_s", row.main_busy_s},
                        {"npu_busy_s", row.npu_busy_s},
                        {"memory_bytes", row.memory_bytes}});
    }
    const nlohmann::ordered_json report = {{"model", options.model},
                                           {"predicted", true},
                                           {"gpu_tflops", options.gpu_tflops},
                                           {"gpu_gb_per_s", options.gpu_gb_per_s},
                                           {"npu", options.array},
                                           {"left_to_gpu", left},
                                           {"prompts", std::move(list)},
                                           {"gpu_watts", options.gpu_watts},
                                           {"npu_watts", options.npu_watts},
                                           {"alone", alone_json(alone)}};
    return report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Result<int> plan_prompts(const PlanOptions& options) {
    const npu::Array* const array = npu::find_array(options.array);
    if (array == nullptr) return fail("--npu-array {}: there are npu1 and npu2", options.array);
    const PlannedModel planned = TRY(open_shape(options.model));
    const graph::Program program = graph::keep_results(planned.model.program, {"next"});
    // Of the emulator only the cost model is used: nothing runs.
    const auto npu_with = [&](const npu::Outlook& outlook) -> Result<std::unique_ptr<device::Backend>> {
        std::unique_ptr<npu::Runtime> emulator = TRY(npu::make_emulator_runtime({.array = options.array}));
        std::unique_ptr<device::Backend> host = TRY(cpu::make_backend({.threads = 1}));
        return npu::make_backend(std::move(emulator), *array, std::move(host), outlook);
    };
    const std::unique_ptr<device::Backend> middle = TRY(npu_with(npu::kMiddle));
    const std::unique_ptr<device::Backend> low = TRY(npu_with(npu::kLow));
    const std::unique_ptr<device::Backend> high = TRY(npu_with(npu::kHigh));
    const device::Rates rates{.read_bytes_per_s = options.gpu_gb_per_s * 1e9,
                              .matrix_flops_per_s = options.gpu_tflops * 1e12};
    const Machines machines{.middle = {.main = rates, .npu = middle.get()},
                            .low = {.main = rates, .npu = low.get()},
                            .high = {.main = rates, .npu = high.get()}};
    std::vector<PlanRow> rows;
    std::vector<AloneRow> alone;
    for (const int prompt : options.prompts) {
        for (const plan::Policy policy : {plan::Policy::main_only, plan::Policy::npu_alone})
            alone.push_back(predict_alone(program, policy, prompt, options, machines.middle));
        for (const plan::Policy policy : {plan::Policy::main_only, plan::Policy::npu_attention,
                                          plan::Policy::npu_prefill, plan::Policy::automatic}) {
            rows.push_back(predict_prompt(program, policy, prompt, machines));
        }
    }
    // With all layers every op is asked.
    const std::vector<std::string> left = plan::describe_left(
        program, {.policy = plan::Policy::npu_prefill, .npu_layers = static_cast<int>(program.caches.size())},
        npu::obstacle_of);
    if (!options.svg.empty()) TRY(write_plan_chart(options.svg, options.model, rows));
    if (options.json) {
        std::fputs(plan_json(options, rows, alone, left).c_str(), stdout);
        return 0;
    }
    const std::string head =
        fmt::format("predicted for a GPU of {} TFLOP/s and {} GB/s with {} ({}); nothing of this was measured\n",
                    options.gpu_tflops, options.gpu_gb_per_s, array->name, array->description);
    std::fputs(head.c_str(), stdout);
    std::fputs(plan_table(rows).c_str(), stdout);
    std::fputs(
        "not modelled: matrices too small to fill the GPU, activations in memory, the host between steps, one power "
        "budget\n",
        stdout);
    std::fputs(
        fmt::format("\nthe GPU alone at {} W, and the NPU while it sleeps at {} W (published for a Strix decoding "
                    "8B; without memory and CPU)\n",
                    options.gpu_watts, options.npu_watts)
            .c_str(),
        stdout);
    std::fputs(alone_table(alone).c_str(), stdout);
    for (const std::string& line : left) std::fputs(fmt::format("left to the GPU: {}\n", line).c_str(), stdout);
    return 0;
}

}  // namespace

Command add_plan(CLI::App& parent) {
    CLI::App* const app =
        parent.add_subcommand("plan", "Predict how long a GPU and an NPU take for prompts, for each placement");
    const auto options = std::make_shared<PlanOptions>();
    app->add_option(
           "MODEL", options->model,
           "A model, or the name of a shape: gemma3-1b, gemma3-4b, gemma3-27b, qwen3-30b-a3b, ... (gemma3-27b)")
        ->option_text(" ");
    app->add_option("--prompt", options->prompts, "Tokens of the prompts (128,512,2048,8192)")
        ->option_text("N,...")
        ->delimiter(',')
        ->check(CLI::Range(1, 1 << 20));
    app->add_option("--gpu-tflops", options->gpu_tflops, "What its matrix kernels reach (11, a Radeon 780M)")
        ->option_text("X")
        ->check(CLI::Range(0.001, 1e6));
    app->add_option("--gpu-gb-per-s", options->gpu_gb_per_s, "What it reads (86.7, a Radeon 780M with DDR5-5600)")
        ->option_text("X")
        ->check(CLI::Range(0.001, 1e6));
    app->add_option("--npu-array", options->array, "npu1 (Phoenix, Hawk Point) or npu2 (Strix) (npu1)")
        ->option_text("NAME");
    app->add_option("--gpu-watts", options->gpu_watts, "What it draws (14, published for a Strix)")
        ->option_text("X")
        ->check(CLI::Range(0.001, 1e6));
    app->add_option("--npu-watts", options->npu_watts, "What it draws (1.2, published for a Strix)")
        ->option_text("X")
        ->check(CLI::Range(0.001, 1e6));
    app->add_option("--svg", options->svg, "Draw it into this file as well")->option_text("FILE");
    app->add_flag("--json", options->json, "Print JSON");
    app->footer(
        "A prediction: nothing runs. The GPU by its rates, the NPU by the cost model of docs/npu.md, both together as\n"
        "`tandem run` would run them. Both read one memory, at the GPU's rate at most; a dispatch costs 2 us. Not "
        "modelled,\n"
        "so that these are bounds that a small model stays well below: matrices too small to fill the GPU, the way of\n"
        "activations through memory, the host between steps, one power budget for both.");
    return {app, [options] { return plan_prompts(*options); }};
}

}  // namespace tandem::cli
