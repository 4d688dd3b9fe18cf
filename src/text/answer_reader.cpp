#include "text/answer_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "format/json.h"
#include "text/prompt.h"

namespace tandem::text {

namespace {

using PartKind = AnswerPart::Kind;

constexpr std::string_view kSpaces = " \n\t\r";
constexpr size_t kMostSpace = 64;  // bytes of white space that belong to a mark
constexpr size_t kMostCallIdBytes = 64;

size_t leading_space(std::string_view text) {
    return std::min(text.find_first_not_of(kSpaces), text.size());
}

// At most what belongs to a mark.
size_t trailing_space(std::string_view text) {
    const size_t last = text.find_last_not_of(kSpaces);
    const size_t space = last == std::string_view::npos ? text.size() : text.size() - last - 1;
    return std::min(space, kMostSpace);
}

// Whether `text` is the beginning of `mark`, and not all of it.
bool could_become(std::string_view text, std::string_view mark) {
    return text.size() < mark.size() && mark.starts_with(text);
}

// The length of the longest end of `text` that could become `mark`.
size_t held_back(std::string_view text, std::string_view mark) {
    if (mark.empty()) return 0;
    for (size_t length = std::min(text.size(), mark.size() - 1); length > 0; --length) {
        if (mark.starts_with(text.substr(text.size() - length))) return length;
    }
    return 0;
}

struct GivenId {
    size_t length = 0;  // with its mark; 0: there is none
    bool is_complete = true;
};

// The id that some models give a call. It is not handed out: nothing makes sure that they do not give it twice.
GivenId read_given_id(std::string_view text) {
    if (could_become(text, kCallIdMark)) return {.is_complete = false};
    if (!text.starts_with(kCallIdMark)) return {};
    size_t length = kCallIdMark.size();
    const size_t most = std::min(text.size(), kCallIdMark.size() + kMostCallIdBytes);
    while (length < most && text[length] != '[' && text[length] != '{') ++length;
    return {.length = length, .is_complete = length < text.size()};
}

// The arguments of a call as they were written. A string is taken for the JSON in it.
std::optional<std::string> read_arguments(const nlohmann::json& call, std::string_view text) {
    for (const char* key : {"arguments", "parameters"}) {
        const auto member = call.find(key);
        if (member == call.end()) continue;
        if (member->is_object()) {
            const auto raw = raw_member(text, key);
            return raw ? std::optional<std::string>(*raw) : std::nullopt;
        }
        if (!member->is_string()) return std::nullopt;
        const auto inner = format::parse_json(member->get_ref<const std::string&>(), "arguments");
        if (!inner || !inner->is_object()) return std::nullopt;
        return member->get<std::string>();
    }
    return std::nullopt;
}

}  // namespace

AnswerReaderOptions answer_reader_options(const Prompt& prompt, const nlohmann::ordered_json& tools) {
    using Json = nlohmann::ordered_json;
    AnswerReaderOptions reader = {.format = prompt.format, .begins_in_reasoning = prompt.begins_in_reasoning};
    for (const Json& tool : tools) {
        const Json& function = tool.at("function");
        const std::string& name = reader.tools.emplace_back(function.at("name").get<std::string>());
        const Json parameters = function.value("parameters", Json::object());
        for (const std::string& parameter : text_parameters(parameters))
            reader.text_parameters.insert({name, parameter});
    }
    return reader;
}

AnswerReader::AnswerReader(AnswerReaderOptions options) : options_(std::move(options)) {
    if (options_.format.calls == CallStyle::harmony && options_.splits_reasoning) {
        harmony_.emplace(!options_.tools.empty());
        return;
    }
    if (!options_.splits_reasoning) options_.format.reasoning_begin = options_.format.reasoning_end = {};
    if (options_.begins_in_reasoning && options_.splits_reasoning) {
        state_ = State::reasoning;
        after_mark_ = true;
    }
    syntax_ = &call_syntax(options_.format.calls);
    if (options_.tools.empty()) return;
    call_begin_ = mark_of(syntax_->begin);
    call_end_ = mark_of(syntax_->end);
}

std::vector<AnswerPart> AnswerReader::push(std::string_view text) {
    if (harmony_) return harmony_->push(text);
    pending_ += text;
    while (step()) {
    }
    pending_.erase(0, std::exchange(at_, 0));
    return hand_out();
}

std::vector<AnswerPart> AnswerReader::finish(bool keeps_cut_calls) {
    if (harmony_) return harmony_->finish(keeps_cut_calls);
    std::string_view text = rest();
    if (keeps_cut_calls && state_ == State::call && is_block(*syntax_)) {
        const size_t begin = text.find(call_begin_) + call_begin_.size();
        auto call = read_cut_call_block(*syntax_, text.substr(begin), options_.text_parameters);
        if (call) {
            parts_.push_back(
                {.kind = PartKind::call, .text = std::move(call->arguments), .name = std::move(call->name)});
            text = {};
        }
    }
    if (keeps_cut_calls && state_ == State::call && scanned_ > 0) {
        std::vector<AnswerPart> calls = read_cut_calls(text.substr(value_begin_));
        if (!calls.empty()) text = {};
        std::move(calls.begin(), calls.end(), std::back_inserter(parts_));
    }
    if (after_mark_) text.remove_prefix(leading_space(text));
    emit(state_ == State::reasoning ? PartKind::reasoning : PartKind::content, text);
    pending_.clear();
    enter(State::content);
    return hand_out();
}

std::vector<AnswerPart> AnswerReader::hand_out() {
    return std::exchange(parts_, {});
}

void AnswerReader::emit(PartKind kind, std::string_view text) {
    if (text.empty()) return;
    if (parts_.empty() || parts_.back().kind != kind) parts_.push_back({.kind = kind, .text = {}, .name = {}});
    parts_.back().text += text;
}

bool AnswerReader::enter(State state) {
    state_ = state;
    return true;
}

bool AnswerReader::step() {
    if (rest().empty()) return false;
    // White space after a mark is dropped as it comes.
    if (after_mark_ && state_ != State::call) {
        at_ += leading_space(rest());
        if (rest().empty()) return false;
    }
    switch (state_) {
        case State::opening:
            return step_opening();
        case State::reasoning:
            return step_reasoning();
        case State::start:
            return step_start();
        case State::content:
            return step_content();
        case State::call:
            return step_call();
        case State::closing:
            return step_closing();
    }
    return false;
}

bool AnswerReader::step_opening() {
    const std::string_view mark = options_.format.reasoning_begin;
    const size_t space = leading_space(rest());
    const std::string_view text = rest().substr(space);
    if (mark.empty() || space > kMostSpace) return enter(State::start);
    if (text.empty() || could_become(text, mark)) return false;
    if (!text.starts_with(mark)) return enter(State::start);
    at_ += space + mark.size();
    after_mark_ = true;
    return enter(State::reasoning);
}

bool AnswerReader::step_reasoning() {
    const std::string_view mark = options_.format.reasoning_end;
    const std::string_view text = rest();
    const size_t found = text.find(mark);
    const std::string_view before =
        text.substr(0, found == std::string_view::npos ? text.size() - held_back(text, mark) : found);
    const std::string_view shown = before.substr(0, before.size() - trailing_space(before));
    emit(PartKind::reasoning, shown);
    after_mark_ = after_mark_ && shown.empty();
    if (found == std::string_view::npos) {
        at_ += shown.size();
        return false;
    }
    at_ += found + mark.size();
    after_mark_ = true;
    return enter(State::start);
}

// Whether JSON text begins as that of a call, or of a list of calls, by the first key.
AnswerReader::Guess AnswerReader::guess_call(std::string_view text) {
    for (const char expected : {'[', '{'}) {
        if (text.empty()) return Guess::maybe;
        if (expected == '[' && text.front() != '[') continue;
        if (text.front() != expected) return Guess::no;
        text.remove_prefix(1);
        if (leading_space(text) > kMostSpace) return Guess::no;
        text.remove_prefix(leading_space(text));
    }
    if (text.empty()) return Guess::maybe;
    Guess guess = Guess::no;
    for (const std::string_view key :
         {R"("name")", R"("type")", R"("function")", R"("id")", R"("arguments")", R"("parameters")"}) {
        if (text.starts_with(key)) return Guess::yes;
        if (could_become(text, key)) guess = Guess::maybe;
    }
    return guess;
}

AnswerReader::Head AnswerReader::read_head() const {
    const std::string_view text = rest();
    size_t at = leading_space(text);
    if (had_call_ && text.substr(at).starts_with(';')) at += 1 + leading_space(text.substr(at + 1));
    if (at > kMostSpace) return {};
    if (text.substr(at).starts_with(call_begin_)) {
        at += call_begin_.size();
        const size_t space = leading_space(text.substr(at));
        if (space > kMostSpace) return {.length = at};
        at += space;
    } else if (could_become(text.substr(at), call_begin_)) {
        return {.is_call = Guess::maybe};
    }
    if (is_block(*syntax_)) {  // is one by its mark alone
        const bool marked = text.substr(0, at).find(call_begin_) != std::string_view::npos;
        return {.is_call = marked ? Guess::yes : Guess::no, .length = at};
    }
    std::string_view name;
    if (options_.format.calls == CallStyle::named) {
        for (const std::string& tool : options_.tools) {
            if (could_become(text.substr(at), tool)) return {.is_call = Guess::maybe};
            if (tool.size() > name.size() && text.substr(at).starts_with(tool)) name = tool;
        }
        at += name.size();
        const GivenId id = name.empty() ? GivenId{} : read_given_id(text.substr(at));
        if (!id.is_complete) return {.is_call = Guess::maybe};
        at += id.length;
        const std::string_view mark = syntax_->after_name;
        if (could_become(text.substr(at), mark)) return {.is_call = Guess::maybe};
        if (!name.empty() && text.substr(at).starts_with(mark)) at += mark.size();
    }
    const size_t space = leading_space(text.substr(at));
    if (space > kMostSpace) return {.length = at};
    at += space;
    if (at == text.size()) return {.is_call = Guess::maybe};
    const bool opens = text[at] == '{' || (text[at] == '[' && name.empty());
    return {.is_call = opens ? Guess::yes : Guess::no, .length = at, .name = name};
}

// The beginning of an answer, and what follows a call, may be a call without its mark.
bool AnswerReader::step_start() {
    if (call_begin_.empty()) return enter(State::content);
    const Head head = read_head();
    Guess guess = head.is_call;
    const bool marked = rest().substr(0, head.length).find(call_begin_) != std::string_view::npos;
    if (guess == Guess::yes && head.name.empty() && !marked) guess = guess_call(rest().substr(head.length));
    if (guess == Guess::maybe) return false;
    if (guess == Guess::no) return enter(State::content);
    marked_ = marked;
    return enter(State::call);
}

bool AnswerReader::step_content() {
    const std::string_view text = rest();
    const size_t found = call_begin_.empty() ? std::string_view::npos : text.find(call_begin_);
    std::string_view shown = text.substr(0, found);
    if (found == std::string_view::npos) shown.remove_suffix(held_back(text, call_begin_));
    if (!call_begin_.empty()) shown.remove_suffix(trailing_space(shown));  // it may belong to a mark
    emit(PartKind::content, shown);
    after_mark_ = after_mark_ && shown.empty();
    at_ += shown.size();
    if (found == std::string_view::npos) return false;
    marked_ = true;
    return enter(State::call);
}

// Nothing can be said before its end is there.
bool AnswerReader::step_block() {
    const std::string_view text = rest();
    const size_t begin = text.find(call_begin_) + call_begin_.size();
    const size_t end = text.find(call_end_, begin);
    if (end == std::string_view::npos) return false;
    auto call = read_call_block(*syntax_, text.substr(begin, end - begin), options_.text_parameters);
    if (!call) return refuse_call(end + call_end_.size());
    parts_.push_back({.kind = PartKind::call, .text = std::move(call->arguments), .name = std::move(call->name)});
    at_ += end + call_end_.size();
    had_call_ = true;
    after_mark_ = true;
    return enter(State::start);
}

bool AnswerReader::step_call() {
    if (is_block(*syntax_)) return step_block();
    if (scanned_ == 0) {
        const Head head = read_head();
        if (head.is_call == Guess::maybe) return false;
        if (head.is_call == Guess::no) return refuse_call(head.length);
        name_ = head.name;
        value_begin_ = scanned_ = head.length;
        scanner_ = {};
    }
    for (const std::string_view text = rest(); scanned_ < text.size(); ++scanned_) {
        switch (scanner_.push(text[scanned_])) {
            case JsonScanner::State::more:
                break;
            case JsonScanner::State::done:
                return take_calls(scanned_ + 1);
            case JsonScanner::State::bad:
                return refuse_call(scanned_);
        }
    }
    return false;
}

bool AnswerReader::take_calls(size_t length) {
    std::vector<AnswerPart> calls = read_calls(rest().substr(value_begin_, length - value_begin_));
    if (calls.empty()) return refuse_call(length);
    std::move(calls.begin(), calls.end(), std::back_inserter(parts_));
    at_ += length;
    scanned_ = 0;
    had_call_ = true;
    after_mark_ = true;
    return enter(call_end_.empty() ? State::start : State::closing);
}

// This much of the text was no call.
bool AnswerReader::refuse_call(size_t length) {
    length = std::max<size_t>(length, 1);
    emit(PartKind::content, rest().substr(0, length));
    at_ += length;
    scanned_ = 0;
    after_mark_ = false;
    return enter(State::content);
}

bool AnswerReader::step_closing() {
    const std::string_view text = rest();
    if (could_become(text, call_end_)) return false;
    if (text.starts_with(call_end_)) at_ += call_end_.size();
    return enter(State::start);
}

bool AnswerReader::offers(std::string_view tool) const {
    return std::find(options_.tools.begin(), options_.tools.end(), tool) != options_.tools.end();
}

// Of a value that is complete: all its calls, or none.
std::vector<AnswerPart> AnswerReader::read_calls(std::string_view value) const {
    const auto parsed = format::parse_json(value, "call");
    if (!parsed) return {};
    std::vector<AnswerPart> calls;
    if (!name_.empty()) {
        calls.push_back({.kind = PartKind::call, .text = std::string(value), .name = name_});
        return calls;
    }
    if (parsed->is_object()) {
        read_call(value, *parsed, calls);
        return calls;
    }
    const std::vector<std::string_view> texts = raw_elements(value);
    if (texts.size() != parsed->size()) return {};
    for (size_t i = 0; i < texts.size(); ++i) {
        if (!read_call(texts[i], (*parsed)[i], calls)) return {};
    }
    return calls;
}

bool AnswerReader::read_call(std::string_view text, const nlohmann::json& call, std::vector<AnswerPart>& calls) const {
    if (!call.is_object()) return false;
    const auto function = call.find("function");
    if (function != call.end() && function->is_object()) {  // as OpenAI's API writes it
        const auto inner = raw_member(text, "function");
        return inner && !function->contains("function") && read_call(*inner, *function, calls);
    }
    const auto name = call.find("name");
    if (name == call.end() || !name->is_string() || name->get_ref<const std::string&>().empty()) return false;
    std::optional<std::string> arguments = read_arguments(call, text);
    if (!arguments && marked_ && !call.contains("arguments") && !call.contains("parameters")) arguments = "{}";
    if (!arguments || (!marked_ && !offers(name->get_ref<const std::string&>()))) return false;
    calls.push_back({.kind = PartKind::call, .text = *std::move(arguments), .name = name->get<std::string>()});
    return true;
}

// Of a value whose end is missing: all calls of a list, the last one as far as it goes, or none.
std::vector<AnswerPart> AnswerReader::read_cut_calls(std::string_view value) const {
    std::vector<AnswerPart> calls;
    if (!name_.empty()) {
        calls.push_back({.kind = PartKind::call, .text = std::string(value), .name = name_});
        return calls;
    }
    const std::vector<std::string_view> texts = value.starts_with('[') ? raw_elements(value) : std::vector{value};
    for (const std::string_view text : texts) {
        const auto whole = format::parse_json(text, "call");
        if (whole && !read_call(text, *whole, calls)) return {};
        if (!whole) read_cut_call(text, calls);  // the last; where not even its name is there, it is left out
    }
    return calls;
}

void AnswerReader::read_cut_call(std::string_view text, std::vector<AnswerPart>& calls) const {
    if (!text.starts_with('{')) return;
    if (const auto function = raw_member(text, "function"); function && function->starts_with('{')) {
        if (!raw_member(*function, "function")) read_cut_call(*function, calls);
        return;
    }
    const auto quoted = raw_member(text, "name");
    const auto name = quoted ? format::parse_json(*quoted, "name") : Result<nlohmann::json>(nlohmann::json());
    if (!name || !name->is_string() || name->get_ref<const std::string&>().empty()) return;
    if (!marked_ && !offers(name->get_ref<const std::string&>())) return;
    auto arguments = raw_member(text, "arguments");
    if (!arguments) arguments = raw_member(text, "parameters");
    if (arguments && !arguments->starts_with('{')) return;
    calls.push_back({.kind = PartKind::call,
                     .text = std::string(arguments.value_or(std::string_view())),
                     .name = name->get<std::string>()});
}

}  // namespace tandem::text
