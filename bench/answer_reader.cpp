// Time that splitting an answer takes for each byte, for texts of 100 KB to 800 KB that make it look ahead: many marks
// that lead nowhere, one long call, a run of white space. It must not grow with the text.
#include <fmt/format.h>

#include <ctime>
#include <string>
#include <string_view>

#include "text/answer_reader.h"

namespace tandem::bench {

namespace {

// Of processor time: what else runs on the machine does not count.
double seconds_now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double nanoseconds_a_byte(const std::string& text, size_t piece) {
    text::AnswerReader reader(
        {.format = text::answer_format("{{tools}} <think>\n</think> <tool_call>\n</tool_call>"), .tools = {"add"}});
    const double begin = seconds_now();
    for (size_t at = 0; at < text.size(); at += piece) reader.push(std::string_view(text).substr(at, piece));
    reader.finish();
    return (seconds_now() - begin) * 1e9 / static_cast<double>(text.size());
}

}  // namespace

int run() {
    fmt::print("{:<50} {:>8} {:>12} {:>12}\n", "repeated", "bytes", "ns/B whole", "ns/B by 5");
    for (const std::string_view repeated : {"<tool_call>{", "<tool_call>{\"", " ", "<", "<tool_call> ", "{\"name\":\"",
                                            "<tool_call>{\"name\":\"add\",\"arguments\":{}}"}) {
        for (const size_t bytes : {100'000U, 200'000U, 400'000U, 800'000U}) {
            std::string text;
            while (text.size() < bytes) text += repeated;
            fmt::print("{:<50} {:>8} {:>12.1f} {:>12.1f}\n", repeated, text.size(),
                       nanoseconds_a_byte(text, text.size()), nanoseconds_a_byte(text, 5));
        }
    }
    return 0;
}

}  // namespace tandem::bench

int main() {
    return tandem::bench::run();
}
