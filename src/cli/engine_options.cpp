#include "cli/engine_options.h"

#include <CLI/CLI.hpp>

namespace tandem::cli {

namespace {

constexpr int kMaxContext = 2'000'000'000;  // what can be counted; memory ends long before

std::optional<DType> kv_dtype(const EngineChoice& options) {
    return options.kv.empty() ? std::nullopt : std::optional<DType>(parse_dtype(options.kv));
}

}  // namespace

void add_engine_options(CLI::App& app, EngineChoice& options) {
    add_device_options(app, options.device);
    app.add_option("--context", options.context,
                   "Tokens the model can look back on; 0: what it was trained for, at most 8192 (0)")
        ->option_text("N")
        ->check(CLI::Range(0, kMaxContext));
    app.add_option("--kv", options.kv, "Type of the key-value cache, f16 or f32 (f16, for a model in f32 f32)")
        ->option_text("TYPE")
        ->check(CLI::IsMember({"f16", "f32"}));
}

Result<std::unique_ptr<engine::Engine>> open_engine(const models::Model& model,
                                                    std::optional<text::Tokenizer> tokenizer, device::Backend& backend,
                                                    const EngineChoice& options) {
    return engine::Engine::open(model, std::move(tokenizer), backend,
                                {.context = options.context, .sequences = 1, .kv_dtype = kv_dtype(options)});
}

Result<std::unique_ptr<engine::Scorer>> open_scorer(const models::Model& model, device::Backend& backend,
                                                    const EngineChoice& options) {
    return engine::Scorer::open(model, backend, {.context = options.context, .kv_dtype = kv_dtype(options)});
}

}  // namespace tandem::cli
