#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_source.h"
#include "cli/text_output.h"
#include "hub/catalog.h"
#include "user/models.h"
#include "user/nearest.h"

namespace tandem::cli {

namespace {

struct PullOptions {
    std::vector<std::string> models;
    FetchOptions fetch;
};

Result<int> pull(const PullOptions& options) {
    catch_endings();
    for (const std::string& model : options.models) {
        const std::optional<hub::Reference> remote = TRY(user::find_remote(model));
        if (!remote) {
            std::vector<std::string_view> names;
            for (const hub::CatalogEntry& entry : hub::catalog()) names.push_back(entry.name);
            return fail(
                "'{}': write org/name[:QUANT] of Hugging Face, the address of a .gguf file, or a name of `tandem list "
                "--available`{}",
                model, user::suggestion(model, names));
        }
        print(TRY(fetch_model(model, *remote, options.fetch)).path.string() + "\n");
    }
    return 0;
}

constexpr const char* kPullHelp =
    "MODEL is org/name of Hugging Face, with :QUANT behind it (Q4_K_M unless said; a file's name is good too), "
    "hf.co/org/name,\n"
    "the address of a .gguf file, or a name of `tandem list --available`. All parts of a split file come along; of a\n"
    "repository without GGUF files the safetensors.\n"
    "\n"
    "Files go into the cache that the programs of Hugging Face and llama.cpp use too (HF_HOME says where). What was\n"
    "interrupted goes on when the same command is given again; nothing is used before its checksum is right.\n"
    "HF_TOKEN is for private models and those behind terms, HF_ENDPOINT for a mirror, https_proxy for a proxy.\n"
    "\n"
    "Examples:\n"
    "  tandem pull gemma3:4b\n"
    "  tandem pull bartowski/Llama-3.2-3B-Instruct-GGUF:Q8_0\n"
    "  tandem pull https://example.org/models/story.gguf\n"
    "  tandem run hf.co/ggml-org/gemma-3-1b-it-GGUF \"Why is the sky blue?\"\n";

}  // namespace

Command add_pull(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("pull", "Fetch a model from Hugging Face or from an address");
    const auto options = std::make_shared<PullOptions>();
    app->add_option("MODEL", options->models, "org/name[:QUANT], an address, or a name of `tandem list --available`")
        ->option_text(" ")
        ->required();
    app->add_flag("--anyway", options->fetch.anyway, "Also a model that no device of this machine can hold");
    app->add_flag("-q,--quiet", options->fetch.quiet, "No notices");
    app->footer(kPullHelp);
    return {app, [options] { return pull(*options); }};
}

}  // namespace tandem::cli
