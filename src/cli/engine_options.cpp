#include "cli/engine_options.h"

#include <CLI/CLI.hpp>

#include "cli/device_flags.h"

namespace tandem::cli {

namespace {

constexpr int kMaxContext = 2'000'000'000;  // what can be counted; memory ends long before

}  // namespace

void add_kv_option(CLI::App& app, std::string& kv) {
    constexpr const char* kHelp =
        "Type of the key-value cache: f16, f32, or q8_0, which takes half of f16 (f16, for a model in f32 f32)";
    app.add_option("--kv", kv, kHelp)->option_text("TYPE")->check(CLI::IsMember({"f16", "f32", "q8_0"}));
}

std::optional<DType> kv_dtype_of(const std::string& kv) {
    return kv.empty() ? std::nullopt : parse_dtype(kv);
}

void add_engine_options(CLI::App& app, EngineChoice& options) {
    add_device_options(app, options.device);
    app.add_option("--context", options.context,
                   "Tokens the model can look back on; 0: what it was trained for, at most 8192 (0)")
        ->option_text("N")
        ->check(CLI::Range(0, kMaxContext));
    add_kv_option(app, options.kv);
}

void add_guessing_options(CLI::App& app, EngineChoice& options) {
    CLI::Option* const lookup =
        app.add_flag("--lookup", options.lookup,
                     "Speculative decoding by what the text said before: faster where it repeats, the same answer");
    lookup->option_text(" ");
    app.add_option(
           "--draft", options.draft,
           "Speculative decoding by a small model of the same vocabulary: faster where it is often right, the same "
           "answer")
        ->option_text("MODEL")
        ->excludes(lookup);
}

engine::EngineOptions engine_options(const EngineChoice& choice) {
    return {.context = choice.context, .sequences = 1, .kv_dtype = kv_dtype_of(choice.kv), .looks_up = choice.lookup};
}

Result<std::unique_ptr<measure::Scorer>> open_scorer(const models::Model& model, device::Backend& backend,
                                                     const EngineChoice& options) {
    return measure::Scorer::open(model, backend, {.context = options.context, .kv_dtype = kv_dtype_of(options.kv)});
}

}  // namespace tandem::cli
