// Speed of whole models on the CPU: prompt and decode in tokens/s, and decode as a share of the memory's read rate.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <numeric>

#include "bench/read_rate.h"
#include "bench/statistics.h"
#include "cpu/backend.h"
#include "engine/bundle.h"
#include "engine/session.h"
#include "graph/ops.h"
#include "models/synthetic.h"

namespace tandem::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Plan {
    int threads = 0;
    int prompt = 128;
    int decode = 80;
    int repetitions = 3;  // of the prompt
};

struct Row {
    std::string model;
    double weight_bytes = 0;  // read for one token
    Summary prompt_seconds = {};
    Summary token_seconds = {};
};

// What the products of one token read: every weight of a Linear node, and a row of the embedding, which is nothing.
double bytes_per_token(const models::Model& model) {
    double bytes = 0;
    for (const graph::Node& node : model.program.nodes) {
        if (node.op.as<op::Linear>() == nullptr) continue;
        bytes += static_cast<double>(model.program.value(node.inputs[0]).type.size_bytes({}));
    }
    return bytes;
}

template <typename F>
Result<double> seconds(const F& body) {
    const auto begin = Clock::now();
    TRY(body());
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

Result<Row> measure(const std::string& name, const Plan& plan) {
    const format::Checkpoint checkpoint = TRY(engine::open_checkpoint(name));
    const models::Model model = TRY(models::load(checkpoint));
    const std::unique_ptr<device::Backend> backend = TRY(cpu::make_backend({.threads = plan.threads}));
    const int warm_up = 8;
    const auto session = TRY(
        engine::Session::open(model, *backend, {.context = plan.prompt + plan.decode + warm_up + 1, .kv_dtype = {}}));

    std::vector<int32_t> tokens(static_cast<size_t>(plan.prompt));
    for (size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = static_cast<int32_t>((7 + 31 * i) % static_cast<size_t>(model.vocab));
    const device::SamplingParams greedy;
    const auto advance = [&] { return session->advance(tokens, {.params = &greedy, .history = {}}); };

    Row row{.model = checkpoint.name(), .weight_bytes = bytes_per_token(model)};
    std::vector<double> prompts;
    TRY(advance());  // touches every page once
    for (int i = 0; i < plan.repetitions; ++i) {
        session->clear();
        prompts.push_back(TRY(seconds(advance)));
    }
    std::vector<double> steps;
    for (int i = 0; i < warm_up + plan.decode; ++i) {
        tokens.push_back(1 + i % 2);
        const double step = TRY(seconds(advance));
        if (i >= warm_up) steps.push_back(step);
    }
    row.prompt_seconds = summarize(std::move(prompts));
    row.token_seconds = summarize(std::move(steps));
    return row;
}

void print(const Row& row, const Plan& plan, double read_rate) {
    const double rate = row.weight_bytes / row.token_seconds.median;
    fmt::print("{:<24} {:>9.1f} {:>10.1f} {:>10.1f} {:>8.2f} +-{:>5.2f} {:>4} {:>8.2f} {:>6.0f} %\n", row.model,
               row.weight_bytes / 1e6, plan.prompt / row.prompt_seconds.median, 1 / row.token_seconds.median,
               row.token_seconds.mean * 1e3, row.token_seconds.ci95 * 1e3, row.token_seconds.outliers, rate / 1e9,
               100 * rate / read_rate);
}

// The shape of Gemma 3 1B with random weights: speed does not depend on their values.
Result<std::string> random_model(const std::filesystem::path& folder, DType dtype) {
    const std::filesystem::path path = folder / fmt::format("random-1b-{}.gguf", tandem::name(dtype));
    if (!std::filesystem::exists(path)) {
        fmt::print(stderr, "making {}\n", path.string());
        std::filesystem::create_directories(folder);
        TRY(models::write_random_gguf(path, models::gemma3_1b_shape(dtype)));
    }
    return path.string();
}

Status run_all(std::vector<std::string> names, const std::filesystem::path& folder, const Plan& plan) {
    if (names.empty()) {
        for (const engine::EmbeddedModel& model : engine::embedded_models()) names.emplace_back(model.name);
        for (DType dtype : {DType::q4_0, DType::q8_0}) names.push_back(TRY(random_model(folder, dtype)));
    }
    ThreadPool pool(plan.threads);
    const double read_rate = measure_read_rate(pool);
    fmt::print(
        "{} threads, memory read rate {:.1f} GB/s (best over 1 GiB); prompt of {} tokens, then {} single tokens\n\n",
        pool.size(), read_rate / 1e9, plan.prompt, plan.decode);
    fmt::print("{:<24} {:>9} {:>10} {:>10} {:>16} {:>4} {:>8} {:>8}\n", "model", "MB/token", "prompt t/s", "decode t/s",
               "ms/token +- CI95", "out", "GB/s", "of limit");
    for (const std::string& name : names) print(TRY(measure(name, plan)), plan, read_rate);
    return Ok{};
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): out of memory may end it
    namespace bench = tandem::bench;
    CLI::App app("Speed of whole models on the CPU, as a share of the memory's read rate.");
    std::vector<std::string> names;
    std::string folder = "build/bench";
    bench::Plan plan;
    app.add_option("MODEL", names, "Models; by default the embedded ones and random ones of Gemma 3 1B shape");
    app.add_option("--folder", folder, "Where random models are kept")->capture_default_str();
    app.add_option("--threads", plan.threads, "0: one per core")->capture_default_str();
    app.add_option("--prompt", plan.prompt, "Tokens of the prompt")->capture_default_str();
    app.add_option("--decode", plan.decode, "Tokens decoded one by one")->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    if (const tandem::Status status = bench::run_all(names, folder, plan); !status) {
        fmt::print(stderr, "bench: {}\n", status.error().message);
        return 1;
    }
    return 0;
}
