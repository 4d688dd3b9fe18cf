#include "cli/line_editor.h"

#include <fmt/format.h>
#include <histedit.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/interrupt.h"
#include "cli/paste.h"
#include "cli/prompt_terminal.h"
#include "cli/text_output.h"
#include "cli/word_wrap.h"
#include "user/paths.h"

namespace tandem::cli {

namespace {

constexpr int kHistoryLines = 1000;
constexpr char kCtrlC = 3;
constexpr char kCtrlD = 4;
constexpr std::string_view kRedisplay = "\x1b[tandem-redisplay~";  // no key of any terminal

// Characters are read and shown as UTF-8, also where no locale is set up.
void choose_utf8_locale() {
    std::setlocale(LC_CTYPE, "");
    if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

std::string history_path() {
    const std::filesystem::path directory = user::state_directory();
    return directory.empty() ? "" : (directory / "history").string();
}

struct LineEditor::State {
    EditLine* editor = nullptr;
    History* history = nullptr;
    std::string history_file = history_path();
    std::string prompt;
    Completer completer;
    FILE* screen = stdout;
    bool controls_screen = false;  // it understands control sequences
    std::optional<char> unread;
    int typed_ahead = 0;  // bytes that are left of what was typed before the terminal was in raw mode

    static State& of(EditLine* editor) {
        void* data = nullptr;
        el_get(editor, EL_CLIENTDATA, &data);
        return *static_cast<State*>(data);
    }

    void begin_raw_mode();
    bool redraw(wchar_t* key);
    ssize_t read_byte(char& byte);
    std::string before_cursor() const;
    void show_candidates(const Completion& completion) const;
    void bind_keys() const;

    static int read_character(EditLine* editor, wchar_t* out);
    static unsigned char on_paste(EditLine* editor, int key);
    static unsigned char on_tab(EditLine* editor, int key);
    static unsigned char on_nothing(EditLine* editor, int key);
};

// Before the prompt shows; el_gets would only do it when it waits for the first character, and keys typed in between
// would not mean what they mean at a prompt.
void LineEditor::State::begin_raw_mode() {
    el_set(editor, EL_PREP_TERM, 1);
    typed_ahead = 0;
    ::ioctl(STDIN_FILENO, FIONREAD, &typed_ahead);
}

// Shows the line again when the screen is not what it was; true: by the key that is returned next.
bool LineEditor::State::redraw(wchar_t* key) {
    const ScreenChange change = take_screen_change();
    if (change == ScreenChange::none) return false;
    el_resize(editor);
    if (change == ScreenChange::resized) {  // over what is there
        *key = kRedisplay.front();
        el_push(editor, kRedisplay.data() + 1);
        return true;
    }
    el_set(editor, EL_PREP_TERM, 0);  // libedit believes that the modes are as it left them
    el_set(editor, EL_PREP_TERM, 1);
    el_set(editor, EL_REFRESH);
    return false;
}

// Returns 1, 0 at the end, or -1: with EINTR for an interrupt, with EAGAIN when something else woke the program.
ssize_t LineEditor::State::read_byte(char& byte) {
    if (unread) {
        byte = *std::exchange(unread, std::nullopt);
        return 1;
    }
    ssize_t count = 0;
    do {
        const Waited waited = wait_for_input(STDIN_FILENO);
        if (waited != Waited::input) {
            errno = waited == Waited::interrupted ? EINTR : EAGAIN;
            return -1;
        }
        count = ::read(STDIN_FILENO, &byte, 1);
    } while (count < 0 && errno == EINTR);
    // A Ctrl-D typed while the terminal was in line mode (an answer was running) waits as a zero byte.
    if (count == 1 && typed_ahead > 0) {
        typed_ahead--;
        if (byte == '\0') byte = kCtrlD;
    }
    return count;
}

// Reads the next character; libedit's own reader would try again after a signal. An interrupt is the key Ctrl-C, for as
// long as nobody took it. Returns 1, 0 at the end, or -1.
int LineEditor::State::read_character(EditLine* editor, wchar_t* out) {
    std::mbstate_t state{};
    for (bool begun = false;;) {
        char byte = 0;
        const ssize_t count = of(editor).read_byte(byte);
        if (count < 0 && interrupted()) {
            *out = kCtrlC;
            return 1;
        }
        if (count < 0 && errno == EAGAIN) {
            if (of(editor).redraw(out)) return 1;
            continue;
        }
        if (count <= 0) return static_cast<int>(count);
        const size_t length = std::mbrtowc(out, &byte, 1, &state);
        if (length == static_cast<size_t>(-1)) {
            if (begun) of(editor).unread = byte;  // it broke the character before it, and may begin the next
            *out = L'\ufffd';
            return 1;
        }
        if (length != static_cast<size_t>(-2)) return 1;
        begun = true;  // the character has more bytes
    }
}

// Takes in what the terminal marks as pasted. Nothing in it is a key: its lines wait for Enter as one input.
unsigned char LineEditor::State::on_paste(EditLine* editor, int /*key*/) {
    Paste paste;
    char byte = 0;
    for (bool complete = false; !complete;) {
        const ssize_t count = of(editor).read_byte(byte);
        if (count > 0) complete = paste.push(byte);
        if (count < 0 && interrupted()) return CC_NORM;
        if (count == 0 || (count < 0 && errno != EAGAIN)) return CC_EOF;
    }
    const std::string text = paste.text();
    if (text.empty()) return CC_NORM;
    return el_insertstr(editor, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
}

unsigned char LineEditor::State::on_tab(EditLine* editor, int /*key*/) {
    const State& state = of(editor);
    const std::optional<Completion> completion = state.completer(state.before_cursor());
    if (!completion) return el_insertstr(editor, "\t") == 0 ? CC_REFRESH : CC_ERROR;
    const std::string rest = completion->common_rest();
    if (!rest.empty()) return el_insertstr(editor, rest.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
    if (completion->candidates.size() < 2) return CC_ERROR;
    state.show_candidates(*completion);
    return CC_REDISPLAY;
}

unsigned char LineEditor::State::on_nothing(EditLine* /*editor*/, int /*key*/) {
    return CC_NORM;
}

std::string LineEditor::State::before_cursor() const {
    const LineInfo* const line = el_line(editor);
    return {line->buffer, line->cursor};
}

void LineEditor::State::show_candidates(const Completion& completion) const {
    constexpr size_t kMost = 50;
    std::string text;
    for (size_t i = 0; i < std::min(kMost, completion.candidates.size()); ++i) {
        text += (i == 0 ? "\n" : "  ") + escape(completion.candidates[i]);
    }
    if (completion.candidates.size() > kMost) {
        text += fmt::format("  and {} more", completion.candidates.size() - kMost);
    }
    WordWrap wrap([this] { return terminal_columns(fileno(screen)); });
    std::string shown = wrap.push(text);
    shown += wrap.finish();
    std::fprintf(screen, "%s\n", shown.c_str());
    std::fflush(screen);
}

void LineEditor::State::bind_keys() const {
    el_set(editor, EL_ADDFN, "tandem-paste", "Take in a pasted text", on_paste);
    el_set(editor, EL_ADDFN, "tandem-complete", "Complete the word", on_tab);
    el_set(editor, EL_ADDFN, "tandem-nothing", "Do nothing", on_nothing);
    el_set(editor, EL_BIND, kPasteBegin.data(), "tandem-paste", nullptr);
    el_set(editor, EL_BIND, kPasteEnd.data(), "tandem-nothing", nullptr);  // of a paste that Ctrl-C cut short
    el_set(editor, EL_BIND, "\t", "tandem-complete", nullptr);
    el_set(editor, EL_BIND, kRedisplay.data(), "ed-redisplay", nullptr);
    // Ctrl-C ends the line as Enter does, below all its rows; that it was an interrupt is known from the flag.
    el_set(editor, EL_BIND, "\x03", "ed-newline", nullptr);
    el_set(editor, EL_BIND, "-a", "\x03", "ed-newline", nullptr);  // while the keys of vi are commands
}

LineEditor::LineEditor(Completer completer) : state_(std::make_unique<State>()) {
    choose_utf8_locale();
    state_->completer = std::move(completer);
    HistEvent event{};
    state_->history = history_init();
    history(state_->history, &event, H_SETSIZE, kHistoryLines);
    history(state_->history, &event, H_SETUNIQUE, 1);
    if (!state_->history_file.empty()) history(state_->history, &event, H_LOAD, state_->history_file.c_str());

    // What is typed is no data: it shows on standard error when standard output goes elsewhere.
    state_->screen = isatty(STDOUT_FILENO) == 1 ? stdout : stderr;
    state_->controls_screen = has_control_sequences(fileno(state_->screen));
    state_->editor = el_init("tandem", stdin, state_->screen, stderr);
    el_set(state_->editor, EL_CLIENTDATA, state_.get());
    el_set(state_->editor, EL_PROMPT,
           static_cast<char* (*)(EditLine*)>([](EditLine* editor) { return State::of(editor).prompt.data(); }));
    el_set(state_->editor, EL_EDITOR, "emacs");
    el_set(state_->editor, EL_HIST, history, state_->history);
    el_wset(state_->editor, EL_GETCFN, State::read_character);
    el_source(state_->editor, nullptr);  // the user's ~/.editrc
    state_->bind_keys();                 // after it: choosing the keys of vi forgets all others
}

LineEditor::~LineEditor() {
    if (!state_->history_file.empty()) {
        std::error_code ignored;  // a history that cannot be kept is no reason to complain
        std::filesystem::create_directories(std::filesystem::path(state_->history_file).parent_path(), ignored);
        HistEvent event{};
        history(state_->history, &event, H_SAVE, state_->history_file.c_str());
    }
    el_end(state_->editor);
    history_end(state_->history);
}

LineEditor::Input LineEditor::read(const std::string& prompt) {
    state_->prompt = prompt;
    el_resize(state_->editor);
    const PromptTerminal terminal(fileno(state_->screen), state_->controls_screen);
    state_->begin_raw_mode();
    int length = 0;
    const char* const line = el_gets(state_->editor, &length);
    const bool was_interrupted = take_interrupt();
    if (line == nullptr || length <= 0) return {was_interrupted ? Event::interrupt : Event::end, {}};
    std::string text(line, static_cast<size_t>(length));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    return {was_interrupted ? Event::interrupt : Event::line, text};
}

void LineEditor::remember(const std::string& input) {
    if (input.empty()) return;
    HistEvent event{};
    history(state_->history, &event, H_ENTER, input.c_str());
}

}  // namespace tandem::cli
