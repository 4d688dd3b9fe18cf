#include "cli/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <filesystem>
#include <string_view>

#include "cli/interrupt.h"
#include "cli/user_paths.h"

namespace tandem::cli {

namespace {

constexpr int kHistoryLines = 1000;
constexpr char kCtrlD = 4;

// Characters are read and shown as UTF-8, also where no locale is set up.
void choose_utf8_locale() {
    std::setlocale(LC_CTYPE, "");
    if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

std::string history_path() {
    const std::filesystem::path directory = state_directory();
    return directory.empty() ? "" : (directory / "history").string();
}

struct LineEditor::State {
    EditLine* editor = nullptr;
    History* history = nullptr;
    std::string history_file = history_path();
    std::string prompt;
    int typed_ahead = 0;  // bytes that are left of what was typed before the terminal was in raw mode

    static State& of(EditLine* editor) {
        void* data = nullptr;
        el_get(editor, EL_CLIENTDATA, &data);
        return *static_cast<State*>(data);
    }

    void begin_raw_mode();
    ssize_t read_byte(char& byte);
    static int read_character(EditLine* editor, wchar_t* out);
};

// Before the prompt shows; el_gets would only do it when it waits for the first character, and keys typed in between
// would not mean what they mean at a prompt.
void LineEditor::State::begin_raw_mode() {
    el_set(editor, EL_PREP_TERM, 1);
    typed_ahead = 0;
    ::ioctl(STDIN_FILENO, FIONREAD, &typed_ahead);
}

ssize_t LineEditor::State::read_byte(char& byte) {
    ssize_t count = 0;
    do {
        if (!wait_for_input(STDIN_FILENO)) {
            errno = EINTR;
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

// Reads the next character; libedit's own reader would try again after a signal. Returns 1, 0 at the end, or -1.
int LineEditor::State::read_character(EditLine* editor, wchar_t* out) {
    std::mbstate_t state{};
    for (;;) {
        char byte = 0;
        const ssize_t count = of(editor).read_byte(byte);
        if (count <= 0) return static_cast<int>(count);
        const size_t length = std::mbrtowc(out, &byte, 1, &state);
        if (length == static_cast<size_t>(-1)) {
            state = {};
            *out = L'\ufffd';
            return 1;
        }
        if (length != static_cast<size_t>(-2)) return 1;  // else the character has more bytes
    }
}

LineEditor::LineEditor() : state_(std::make_unique<State>()) {
    choose_utf8_locale();
    HistEvent event{};
    state_->history = history_init();
    history(state_->history, &event, H_SETSIZE, kHistoryLines);
    history(state_->history, &event, H_SETUNIQUE, 1);
    if (!state_->history_file.empty()) history(state_->history, &event, H_LOAD, state_->history_file.c_str());

    // What is typed is no data: it shows on standard error when standard output goes elsewhere.
    FILE* const screen = isatty(STDOUT_FILENO) == 1 ? stdout : stderr;
    state_->editor = el_init("tandem", stdin, screen, stderr);
    el_set(state_->editor, EL_CLIENTDATA, state_.get());
    el_set(state_->editor, EL_PROMPT,
           static_cast<char* (*)(EditLine*)>([](EditLine* editor) { return State::of(editor).prompt.data(); }));
    el_set(state_->editor, EL_EDITOR, "emacs");
    el_set(state_->editor, EL_HIST, history, state_->history);
    el_wset(state_->editor, EL_GETCFN, State::read_character);
    el_source(state_->editor, nullptr);  // the user's ~/.editrc
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
    state_->begin_raw_mode();
    int length = 0;
    const char* const line = el_gets(state_->editor, &length);
    if (line == nullptr || length <= 0) {
        if (!take_interrupt()) return {Event::end, {}};
        const LineInfo* const typed = el_line(state_->editor);
        Input input{Event::interrupt, std::string(typed->buffer, typed->lastchar)};
        el_reset(state_->editor);
        return input;
    }
    std::string text(line, static_cast<size_t>(length));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    if (!text.empty()) {
        HistEvent event{};
        history(state_->history, &event, H_ENTER, text.c_str());
    }
    return {Event::line, text};
}

}  // namespace tandem::cli
