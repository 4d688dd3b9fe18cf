#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/command.h"
#include "cli/model_summary.h"
#include "cli/text_output.h"
#include "cli/tokenizer_metadata.h"
#include "engine/bundle.h"
#include "models/export.h"

namespace tandem::cli {

namespace {

struct QuantizeOptions {
    std::string in;
    std::string out;
    std::string type;
    int threads = 0;
};

// A file must not be written over the one that is being read, nor into the directory as itself.
Status check_output(const QuantizeOptions& options) {
    std::error_code ignored;
    if (std::filesystem::equivalent(options.in, options.out, ignored)) {
        return fail("{}: this is the model itself; write to another file", options.out);
    }
    if (std::filesystem::is_directory(options.out, ignored)) {
        return fail("{}: is a directory; name the file to write", options.out);
    }
    return Ok{};
}

int vocabulary(const ModelSummary& summary) {
    for (const auto& [size_name, size] : summary.sizes) {
        if (size_name == "vocabulary") return static_cast<int>(size);
    }
    return 0;
}

Result<int> quantize(const QuantizeOptions& options) {
    const std::optional<DType> type = parse_dtype(options.type);
    CHECK(type, "the option was checked");
    TRY(check_output(options));
    const format::Checkpoint checkpoint = TRY(engine::open_checkpoint(options.in));
    const ModelSummary before = summarize(checkpoint);

    ThreadPool threads(options.threads);
    {
        Progress progress("quantize");
        models::ExportOptions export_options{
            .type = *type, .threads = &threads, .progress = [&](uint64_t done, uint64_t total) {
                progress.show(static_cast<double>(done), static_cast<double>(total));
            }};
        if (checkpoint.gguf() == nullptr) {
            export_options.add_metadata = [&](format::GgufWriter& writer) -> Status {
                const bool found = TRY(add_tokenizer_metadata(checkpoint, vocabulary(before), writer));
                if (!found) note(fmt::format("[{} has no tokenizer: the file will have none either]", options.in));
                return Ok{};
            };
        }
        TRY(models::export_gguf(checkpoint, options.out, export_options));
    }
    const ModelSummary after = summarize(TRY(format::Checkpoint::open(options.out)));
    print(fmt::format("{}: {}, {:.2f} bits per weight (was {}, {:.2f})\n", options.out, format_bytes(after.file_bytes),
                      after.bits_per_weight(), format_bytes(before.file_bytes), before.bits_per_weight()));
    return 0;
}

std::vector<std::string> type_names() {
    std::vector<std::string> names;
    for (const DType dtype : kAllDTypes) {
        if (dtype != DType::i32) names.emplace_back(name(dtype));
    }
    return names;
}

constexpr const char* kQuantizeExamples =
    "Matrices are stored in TYPE; norms and biases stay as they are. A matrix whose rows do not divide into blocks of\n"
    "TYPE, and the one that makes the logits of q4_k and q5_k, get a type with more bits.\n"
    "\n"
    "Examples:\n"
    "  tandem quantize gemma-3-1b-it/ gemma-3-1b.q4_0.gguf --type q4_0\n"
    "  tandem quantize model.f16.gguf model.q8_0.gguf --type q8_0 --threads 4\n";

}  // namespace

Command add_quantize(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("quantize", "Write a model as a GGUF file with smaller weights");
    const auto options = std::make_shared<QuantizeOptions>();
    app->add_option("IN", options->in, "GGUF file, Hugging Face directory or embedded model")
        ->required()
        ->option_text(" ");
    app->add_option("OUT", options->out, "The GGUF file to write; one that exists is replaced when all is done")
        ->required()
        ->option_text(" ");
    app->add_option("--type", options->type, fmt::format("Type of the weights: {}", fmt::join(type_names(), ", ")))
        ->required()
        ->option_text("TYPE")
        ->transform(CLI::IsMember(type_names(), CLI::ignore_case));
    app->add_option("--threads", options->threads, "CPU threads; 0: one per core (0)")
        ->option_text("N")
        ->check(CLI::Range(0, 1024));
    app->footer(kQuantizeExamples);
    return {app, [options] { return quantize(*options); }};
}

}  // namespace tandem::cli
