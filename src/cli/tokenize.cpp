#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/standard_input.h"
#include "cli/text_output.h"
#include "engine/bundle.h"
#include "text/tokenizer.h"
#include "user/models.h"
#include "user/parse.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

struct TokenizeOptions {
    std::string model;
    std::string text;
    std::string ids;
    CLI::Option* text_given = nullptr;
    CLI::Option* ids_given = nullptr;
    bool from_stdin = false;
    bool no_bos = false;
    bool no_special = false;
    bool show_special = false;
    bool json = false;
};

// A bare tokenizer.json or tokenizer.model, or the tokenizer of a model.
Result<text::Tokenizer> open_tokenizer(const std::string& model) {
    const std::filesystem::path path(model);
    std::error_code ignored;
    const bool bare = path.extension() == ".json" || path.extension() == ".model";
    if (bare && std::filesystem::is_regular_file(path, ignored)) return text::load_tokenizer_file(path);
    const format::Checkpoint checkpoint = TRY(user::open_checkpoint(model));
    return text::load_tokenizer(checkpoint);
}

void print_json(const Json& json) {
    print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

Result<int> decode(const TokenizeOptions& options, const text::Tokenizer& tokenizer) {
    const std::vector<text::TokenId> ids = TRY(user::parse_ids(options.ids));
    TRY(user::check_vocabulary(ids, tokenizer.vocab_size()));
    const std::string text = tokenizer.decode(ids, !options.show_special);
    if (options.json) {
        print_json({{"text", text}});
    } else {
        print(text + "\n");
    }
    return 0;
}

Result<int> encode(const TokenizeOptions& options, const text::Tokenizer& tokenizer) {
    const std::string text = options.from_stdin ? TRY(read_standard_input()) : options.text;
    const std::vector<text::TokenId> ids =
        tokenizer.encode(text, {.add_special = !options.no_bos, .parse_special = !options.no_special});
    if (options.json) {
        print_json({{"ids", ids}});
        return 0;
    }
    Table table({"ID", "PIECE"}, {0});
    for (const text::TokenId id : ids) table.add({fmt::format("{}", id), escape(tokenizer.piece(id))});
    print(table.to_string());
    return 0;
}

Result<int> tokenize(const TokenizeOptions& options) {
    const text::Tokenizer tokenizer = TRY(open_tokenizer(options.model));
    return options.ids_given->count() > 0 ? decode(options, tokenizer) : encode(options, tokenizer);
}

constexpr const char* kTokenizeExamples =
    "Examples:\n"
    "  tandem tokenize tales \"Once upon a time\"         ids and pieces\n"
    "  tandem tokenize tokenizer.json --stdin < book.txt --json\n"
    "  tandem tokenize tales --decode 2,105,77           the text of ids\n";

}  // namespace

Command add_tokenize(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("tokenize", "Turn text into token ids, or back");
    const auto options = std::make_shared<TokenizeOptions>();
    app->add_option("MODEL", options->model,
                    "GGUF file, Hugging Face directory, embedded model, tokenizer.json or tokenizer.model")
        ->required()
        ->option_text(" ");
    options->text_given = app->add_option("TEXT", options->text, "The text")->option_text(" ");
    options->ids_given = app->add_option("--decode", options->ids, "Print the text of these ids: \"1,2,3\" or @FILE")
                             ->option_text("IDS");
    app->add_flag("--stdin", options->from_stdin, "Read the text from standard input, every byte of it");
    app->add_flag("--no-bos", options->no_bos, "Add no token that the text does not have, such as <bos>");
    app->add_flag("--no-special", options->no_special, "Take \"<eos>\" and the like in TEXT as plain text");
    app->add_flag("--special", options->show_special, "With --decode: show special tokens, which are no part of a text")
        ->needs(options->ids_given);
    app->add_flag("--json", options->json, "Print {\"ids\": [...]}, or {\"text\": \"...\"} with --decode");
    app->footer(kTokenizeExamples);
    app->final_callback([options] {
        const int sources = static_cast<int>(options->text_given->count() > 0) + static_cast<int>(options->from_stdin) +
                            static_cast<int>(options->ids_given->count() > 0);
        if (sources != 1) throw CLI::ValidationError("give one of TEXT, --stdin and --decode IDS");
    });
    return {app, [options] { return tokenize(*options); }};
}

}  // namespace tandem::cli
