#include "text/harmony_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "format/json.h"
#include "text/call_syntax.h"

namespace tandem::text {

namespace {

constexpr std::string_view kHeaderSpaces = " \n\t\r";
constexpr size_t kMostHeaderBytes = 512;
constexpr std::string_view kRecipient = "to=";
constexpr std::string_view kFunctions = "functions.";
// What a header begins with.
constexpr std::string_view kHeaderBegins[] = {kHarmonyStart, kHarmonyChannel, kHarmonyConstrain, kHarmonyMessage,
                                              kRecipient};
// Where a message ends: the mark belongs to it, or is that of the next header.
constexpr std::string_view kBodyEnds[] = {kHarmonyEnd, kHarmonyCall, kHarmonyReturn, kHarmonyStart, kHarmonyChannel};
constexpr size_t kOwnEnds = 3;

// The word that follows `mark`.
std::string_view word_after(std::string_view header, std::string_view mark) {
    const size_t found = header.find(mark);
    if (found == std::string_view::npos) return {};
    const std::string_view rest = header.substr(found + mark.size());
    return rest.substr(0, rest.find_first_of(" \n\t\r<"));
}

// The end of `text` that could become one of the marks.
size_t possible_mark(std::string_view text) {
    size_t most = 0;
    for (const std::string_view mark : kBodyEnds) {
        for (size_t length = std::min(text.size(), mark.size() - 1); length > most; --length) {
            if (mark.starts_with(text.substr(text.size() - length))) most = length;
        }
    }
    return most;
}

}  // namespace

std::vector<AnswerPart> HarmonyReader::push(std::string_view text) {
    pending_ += text;
    while (step()) {
    }
    return std::exchange(parts_, {});
}

std::vector<AnswerPart> HarmonyReader::finish(bool keeps_cut_calls) {
    if (state_ != State::header) emit(pending_);  // half a header says nothing
    pending_.clear();
    if (kind_ == AnswerPart::Kind::call) end_call(keeps_cut_calls);
    state_ = State::body;
    kind_ = AnswerPart::Kind::content;
    return std::exchange(parts_, {});
}

bool HarmonyReader::step() {
    switch (state_) {
        case State::start:
            return step_start();
        case State::header:
            return step_header();
        case State::body:
            return step_body();
    }
    return false;
}

bool HarmonyReader::step_start() {
    const std::string_view text = pending_;
    const size_t first = text.find_first_not_of(kHeaderSpaces);
    if (first == std::string_view::npos) return false;
    const std::string_view begin = text.substr(first);
    const auto begins = [&](std::string_view mark) { return begin.starts_with(mark); };
    const auto may_begin = [&](std::string_view mark) { return mark.starts_with(begin); };
    if (std::ranges::any_of(kHeaderBegins, begins)) {
        state_ = State::header;
    } else if (std::ranges::any_of(kHeaderBegins, may_begin)) {
        return false;
    } else {
        state_ = State::body;
        kind_ = AnswerPart::Kind::content;
    }
    return true;
}

bool HarmonyReader::step_header() {
    const size_t end = pending_.find(kHarmonyMessage);
    if (end == std::string::npos) {
        if (pending_.size() < kMostHeaderBytes) return false;
        state_ = State::body;  // no header after all
        kind_ = AnswerPart::Kind::content;
        return true;
    }
    read_header(std::string_view(pending_).substr(0, end));
    pending_.erase(0, end + kHarmonyMessage.size());
    state_ = State::body;
    return true;
}

void HarmonyReader::read_header(std::string_view header) {
    std::string_view recipient = word_after(header, kRecipient);
    if (recipient.starts_with(kFunctions)) recipient.remove_prefix(kFunctions.size());
    tool_ = recipient;
    arguments_.clear();
    kind_ = AnswerPart::Kind::content;
    if (word_after(header, kHarmonyChannel) == "analysis") kind_ = AnswerPart::Kind::reasoning;
    if (has_tools_ && !tool_.empty()) kind_ = AnswerPart::Kind::call;
}

bool HarmonyReader::step_body() {
    const std::string_view text = pending_;
    size_t found = std::string_view::npos;
    size_t mark = 0;
    for (size_t i = 0; i < std::size(kBodyEnds); ++i) {
        const size_t at = text.find(kBodyEnds[i]);
        if (at >= found) continue;
        found = at;
        mark = i;
    }
    if (found == std::string_view::npos) {
        const size_t certain = text.size() - possible_mark(text);
        emit(text.substr(0, certain));
        pending_.erase(0, certain);
        return false;
    }
    emit(text.substr(0, found));
    pending_.erase(0, found + (mark < kOwnEnds ? kBodyEnds[mark].size() : 0));
    if (kind_ == AnswerPart::Kind::call) end_call(false);
    kind_ = AnswerPart::Kind::content;
    state_ = State::start;
    return true;
}

void HarmonyReader::emit(std::string_view text) {
    if (text.empty()) return;
    if (kind_ == AnswerPart::Kind::call) {
        arguments_ += text;
        return;
    }
    if (parts_.empty() || parts_.back().kind != kind_) parts_.push_back({.kind = kind_, .text = {}, .name = {}});
    parts_.back().text += text;
}

void HarmonyReader::end_call(bool keeps_cut_calls) {
    const auto parsed = format::parse_json(arguments_, "arguments");
    const bool is_empty = arguments_.find_first_not_of(kHeaderSpaces) == std::string::npos;
    if (is_empty && !keeps_cut_calls) arguments_ = "{}";
    if (is_empty || keeps_cut_calls || (parsed && parsed->is_object())) {
        parts_.push_back({.kind = AnswerPart::Kind::call, .text = std::move(arguments_), .name = std::move(tool_)});
    } else {
        kind_ = AnswerPart::Kind::content;
        emit(arguments_);
    }
    arguments_.clear();
}

}  // namespace tandem::text
