#include "cli/plan_placements.h"

#include <algorithm>

#include "cli/text_output.h"
#include "cpu/backend.h"
#include "npu/backend.h"
#include "npu/emulator_runtime.h"
#include "plan/cost.h"
#include "plan/micro_batch.h"

namespace tandem::cli {

namespace {

constexpr int kChunkRows = plan::kMicroBatches * plan::kMicroRows;  // that the engine gives to both devices at once

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

std::string table_of(const std::vector<PlanRow>& rows) {
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

// The CPU reads what the GPU reads. What it computes is little: attention.
AloneRow predict_alone(const graph::Program& program, plan::Policy policy, int prompt,
                       const PlacementQuestion& question, plan::Machine machine) {
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
    const double watts = gpu ? question.gpu_watts : question.npu_watts;
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

}  // namespace

Result<PlacementReport> plan_placements(const graph::Program& whole, const PlacementQuestion& question) {
    const npu::Array* const array = npu::find_array(question.array);
    if (array == nullptr) return fail("--npu-array {}: there are npu1 and npu2", question.array);
    const graph::Program program = graph::keep_results(whole, {"next"});
    // Of the emulator only the cost model is used: nothing runs.
    const auto npu_with = [&](const npu::Outlook& outlook) -> Result<std::unique_ptr<device::Backend>> {
        std::unique_ptr<npu::Runtime> emulator = TRY(npu::make_emulator_runtime({.array = question.array}));
        std::unique_ptr<device::Backend> host = TRY(cpu::make_backend({.threads = 1}));
        return npu::make_backend(std::move(emulator), *array, std::move(host), outlook);
    };
    const std::unique_ptr<device::Backend> middle = TRY(npu_with(npu::kMiddle));
    const std::unique_ptr<device::Backend> low = TRY(npu_with(npu::kLow));
    const std::unique_ptr<device::Backend> high = TRY(npu_with(npu::kHigh));
    const Machines machines{.middle = {.main = question.gpu, .npu = middle.get()},
                            .low = {.main = question.gpu, .npu = low.get()},
                            .high = {.main = question.gpu, .npu = high.get()}};
    PlacementReport report{
        .array = fmt::format("{} ({})", array->name, array->description), .rows = {}, .alone = {}, .left = {}};
    for (const int prompt : question.prompts) {
        for (const plan::Policy policy : {plan::Policy::main_only, plan::Policy::npu_alone})
            report.alone.push_back(predict_alone(program, policy, prompt, question, machines.middle));
        for (const plan::Policy policy : {plan::Policy::main_only, plan::Policy::npu_attention,
                                          plan::Policy::npu_prefill, plan::Policy::automatic}) {
            report.rows.push_back(predict_prompt(program, policy, prompt, machines));
        }
    }
    // With all layers every op is asked.
    report.left = plan::describe_left(
        program, {.policy = plan::Policy::npu_prefill, .npu_layers = static_cast<int>(program.caches.size())},
        npu::obstacle_of);
    return report;
}

std::string to_text(const PlacementQuestion& question, const PlacementReport& report) {
    std::string text =
        fmt::format("prompts with an NPU beside a GPU of {:.4g} TFLOP/s and {:.4g} GB/s: {}\n",
                    question.gpu.matrix_flops_per_s / 1e12, question.gpu.read_bytes_per_s / 1e9, report.array);
    text += table_of(report.rows);
    text +=
        "not modelled: matrices too small to fill the GPU, activations in memory, the host between steps, one power "
        "budget\n";
    text += fmt::format(
        "\nthe GPU alone at {} W, and the NPU while it sleeps at {} W (published for a Strix decoding "
        "8B; without memory and CPU)\n",
        question.gpu_watts, question.npu_watts);
    text += alone_table(report.alone);
    for (const std::string& line : report.left) text += fmt::format("left to the GPU: {}\n", line);
    return text;
}

}  // namespace tandem::cli
