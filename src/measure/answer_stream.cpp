#include "measure/answer_stream.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace tandem::measure {

namespace {

using EventJson = nlohmann::json;

constexpr size_t kMostLineBytes = size_t{1} << 20;
constexpr size_t kMostPieces = size_t{1} << 20;

std::string short_text(std::string_view text) {
    constexpr size_t kMost = 60;
    std::string line;
    for (const char letter : text.substr(0, kMost)) line += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
    return line;
}

const EventJson* member(const EventJson* object, const char* name) {
    if (object == nullptr || !object->is_object()) return nullptr;
    const auto found = object->find(name);
    return found == object->end() || found->is_null() ? nullptr : &*found;
}

int count_of(const EventJson& object, const char* name) {
    const EventJson* const value = member(&object, name);
    constexpr int64_t kMost = 1 << 30;
    if (value == nullptr || !value->is_number_integer()) return -1;
    const auto count = value->get<int64_t>();
    return count >= 0 && count <= kMost ? static_cast<int>(count) : -1;
}

bool has_text(const EventJson* delta) {
    for (const char* const name : {"content", "reasoning_content", "reasoning"}) {
        const EventJson* const text = member(delta, name);
        if (text != nullptr && text->is_string() && !text->get_ref<const std::string&>().empty()) return true;
    }
    return member(delta, "tool_calls") != nullptr;
}

}  // namespace

bool AnswerStream::push(std::string_view bytes, double at_s) {
    while (!bytes.empty() && error_.empty()) {
        const size_t end = bytes.find('\n');
        line_.append(bytes.substr(0, end));
        if (line_.size() > kMostLineBytes) error_ = "a line without an end";
        if (end == std::string_view::npos) break;
        bytes.remove_prefix(end + 1);
        if (line_.ends_with('\r')) line_.pop_back();
        take_line(line_, at_s);
        line_.clear();
    }
    return error_.empty();
}

void AnswerStream::finish() {
    if (!error_.empty()) return;
    if (line_ == "data: [DONE]") done_ = true;  // some end without a last line break
    if (!done_ || !ended_) error_ = "the stream was cut";
    if (error_.empty() && pieces_s_.empty()) error_ = "an empty answer";
}

// Of server-sent events only data counts; names, comments and empty lines are for others.
void AnswerStream::take_line(std::string_view line, double at_s) {
    constexpr std::string_view kData = "data:";
    if (line.empty() || line.starts_with(':') || line.starts_with("event:") || line.starts_with("id:") ||
        line.starts_with("retry:"))
        return;
    if (!line.starts_with(kData)) {
        error_ = fmt::format("no stream of events: {}", short_text(line));
        return;
    }
    line.remove_prefix(kData.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (line == "[DONE]") {
        done_ = true;
    } else {
        take_event(line, at_s);
    }
}

void AnswerStream::take_event(std::string_view text, double at_s) {
    const EventJson event = EventJson::parse(text, nullptr, false);
    if (event.is_discarded() || !event.is_object()) {
        error_ = fmt::format("an event that is no object: {}", short_text(text));
        return;
    }
    if (const EventJson* const told = member(&event, "error")) {
        const EventJson* const message = member(told, "message");
        const bool is_text = message != nullptr && message->is_string();
        error_ = "an error in the stream: " + short_text(is_text ? message->get<std::string>() : told->dump());
        return;
    }
    if (const EventJson* const usage = member(&event, "usage")) {
        const int prompt = count_of(*usage, "prompt_tokens");
        const int completion = count_of(*usage, "completion_tokens");
        if (prompt >= 0 && completion >= 0)
            usage_ = {prompt, completion, count_of(*usage, "total_tokens") == prompt + completion};
    }
    const EventJson* const choices = member(&event, "choices");
    if (choices == nullptr || !choices->is_array() || choices->empty()) return;
    const EventJson& choice = choices->front();
    if (has_text(member(&choice, "delta")) && pieces_s_.size() < kMostPieces) pieces_s_.push_back(at_s);
    if (member(&choice, "finish_reason") != nullptr) ended_ = true;
}

}  // namespace tandem::measure
