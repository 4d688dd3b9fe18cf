#include "cli/repl.h"

#include <algorithm>

#include "cli/answer_text.h"
#include "cli/closing_line.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/multi_line.h"
#include "cli/slash_commands.h"
#include "cli/text_output.h"
#include "user/nearest.h"
#include "user/paths.h"

namespace tandem::cli {

namespace {

constexpr const char* kPrompt = ">>> ";
constexpr const char* kContinuation = "... ";

std::string_view trimmed(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t\n");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

// "top_k 40" -> "top_k" and "40"
std::pair<std::string_view, std::string_view> split_word(std::string_view text) {
    const size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    return {text.substr(0, end), trimmed(text.substr(end))};
}

class Repl {
  public:
    Repl(Chat& chat, user::Settings settings, const ReplOptions& options)
        : chat_(chat), settings_(std::move(settings)), options_(options), editor_(complete_slash) {}

    int run();

  private:
    using OnText = std::function<void(std::string_view)>;

    bool take_input(const LineEditor::Input& input);
    bool leaves_on_interrupt(const std::string& typed);
    void show_answer(const std::function<Result<Answer>(const OnText& on_text)>& ask);
    void command(std::string_view line);
    Status run_command(Slash command, std::string_view argument);

    Status help();
    Status retry();
    Status clear();
    Status system(std::string_view text);
    Status think(std::string_view value);
    Status set(std::string_view argument);
    Status model(std::string_view name);
    Status show();
    Status save(std::string_view file);
    Status load(std::string_view file);

    Chat& chat_;
    user::Settings settings_;
    ReplOptions options_;
    LineEditor editor_;
    MultiLine lines_;
    bool leaving_ = false;
    bool failed_ = false;             // the last /save, or the way back from a /model
    bool interrupted_empty_ = false;  // Ctrl-C was the last thing, with nothing typed
};

int Repl::run() {
    catch_interrupts(SecondInterrupt::ignored);
    if (!options_.quiet) {
        note(
            fmt::format("{} on {}. /help lists the commands, Ctrl-D leaves.", chat_.model().name, chat_.device().name));
    }
    bool goes_on = true;
    while (goes_on && !leaving_) goes_on = take_input(editor_.read(lines_.pending() ? kContinuation : kPrompt));
    if (!leaving_) note("");
    return failed_ ? kExitFailed : 0;
}

// False: the user left without a word.
bool Repl::take_input(const LineEditor::Input& input) {
    if (input.event == LineEditor::Event::end) return false;
    if (input.event == LineEditor::Event::interrupt) return !leaves_on_interrupt(input.text);
    interrupted_empty_ = false;
    if (!lines_.pending() && is_slash_command(trimmed(input.text))) {
        editor_.remember(input.text);
        command(trimmed(input.text));
    } else if (lines_.push(input.text)) {
        editor_.remember(lines_.source());
        const std::string text = lines_.take();
        if (trimmed(text).empty()) return true;
        show_answer([&](const OnText& on_text) { return chat_.ask(text, settings_, on_text); });
    }
    return true;
}

// Ctrl-C takes back what was typed; where there is nothing, the second in a row leaves.
bool Repl::leaves_on_interrupt(const std::string& typed) {
    const bool nothing = typed.empty() && !lines_.pending();
    lines_.take();
    if (nothing && interrupted_empty_) return true;
    interrupted_empty_ = nothing;
    if (nothing) note("(Ctrl-C once more, Ctrl-D or /bye leaves)");
    return false;
}

void Repl::show_answer(const std::function<Result<Answer>(const OnText& on_text)>& ask) {
    AnswerText text(options_.shows_markdown, output_columns);
    const Result<Answer> answer = ask([&](std::string_view piece) { print(text.push(piece)); });
    print(text.finish());
    const bool stopped = take_interrupt();
    if (!answer) {
        note(fmt::format("tandem: {}", answer.error().message));
        if (!chat_.messages.empty()) note("[/clear forgets the conversation and makes room]");
        return;
    }
    print("\n");
    if (answer->forgotten > 0) {
        note(fmt::format("[the context of {} tokens is full: forgot the {} oldest messages; /clear forgets all]",
                         chat_.context(), answer->forgotten));
    }
    if (stopped && options_.quiet) note("[stopped]");
    if (options_.verbose) note(fmt::format("[seed {}]", answer->seed));
    if (!options_.quiet) note(closing_line(chat_, *answer));
}

void Repl::command(std::string_view line) {
    const auto [name, argument] = split_word(line);
    const SlashCommand* const found = find_slash(name);
    if (found == nullptr) {
        const std::string near = user::suggestion(name, slash_names());
        note(fmt::format("tandem: {}: unknown command{} There are {}", escape_short(name, 40),
                         near.empty() ? "." : near, fmt::join(slash_names(), " ")));
        return;
    }
    const Status status = run_command(found->command, argument);
    if (!status) note(fmt::format("tandem: {}", status.error().message));
}

Status Repl::run_command(Slash command, std::string_view argument) {
    switch (command) {
        case Slash::help:
            return help();
        case Slash::retry:
            return retry();
        case Slash::clear:
            return clear();
        case Slash::system:
            return system(argument);
        case Slash::think:
            return think(argument);
        case Slash::set:
            return set(argument);
        case Slash::model:
            return model(argument);
        case Slash::show:
            return show();
        case Slash::save:
            return save(argument);
        case Slash::load:
            return load(argument);
        case Slash::bye:
            leaving_ = true;
    }
    return Ok{};
}

Status Repl::help() {
    Table table({"COMMAND", "", ""});
    for (const SlashCommand& known : slash_commands()) {
        table.add(
            {fmt::format("{}", fmt::join(known.names, ", ")), std::string(known.argument), std::string(known.help)});
    }
    note(table.to_string() +
         "Tab completes commands and the names of files. What is pasted waits for Enter, however many lines it has.\n"
         "A line that ends with \\ goes on in the next one; \"\"\" begins and ends a text of several lines.\n"
         "Ctrl-C stops an answer; what was said until then stays in the conversation.");
    return Ok{};
}

Status Repl::retry() {
    if (settings_.seed) note(fmt::format("[seed is {}: the same question gets the same answer]", *settings_.seed));
    show_answer([&](const OnText& on_text) { return chat_.retry(settings_, on_text); });
    return Ok{};
}

Status Repl::clear() {
    chat_.messages.clear();
    note("The conversation is forgotten.");
    return Ok{};
}

Status Repl::system(std::string_view text) {
    if (!text.empty()) settings_.system = text;
    note(settings_.system.empty() ? "There is no system message; /system TEXT sets it."
                                  : fmt::format("system is {}\n(/set system removes it)", escape(settings_.system)));
    return Ok{};
}

Status Repl::think(std::string_view value) {
    if (!value.empty()) TRY(user::find_parameter("think")->set(settings_, value));
    note(fmt::format("think is {}", user::find_parameter("think")->show(settings_)));
    if (settings_.thinking && !chat_.can_switch_thinking()) {
        note(fmt::format("[the chat template of {} has no switch for it: this changes nothing]",
                         escape(chat_.model().name)));
    }
    return Ok{};
}

Status Repl::set(std::string_view argument) {
    const auto [name, value] = split_word(argument);
    if (name.empty()) {
        Table table({"PARAM", "VALUE", ""});
        for (const user::Parameter& parameter : user::parameters()) {
            table.add({std::string(parameter.name), escape_short(parameter.show(settings_), 30),
                       std::string(parameter.help)});
        }
        note(table.to_string() + "/set PARAM without a value removes system, stop, grammar and logit_bias.");
        return Ok{};
    }
    const user::Parameter* const parameter = user::find_parameter(name);
    if (parameter == nullptr) {
        std::vector<std::string_view> names;
        for (const user::Parameter& known : user::parameters()) names.push_back(known.name);
        return fail("{}: unknown parameter{}; /set lists them", escape_short(name, 40), user::suggestion(name, names));
    }
    TRY(parameter->set(settings_, value));
    note(fmt::format("{} is {}", parameter->name, escape(parameter->show(settings_))));
    return Ok{};
}

Status Repl::model(std::string_view name) {
    if (!name.empty()) {
        const Status loaded = chat_.load(user::expand_home(name));
        if (!chat_.loaded()) leaving_ = failed_ = true;
        TRY(loaded);
    }
    const std::string source = chat_.source().empty() ? "" : fmt::format(" ({})", escape(chat_.source()));
    note(fmt::format("{}{} on {}", escape(chat_.model().name), source, chat_.device().name));
    if (chat_.raw()) note("[text is completed as it is, without a chat template]");
    if (name.empty()) note("/model MODEL goes on with a GGUF file, a Hugging Face directory or an embedded model.");
    return Ok{};
}

Status Repl::show() {
    const models::Model& model = chat_.model();
    const device::Description& device = chat_.device();
    Table table({"model", fmt::format("{} ({}, {} parameters)", escape(model.name), model.family,
                                      format_count(model.parameters))});
    table.add({"device", fmt::format("{} ({}, {})", device.name, device.hardware, device.details)});
    table.add({"format", chat_.raw() ? "text completed as it is" : "chat template of the model"});
    const int used_tokens = TRY(chat_.used_tokens(settings_));
    table.add({"context", fmt::format("{} of {} tokens in use by {} messages", used_tokens, chat_.context(),
                                      chat_.messages.size())});
    for (const user::Parameter& parameter : user::parameters()) {
        table.add({std::string(parameter.name), escape_short(parameter.show(settings_), 100)});
    }
    std::string text = table.to_string();
    text.pop_back();
    note(text);
    return Ok{};
}

Status Repl::save(std::string_view file) {
    if (file.empty()) return fail("/save needs the name of a file");
    const Status saved =
        save_conversation(user::expand_home(file), {.system = settings_.system, .messages = chat_.messages});
    failed_ = !saved;
    if (saved) note(fmt::format("{} messages saved to {}", chat_.messages.size(), file));
    return saved;
}

Status Repl::load(std::string_view file) {
    if (file.empty()) return fail("/load needs the name of a file");
    Conversation conversation = TRY(load_conversation(user::expand_home(file)));
    settings_.system = std::move(conversation.system);
    chat_.messages = std::move(conversation.messages);
    note(fmt::format("{} messages loaded from {}", chat_.messages.size(), file));
    return Ok{};
}

}  // namespace

Result<int> run_repl(Chat& chat, user::Settings settings, const ReplOptions& options) {
    return Repl(chat, std::move(settings), options).run();
}

}  // namespace tandem::cli
