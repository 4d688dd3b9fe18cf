#include "cli/repl.h"

#include <algorithm>

#include "cli/closing_line.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "cli/multi_line.h"
#include "cli/text_output.h"

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
    Repl(Chat& chat, Settings settings, const ReplOptions& options)
        : chat_(chat), settings_(std::move(settings)), options_(options) {}

    int run();

  private:
    void answer(std::string_view text);
    void command(std::string_view line);

    Status help(std::string_view argument);
    Status set(std::string_view argument);
    Status clear(std::string_view argument);
    Status show(std::string_view argument);
    Status save(std::string_view argument);
    Status load(std::string_view argument);
    Status bye(std::string_view argument);

    struct SlashCommand {
        std::string_view name;
        std::string_view argument;
        std::string_view help;
        Status (Repl::*run)(std::string_view argument);
    };
    static const SlashCommand kCommands[];

    Chat& chat_;
    Settings settings_;
    ReplOptions options_;
    bool leaving_ = false;
    bool save_failed_ = false;
};

const Repl::SlashCommand Repl::kCommands[] = {
    {"/help", "", "This list", &Repl::help},
    {"/set", "[PARAM [VALUE]]", "Change a parameter; alone: list them", &Repl::set},
    {"/clear", "", "Forget the conversation", &Repl::clear},
    {"/show", "", "The model, the context in use and the parameters", &Repl::show},
    {"/save", "FILE", "Write the conversation to FILE as JSON", &Repl::save},
    {"/load", "FILE", "Go on with the conversation in FILE", &Repl::load},
    {"/bye", "", "Leave; Ctrl-D does too", &Repl::bye},
};

int Repl::run() {
    catch_interrupts(SecondInterrupt::ignored);
    if (!options_.quiet) {
        note(
            fmt::format("{} on {}. /help lists the commands, Ctrl-D leaves.", chat_.model().name, chat_.device().name));
    }
    LineEditor editor;
    MultiLine input;
    while (!leaving_) {
        const LineEditor::Input line = editor.read(input.pending() ? kContinuation : kPrompt);
        if (line.event == LineEditor::Event::end) break;
        if (line.event == LineEditor::Event::interrupt) {
            const bool nothing = line.text.empty() && !input.pending();
            note(nothing ? "\n(Ctrl-D or /bye leaves)" : "");
            input.take();
            continue;
        }
        if (!input.pending() && trimmed(line.text).starts_with('/')) {
            command(trimmed(line.text));
        } else if (input.push(line.text)) {
            answer(input.take());
        }
    }
    if (!leaving_) note("");
    return save_failed_ ? kExitFailed : 0;
}

void Repl::answer(std::string_view text) {
    if (trimmed(text).empty()) return;
    const Result<Answer> answer = chat_.ask(text, settings_, [](std::string_view piece) { print(piece); });
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
    const auto* const found =
        std::find_if(std::begin(kCommands), std::end(kCommands),
                     [&, wanted = name](const SlashCommand& known) { return known.name == wanted; });
    if (found == std::end(kCommands)) {
        note(fmt::format("tandem: {}: unknown command; /help lists them", escape_short(name, 40)));
        return;
    }
    const Status status = (this->*found->run)(argument);
    if (!status) note(fmt::format("tandem: {}", status.error().message));
}

Status Repl::help(std::string_view /*argument*/) {
    Table table({"COMMAND", "", ""});
    for (const SlashCommand& known : kCommands) {
        table.add({std::string(known.name), std::string(known.argument), std::string(known.help)});
    }
    note(table.to_string() +
         "A line that ends with \\ goes on in the next one; \"\"\" begins and ends a text of several lines.\n"
         "Ctrl-C stops an answer; what was said until then stays in the conversation.");
    return Ok{};
}

Status Repl::set(std::string_view argument) {
    const auto [name, value] = split_word(argument);
    if (name.empty()) {
        Table table({"PARAM", "VALUE", ""});
        for (const Parameter& parameter : parameters()) {
            table.add({std::string(parameter.name), escape_short(parameter.show(settings_), 30),
                       std::string(parameter.help)});
        }
        note(table.to_string() + "/set PARAM without a value removes system, stop, grammar and logit_bias.");
        return Ok{};
    }
    const Parameter* const parameter = find_parameter(name);
    if (parameter == nullptr) return fail("{}: unknown parameter; /set lists them", escape_short(name, 40));
    TRY(parameter->set(settings_, value));
    note(fmt::format("{} is {}", parameter->name, escape(parameter->show(settings_))));
    return Ok{};
}

Status Repl::clear(std::string_view /*argument*/) {
    chat_.messages.clear();
    note("The conversation is forgotten.");
    return Ok{};
}

Status Repl::show(std::string_view /*argument*/) {
    const models::Model& model = chat_.model();
    const device::Description& device = chat_.device();
    Table table({"model", fmt::format("{} ({}, {} parameters)", escape(model.name), model.family,
                                      format_count(model.parameters))});
    table.add({"device", fmt::format("{} ({}, {})", device.name, device.hardware, device.details)});
    table.add({"format", chat_.raw() ? "text completed as it is" : "chat template of the model"});
    const int used_tokens = TRY(chat_.used_tokens(settings_));
    table.add({"context", fmt::format("{} of {} tokens in use by {} messages", used_tokens, chat_.context(),
                                      chat_.messages.size())});
    for (const Parameter& parameter : parameters()) {
        table.add({std::string(parameter.name), escape_short(parameter.show(settings_), 100)});
    }
    std::string text = table.to_string();
    text.pop_back();
    note(text);
    return Ok{};
}

Status Repl::save(std::string_view argument) {
    if (argument.empty()) return fail("/save needs the name of a file");
    Status saved = save_conversation(std::string(argument), {.system = settings_.system, .messages = chat_.messages});
    save_failed_ = !saved;
    if (saved) note(fmt::format("{} messages saved to {}", chat_.messages.size(), argument));
    return saved;
}

Status Repl::load(std::string_view argument) {
    if (argument.empty()) return fail("/load needs the name of a file");
    Conversation conversation = TRY(load_conversation(std::string(argument)));
    settings_.system = std::move(conversation.system);
    chat_.messages = std::move(conversation.messages);
    note(fmt::format("{} messages loaded from {}", chat_.messages.size(), argument));
    return Ok{};
}

Status Repl::bye(std::string_view /*argument*/) {
    leaving_ = true;
    return Ok{};
}

}  // namespace

Result<int> run_repl(Chat& chat, Settings settings, const ReplOptions& options) {
    return Repl(chat, std::move(settings), options).run();
}

}  // namespace tandem::cli
