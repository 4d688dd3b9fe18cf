#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_summary.h"
#include "cli/quantize_report.h"
#include "cli/text_output.h"
#include "cli/tokenizer_metadata.h"
#include "engine/bundle.h"
#include "format/quant.h"
#include "models/export.h"
#include "user/models.h"

namespace tandem::cli {

namespace {

struct QuantizeOptions {
    std::string in;
    std::string out;
    std::string type;
    std::string embedding_type;
    std::string output_type;
    std::vector<std::string> tensor_types;
    std::string imatrix_file;
    int threads = 0;
    bool force = false;
    bool dry_run = false;
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
    if (!options.force && std::filesystem::is_regular_file(options.out, ignored)) {
        return fail("{}: exists already; --force replaces it, or name another file", options.out);
    }
    return Ok{};
}

Result<models::Recipe> recipe_of(const QuantizeOptions& options) {
    const std::optional<models::Mix> mix = models::find_mix(options.type);
    CHECK(mix, "the option was checked");
    models::Recipe recipe(*mix);
    recipe.embedding = parse_dtype(options.embedding_type);
    recipe.output = parse_dtype(options.output_type);
    for (const std::string& text : options.tensor_types) recipe.tensors.push_back(TRY(models::parse_tensor_rule(text)));
    return recipe;
}

// Whether to go on and write the file.
bool show_plan(const QuantizeOptions& options, const models::ExportPlan& plan) {
    for (const std::string& notice : {unsuited_notice(plan), importance_notice(plan, !options.imatrix_file.empty())}) {
        if (!notice.empty()) note(notice);
    }
    if (options.dry_run) print(plan_tables(plan));
    return !options.dry_run;
}

int vocabulary(const ModelSummary& summary) {
    for (const auto& [size_name, size] : summary.sizes) {
        if (size_name == "vocabulary") return static_cast<int>(size);
    }
    return 0;
}

Status write_quantized(const QuantizeOptions& options, const format::Checkpoint& checkpoint,
                       const ModelSummary& summary) {
    std::optional<format::Imatrix> imatrix;
    if (!options.imatrix_file.empty()) imatrix = TRY(format::Imatrix::open(options.imatrix_file));
    ThreadPool threads(options.threads);
    Progress progress("quantize");
    models::ExportOptions export_options{
        .type = TRY(recipe_of(options)),
        .imatrix = imatrix ? &*imatrix : nullptr,
        .threads = &threads,
        .planned = [&](const models::ExportPlan& plan) { return show_plan(options, plan); },
        .progress = [&](uint64_t done, uint64_t total) -> Status {
            if (interrupted()) return fail("interrupted");
            progress.show(static_cast<double>(done), static_cast<double>(total));
            return Ok{};
        }};
    if (checkpoint.gguf() == nullptr) {
        export_options.add_metadata = [&](format::GgufWriter& writer) -> Status {
            const bool found = TRY(add_tokenizer_metadata(checkpoint, vocabulary(summary), writer));
            if (!found) note(fmt::format("[{} has no tokenizer: the file will have none either]", options.in));
            return Ok{};
        };
    }
    return models::export_gguf(checkpoint, options.out, export_options);
}

Result<int> quantize(const QuantizeOptions& options) {
    if (!options.dry_run) TRY(check_output(options));
    const format::Checkpoint checkpoint = TRY(user::open_checkpoint(options.in));
    const ModelSummary before = summarize(checkpoint);

    catch_endings();
    const Status written = write_quantized(options, checkpoint, before);
    if (!written && interrupted()) {
        note(fmt::format("interrupted: {} was not written", options.out));
        return interrupt_exit_code();
    }
    TRY(written);
    if (options.dry_run) return 0;
    const ModelSummary after = summarize(TRY(format::Checkpoint::open(options.out)));
    print(fmt::format("{}: {}, {:.2f} bits per weight (was {}, {:.2f})\n", options.out, format_bytes(after.file_bytes),
                      after.bits_per_weight(), format_bytes(before.file_bytes), before.bits_per_weight()));
    return 0;
}

std::vector<std::string> mix_names() {
    std::vector<std::string> names;
    for (const models::Mix& mix : models::mixes()) {
        if (models::can_encode(mix)) names.emplace_back(mix.name);
    }
    return names;
}

std::vector<std::string> type_names() {
    std::vector<std::string> names;
    for (const DType dtype : kAllDTypes) {
        if (format::has_encoder(dtype)) names.emplace_back(name(dtype));
    }
    return names;
}

// "Head: a, b, c" in lines of 120.
std::string listed(const std::string& head, const std::vector<std::string>& names) {
    constexpr size_t kLine = 120;
    std::string text = head;
    size_t used = head.size();
    for (size_t i = 0; i < names.size(); ++i) {
        const std::string word = names[i] + (i + 1 < names.size() ? "," : "");
        const bool breaks = used + 1 + word.size() > kLine;
        text += (breaks ? "\n" : " ") + word;
        used = (breaks ? 0 : used + 1) + word.size();
    }
    return text + "\n";
}

std::string check_tensor_type(const std::string& text) {
    const Result<models::TensorRule> rule = models::parse_tensor_rule(text);
    return rule ? std::string() : rule.error().message;
}

constexpr const char* kQuantizeExamples =
    "The names of TYPE are those of llama.cpp and choose as it does: q4_k_m is mostly q4_k, with q6_k for what suffers "
    "most.\n"
    "q3_k, q4_k and q5_k are the type alone, with q6_k for the matrix that makes the logits. Norms, routers and biases "
    "stay as\n"
    "they are. A matrix whose rows do not divide into blocks of its type gets the next best one, and a line says so.\n"
    "OUT appears when all is done; nothing is left of a run that fails or is interrupted. docs/quantization.md has "
    "more.\n"
    "\n"
    "Examples:\n"
    "  tandem quantize gemma-3-1b-it/ gemma-3-1b.q4_0.gguf --type q4_0\n"
    "  tandem quantize model.f16.gguf model.q4_k_m.gguf --type q4_k_m --imatrix model.imatrix.gguf\n"
    "  tandem quantize model.f16.gguf --type q3_k_m --tensor-type 'blk\\.(0|1)\\.ffn_down=q6_k' --dry-run\n";

}  // namespace

Command add_quantize(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("quantize", "Write a model as a GGUF file with smaller weights");
    const auto options = std::make_shared<QuantizeOptions>();
    app->add_option("IN", options->in, "GGUF file, Hugging Face directory or embedded model")
        ->required()
        ->option_text(" ");
    CLI::Option* const out =
        app->add_option("OUT", options->out, "The GGUF file to write; not needed for --dry-run")->option_text(" ");
    CLI::Option* const type = app->add_option("--type", options->type, "Type or mix of types, of those below")
                                  ->option_text("TYPE")
                                  ->transform(CLI::IsMember(mix_names(), CLI::ignore_case));
    const auto add_type = [&](const char* name, std::string& value, const char* help) {
        app->add_option(name, value, help)
            ->option_text("TYPE")
            ->transform(CLI::IsMember(type_names(), CLI::ignore_case));
    };
    add_type("--embedding-type", options->embedding_type, "Type of the token embedding");
    add_type("--output-type", options->output_type,
             "Type of the matrix that makes the logits, which may be the embedding");
    app->add_option("--tensor-type", options->tensor_types,
                    "Type of the matrices in whose names the regular expression PATTERN is found; may be repeated, the "
                    "first\nthat is found counts")
        ->option_text("PATTERN=TYPE")
        ->allow_extra_args(false)
        ->check(check_tensor_type);
    app->add_option("--imatrix", options->imatrix_file,
                    "Importance matrix, of `tandem eval --imatrix` or llama.cpp: columns with large inputs are kept "
                    "more exact")
        ->option_text("FILE");
    app->add_option("--threads", options->threads, "CPU threads; 0: one per core (0)")
        ->option_text("N")
        ->check(CLI::Range(0, 1024));
    app->add_flag("--force", options->force, "Replace OUT if it exists");
    app->add_flag("--dry-run", options->dry_run, "Show what every tensor would become and the size, write nothing");
    app->footer(listed("Types and mixes:", mix_names()) + kQuantizeExamples);
    app->final_callback([=] {
        if (out->count() == 0 && !options->dry_run)
            throw CLI::ValidationError("OUT is missing: " + out->get_description());
        if (type->count() == 0) throw CLI::ValidationError("--type is missing: " + type->get_description());
    });
    return {app, [options] { return quantize(*options); }};
}

}  // namespace tandem::cli
