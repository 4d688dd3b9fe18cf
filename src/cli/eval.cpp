#include <CLI/CLI.hpp>
#include <bit>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/rank_job.h"
#include "cli/text_output.h"
#include "cpu/backend.h"
#include "engine/bundle.h"
#include "engine/generate.h"
#include "measure/importance.h"
#include "measure/perplexity.h"
#include "user/models.h"
#include "user/parse.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;
using text::TokenId;

static_assert(std::endian::native == std::endian::little, "logits are written as they lie in memory");

struct EvalOptions {
    std::string model;
    std::string tokens;
    std::string logits_file;
    std::string text_file;
    std::string imatrix_file;
    int greedy = 0;
    bool json = false;
    EngineChoice engine;
};

Status write_logits(measure::Scorer& scorer, std::span<const TokenId> tokens, const std::string& path) {
    AtomicFile file = TRY(AtomicFile::create(path));
    TRY(scorer.score(
        tokens, [&](int /*position*/, std::span<const float> logits) { return file.write(std::as_bytes(logits)); }));
    return file.commit();
}

Result<int> eval_tokens(const EvalOptions& options, RankJob* job) {
    const std::vector<TokenId> tokens = TRY(user::parse_ids(options.tokens));
    if (tokens.empty()) return fail("--tokens: no token ids were given");
    const format::Checkpoint checkpoint = TRY(user::open_checkpoint(options.model));
    const models::Model model = TRY(models::load(checkpoint));
    TRY(user::check_vocabulary(tokens, model.vocab));
    user::Devices devices(options.engine.device, note);
    const auto backend = TRY(open_device(devices, job, model.weights.size_bytes()));
    if (!options.logits_file.empty()) {
        const auto scorer = TRY(open_scorer(model, *backend, options.engine));
        TRY(write_logits(*scorer, tokens, options.logits_file));
    }
    if (options.greedy == 0) return 0;
    const auto engine = TRY(engine::Engine::open(model, {}, *backend, engine_options(options.engine)));
    engine::Request request;  // the defaults take the largest logit
    request.prompt = tokens;
    request.max_tokens = options.greedy;
    const std::vector<TokenId> ids = TRY(engine::generate(*engine, std::move(request))).tokens;
    print(options.json ? Json{{"ids", ids}}.dump() + "\n" : fmt::format("{}\n", fmt::join(ids, " ")));
    return 0;
}

// Inputs of matrices are seen on the CPU alone.
Result<std::unique_ptr<device::Backend>> open_observed(const user::DeviceOptions& options,
                                                       measure::Importance& importance) {
    const bool reference = options.device == "cpu:reference";
    if (options.device != "auto" && options.device != "cpu" && !reference)
        return fail("--device {}: --imatrix measures on the CPU; leave --device out", options.device);
    return cpu::make_backend(
        {.threads = options.threads, .reference = reference, .observer = [&importance](const cpu::LinearInput& in) {
             importance.add({in.weight, in.rows, in.cols, in.expert, in.experts});
         }});
}

Status write_imatrix(const EvalOptions& options, const measure::Importance& importance, int chunks, int context) {
    format::Imatrix imatrix = importance.imatrix();
    imatrix.datasets = {std::filesystem::path(options.text_file).filename().string()};
    imatrix.chunks = static_cast<uint32_t>(chunks);
    imatrix.chunk_tokens = static_cast<uint32_t>(context);
    TRY(imatrix.write(options.imatrix_file));
    note(fmt::format("{}: the inputs of {} matrices", options.imatrix_file, imatrix.entries.size()));
    return Ok{};
}

Result<int> eval_text(const EvalOptions& options, RankJob* job) {
    const std::string text = TRY(read_text_file(options.text_file));
    const engine::Bundle bundle = TRY(user::open_bundle(options.model));
    user::Devices devices(options.engine.device, note);
    measure::Importance importance;
    const bool observed = !options.imatrix_file.empty();
    const auto backend = TRY(observed ? open_observed(options.engine.device, importance)
                                      : open_device(devices, job, bundle.model.weights.size_bytes()));
    const auto scorer = TRY(open_scorer(bundle.model, *backend, options.engine));
    const std::vector<TokenId> tokens = bundle.tokenizer.encode(text, {.add_special = false, .parse_special = false});
    TRY(user::check_vocabulary(tokens, bundle.model.vocab));

    measure::Perplexity result;
    int windows = 0;
    {
        Progress progress("perplexity");
        progress.show(0, 1);
        result = TRY(measure::measure_perplexity(*scorer, tokens, bundle.tokenizer.bos(), [&](int done) {
            ++windows;
            progress.show(done, static_cast<double>(tokens.size()));
        }));
    }
    if (observed) TRY(write_imatrix(options, importance, windows, scorer->context()));
    if (options.json) {
        print(Json{{"perplexity", result.perplexity()},
                   {"nll", result.mean()},
                   {"nll_standard_error", result.standard_error()},
                   {"tokens", result.tokens},
                   {"bytes", text.size()},
                   {"context", scorer->context()}}
                  .dump() +
              "\n");
    } else {
        print(fmt::format("perplexity {:.4f} +- {:.4f} over {} tokens, {:.4f} nats per token, windows of {}\n",
                          result.perplexity(), result.perplexity() * result.standard_error(), result.tokens,
                          result.mean(), scorer->context()));
    }
    return 0;
}

Result<int> eval(EvalOptions& options, bool is_text) {
    const std::unique_ptr<RankJob> job = TRY(RankJob::join(options.engine.device));
    if (job && !job->is_first()) return job->work(options.model);
    return is_text ? eval_text(options, job.get()) : eval_tokens(options, job.get());
}

constexpr const char* kEvalExamples =
    "Examples:\n"
    "  tandem eval tales --tokens 2,105,77 --logits out.f32   logits after every token, vocabulary x float32 each\n"
    "  tandem eval tales --tokens @ids.txt --greedy 32        the 32 likeliest tokens that follow, one by one\n"
    "  tandem eval tales --text book.txt                      perplexity: lower is better\n"
    "  tandem eval model-f16.gguf --text book.txt --imatrix tales.imatrix.gguf   what `tandem quantize --imatrix` "
    "reads\n"
    "--greedy does not stop at the end of the sequence.";

}  // namespace

Command add_eval(CLI::App& parent) {
    CLI::App* const app =
        parent.add_subcommand("eval", "Measure a model: logits, greedy continuation, perplexity, importance");
    const auto options = std::make_shared<EvalOptions>();
    app->add_option("MODEL", options->model, "GGUF file, Hugging Face directory or embedded model")
        ->required()
        ->option_text(" ");
    CLI::Option* const tokens =
        app->add_option("--tokens", options->tokens, "Token ids: \"1,2,3\", \"1 2 3\" or @FILE")->option_text("IDS");
    CLI::Option* const logits =
        app->add_option("--logits", options->logits_file,
                        "Write the logits after every token to FILE: little-endian float32, one row per token")
            ->option_text("FILE")
            ->needs(tokens);
    CLI::Option* const greedy =
        app->add_option("--greedy", options->greedy, "Continue greedily and print the N new ids")
            ->option_text("N")
            ->check(CLI::Range(1, std::numeric_limits<int>::max()))
            ->needs(tokens);
    CLI::Option* const text = app->add_option("--text", options->text_file, "Print the perplexity of the text in FILE")
                                  ->option_text("FILE")
                                  ->excludes(tokens);
    app->add_option("--imatrix", options->imatrix_file,
                    "Write how large the inputs of every matrix are by column to FILE: an importance matrix, in "
                    "llama.cpp's format")
        ->option_text("FILE")
        ->needs(text);
    app->add_flag("--json", options->json, "Print JSON: {\"ids\": [...]}, or the perplexity and what belongs to it");
    add_engine_options(*app, options->engine);
    app->footer(kEvalExamples);
    app->final_callback([=] {
        if (text->count() == 0 && logits->count() == 0 && greedy->count() == 0) {
            throw CLI::ValidationError("give --tokens IDS with --logits FILE or --greedy N, or --text FILE");
        }
    });
    return {app, [options, text] { return eval(*options, text->count() > 0); }};
}

}  // namespace tandem::cli
