#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/answer_text.h"
#include "cli/chat.h"
#include "cli/closing_line.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_source.h"
#include "cli/repl.h"
#include "cli/run_arguments.h"
#include "cli/standard_input.h"
#include "cli/text_output.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kStoryPrompt = "Tell me a story about a fox and a lantern.";

struct RunOptions {
    std::vector<std::string> arguments;
    ChatOptions chat;
    user::Settings settings;
    bool json = false;
    bool quiet = false;
    bool verbose = false;
    bool no_markdown = false;

    bool shows_markdown() const { return !no_markdown && can_show_markdown(); }
};

// Somebody may have sent a text along: a file or a pipe, not what a program is started with that has no input.
bool has_piped_input() {
    struct stat file {};
    if (::fstat(STDIN_FILENO, &file) != 0) return false;
    return S_ISFIFO(file.st_mode) || S_ISREG(file.st_mode);
}

Result<std::string> read_piped_text() {
    std::string text = TRY(read_standard_input());
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    return text;
}

// The prompt that was given, behind what standard input has to say; or none: then the user is there to talk to.
Result<std::optional<std::string>> find_prompt(const RunArguments& arguments, bool json) {
    if (arguments.prompt) {
        const std::string text = has_piped_input() ? TRY(read_piped_text()) : std::string();
        const bool both = !text.empty() && !arguments.prompt->empty();
        return std::optional(text + (both ? "\n\n" : "") + *arguments.prompt);
    }
    if (isatty(STDIN_FILENO) == 1) {
        if (json) return fail("--json needs a PROMPT: it prints one answer");
        return std::optional<std::string>();
    }
    const std::string text = TRY(read_piped_text());
    return std::optional(text.empty() ? std::string(kStoryPrompt) : text);
}

std::string to_json(const Chat& chat, const Answer& answer) {
    const engine::Generation& generation = answer.generation;
    const Json json = {{"text", generation.text},
                       {"ids", generation.tokens},
                       {"finish_reason", name(generation.reason)},
                       {"prompt_tokens", generation.prompt_tokens},
                       {"answer_tokens", generation.tokens.size()},
                       {"guessed_tokens", generation.drafted_tokens},
                       {"guessed_right", generation.accepted_tokens},
                       {"seed", answer.seed},
                       {"model", chat.model().name},
                       {"device", chat.device().name},
                       {"timings",
                        {{"prompt_seconds", generation.prompt_seconds},
                         {"prompt_tokens_per_second", generation.prompt_rate()},
                         {"answer_seconds", generation.generate_seconds},
                         {"answer_tokens_per_second", generation.generate_rate()}}}};
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<int> answer_once(Chat& chat, const std::string& prompt, const RunOptions& options) {
    catch_interrupts(SecondInterrupt::ends_program);
    AnswerText text(options.shows_markdown(), output_columns);
    const auto stream = [&](std::string_view piece) { print(text.push(piece)); };
    const Answer answer =
        TRY(chat.ask(prompt, options.settings, options.json ? std::function<void(std::string_view)>() : stream));
    print(options.json ? to_json(chat, answer) : text.finish() + "\n");
    if (options.verbose) note(fmt::format("[seed {}]", answer.seed));
    if (!options.quiet) note(closing_line(chat, answer));
    return answer.generation.reason == engine::FinishReason::cancelled ? kExitInterrupted : 0;
}

Result<int> run(RunOptions& options) {
    const RunArguments arguments = TRY(resolve_arguments(options.arguments));
    const std::unique_ptr<RankJob> job = TRY(RankJob::join(options.chat.engine.device));
    if (job && !job->is_first()) return job->work(arguments.model);
    options.chat.job = job.get();
    const std::optional<std::string> prompt = TRY(find_prompt(arguments, options.json));
    options.chat.model = TRY(find_or_fetch(arguments.model, {.quiet = options.quiet}));
    const std::unique_ptr<Chat> chat = TRY(Chat::open(options.chat));
    if (chat->raw() && !options.chat.raw && !options.quiet) {
        note("[this model has no chat template: the text is completed as it is]");
    }
    if (prompt) return answer_once(*chat, *prompt, options);
    return run_repl(*chat, options.settings,
                    {.quiet = options.quiet, .verbose = options.verbose, .shows_markdown = options.shows_markdown()});
}

std::string option_name(const user::Parameter& parameter) {
    std::string name = "--" + std::string(parameter.name);
    std::replace(name.begin(), name.end(), '_', '-');
    return parameter.name == "max_tokens" ? "-n," + name : name;
}

// --think and --no-think
void add_switch(CLI::App& app, user::Settings& settings, const user::Parameter& parameter) {
    app.add_flag_function(
        fmt::format("--{0},!--no-{0}", parameter.name),
        [&settings, &parameter](int64_t count) {
            const Status status = parameter.set(settings, count > 0 ? "on" : "off");
            CHECK(status, "every switch can be on and off");
        },
        std::string(parameter.help));
}

// One option per parameter of the settings.
void add_setting_options(CLI::App& app, user::Settings& settings) {
    for (const user::Parameter& parameter : user::parameters()) {
        if (parameter.value.empty()) {
            add_switch(app, settings, parameter);
            continue;
        }
        const auto assign = [&settings, &parameter](const std::vector<std::string>& values) {
            for (const std::string& value : values) {
                const Status status = parameter.set(settings, value);
                if (!status) throw CLI::ValidationError(status.error().message);
            }
        };
        app.add_option_function<std::vector<std::string>>(option_name(parameter), assign, std::string(parameter.help))
            ->option_text(std::string(parameter.value))
            ->allow_extra_args(false)
            ->multi_option_policy(parameter.repeatable ? CLI::MultiOptionPolicy::TakeAll
                                                       : CLI::MultiOptionPolicy::TakeLast);
    }
}

constexpr const char* kRunExamples =
    "Without a PROMPT: a conversation when standard input is a terminal (/help lists its commands), else the prompt "
    "is\n"
    "read from standard input; when that is empty the model tells a story. With a PROMPT, a text that is piped in "
    "comes\n"
    "before it. Without a MODEL: the one inside the program.\n"
    "A single argument that is no model but has a space in it is the PROMPT. A model that is not here is fetched "
    "first, as\n"
    "`tandem pull` does.\n"
    "The answer goes to standard output as it is made; a closing line with the speed goes to standard error.\n"
    "\n"
    "Examples:\n"
    "  tandem run\n"
    "  tandem run \"Tell me a story about a fox and a lantern\"\n"
    "  tandem run gemma3:4b\n"
    "  tandem run gemma-3-1b.gguf \"Why is the sky blue?\" --temperature 0.3 -n 200\n"
    "  tandem run tales --raw \"Once upon a time\" --seed 7\n"
    "  git log -5 | tandem run model.gguf --system \"Summarize in one sentence\"\n"
    "  tandem run model.gguf \"Which of these lines is an error?\" < build.log\n"
    "  tandem run tales \"What is 7 plus 5?\" --greedy --json\n"
    "  tandem run model.gguf \"Berlin in numbers\" --grammar '{\"properties\": {\"area_km2\": {\"type\": "
    "\"number\"}}}'\n";

}  // namespace

Command add_run(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("run", "Talk to a model, or get one answer from it");
    const auto options = std::make_shared<RunOptions>();
    // Each adds itself: an empty prompt is still a prompt.
    const auto add = [options](const std::string& argument) { options->arguments.push_back(argument); };
    app->add_option_function<std::string>("MODEL", add, "GGUF file, Hugging Face directory or a model's name")
        ->option_text(" ");
    app->add_option_function<std::string>("PROMPT", add, "What to answer, once")->option_text(" ");
    add_setting_options(*app, options->settings);
    app->add_flag_callback(
        "--greedy", [options] { options->settings.sampling.temperature = 0; }, "Short for --temperature 0");
    app->add_flag("--raw", options->chat.raw, "Complete the text as it is, without the model's chat template");
    app->add_flag("--json", options->json, "Print one JSON object: text, ids, finish reason, timings");
    app->add_flag("-q,--quiet", options->quiet, "No closing line, no notices");
    app->add_flag("--no-markdown", options->no_markdown,
                  "On a terminal, show answers as they are written: no bold, no colour, marks as they come");
    app->add_flag("-v,--verbose", options->verbose, "Print the seed of each answer");
    add_engine_options(*app, options->chat.engine);
    add_guessing_options(*app, options->chat.engine);
    app->footer(kRunExamples);
    return {app, [options] { return run(*options); }};
}

}  // namespace tandem::cli
