#include "lib/request.h"

#include <algorithm>

#include "format/json.h"
#include "text/answer_reader.h"
#include "user/nearest.h"
#include "user/parse.h"

namespace tandem::lib {

namespace {

Result<text::Prompt> result_of(text::Made<text::Prompt> made) {
    if (!made) return Error{std::move(made).error().message};
    return std::move(*made);
}

std::string name_of(engine::FinishReason reason, bool has_calls) {
    switch (reason) {
        case engine::FinishReason::stop:
            return has_calls ? "tool_calls" : "stop";
        case engine::FinishReason::length:
            return "length";
        default:
            return "cancelled";
    }
}

// Tells an answer to who listens, and keeps it.
class Teller {
  public:
    Teller(std::optional<text::AnswerReader> reader, const Request::OnText& on_text,
           const Request::OnText& on_reasoning)
        : reader_(std::move(reader)), on_text_(on_text), on_reasoning_(on_reasoning) {}

    // False: nobody wants more of it.
    bool push(std::string_view piece) {
        if (reader_) return take(reader_->push(piece));
        return take({{.kind = text::AnswerPart::Kind::content, .text = std::string(piece), .name = {}}});
    }
    Answer finish(engine::FinishReason reason) {
        if (reader_) take(reader_->finish());
        answer_.finish = wanted_ ? name_of(reason, !answer_.calls.empty()) : "cancelled";
        std::vector<std::string> calls;
        for (const text::AnswerPart& call : answer_.calls) {  // arguments are JSON already
            calls.push_back(fmt::format(R"({{"name": {}, "arguments": {}}})", format::dump(call.name), call.text));
        }
        answer_.calls_json = fmt::format("[{}]", fmt::join(calls, ", "));
        return std::move(answer_);
    }

  private:
    bool take(std::vector<text::AnswerPart> parts) {
        for (text::AnswerPart& part : parts) {
            if (!wanted_) break;  // the answer ends with what was told
            const bool is_content = part.kind == text::AnswerPart::Kind::content;
            if (part.kind == text::AnswerPart::Kind::call) {
                answer_.calls.push_back(std::move(part));
                continue;
            }
            (is_content ? answer_.text : answer_.reasoning) += part.text;
            const Request::OnText& listener = is_content ? on_text_ : on_reasoning_;
            wanted_ = !listener || listener(part.text);
        }
        return wanted_;
    }

    std::optional<text::AnswerReader> reader_;  // none: all of it is content
    const Request::OnText& on_text_;
    const Request::OnText& on_reasoning_;
    Answer answer_;
    bool wanted_ = true;
};

Status check_tool(const nlohmann::ordered_json& tool) {
    const bool has_function = tool.is_object() && tool.contains("function") && tool["function"].is_object();
    const bool has_name = has_function && tool["function"].contains("name") && tool["function"]["name"].is_string() &&
                          !tool["function"]["name"].get_ref<const std::string&>().empty();
    if (has_name && tool.value("type", "function") == "function") return Ok{};
    return fail(R"(tool {}: it is written {{"type": "function", "function": {{"name": ...}}}})",
                format::dump(tool).substr(0, 80));
}

}  // namespace

Status Request::add_message(std::string role, std::string content) {
    if (role != "system" && role != "user" && role != "assistant" && role != "tool")
        return fail("role '{}': a message is of system, user, assistant or tool", role.substr(0, 40));
    if (text_) return fail("a request has messages or a text, not both: clear it first");
    if (role == "tool") {
        if (open_calls_.empty()) return fail("a message of a tool: no call of the last answer that was kept is open");
        messages_.push_back({{"role", role}, {"tool_call_id", open_calls_.front()}, {"content", std::move(content)}});
        open_calls_.erase(open_calls_.begin());
        return Ok{};
    }
    if (role == "system" && !messages_.empty())
        return fail("a system message comes first: set \"system\", or clear the request");
    messages_.push_back({{"role", std::move(role)}, {"content", std::move(content)}});
    return Ok{};
}

Status Request::keep_answer() {
    if (text_ || messages_.empty() || answer_.finish.empty()) return fail("there is no answer to a message to keep");
    nlohmann::ordered_json message = {{"role", "assistant"}, {"content", answer_.text}};
    if (!answer_.reasoning.empty()) message["reasoning_content"] = answer_.reasoning;
    open_calls_.clear();
    for (const text::AnswerPart& call : answer_.calls) {
        open_calls_.push_back(fmt::format("call_{}", ++calls_));
        message["tool_calls"].push_back({{"id", open_calls_.back()},
                                         {"type", "function"},
                                         {"function", {{"name", call.name}, {"arguments", call.text}}}});
    }
    messages_.push_back(std::move(message));
    return Ok{};
}

Status Request::set_tools(std::string_view json) {
    nlohmann::ordered_json tools = nlohmann::ordered_json::array();
    if (!json.empty()) tools = TRY(format::parse_ordered_json(json, "tools"));
    if (!tools.is_array()) return fail("tools: they are a JSON array");
    for (const nlohmann::ordered_json& tool : tools) TRY(check_tool(tool));
    tools_ = tools.empty() ? nlohmann::ordered_json() : std::move(tools);
    return Ok{};
}

Status Request::set_text(std::string text) {
    if (!messages_.empty()) return fail("a request has messages or a text, not both: clear it first");
    text_ = std::move(text);
    return Ok{};
}

void Request::clear() {
    messages_.clear();
    open_calls_.clear();
    calls_ = 0;
    text_.reset();
}

Status Request::set(std::string_view name, std::string_view value) {
    const user::Parameter* const parameter = user::find_parameter(name);
    if (parameter != nullptr) return parameter->set(settings_, value);
    std::vector<std::string_view> names;
    for (const user::Parameter& known : user::parameters()) names.push_back(known.name);
    return fail("setting '{}' is unknown; there are {}{}", name.substr(0, 40), fmt::join(names, ", "),
                user::suggestion(name, names));
}

text::PromptInput Request::conversation() const {
    text::PromptInput input;
    input.constrained = settings_.grammar != nullptr;
    input.thinking = settings_.thinking;
    input.tools = tools_;
    const bool has_system = !messages_.empty() && messages_.front()["role"] == "system";
    if (!settings_.system.empty() && !has_system)
        input.messages.push_back({{"role", "system"}, {"content", settings_.system}});
    for (const nlohmann::ordered_json& message : messages_) input.messages.push_back(message);
    return input;
}

Result<text::Prompt> Request::prompt() const {
    const engine::Bundle& bundle = model_->bundle();
    const text::PromptLimits limits = {.context = model_->engine().context(), .vocab = bundle.model.vocab};
    if (text_) return result_of(bundle.prompts.text(*text_, limits));
    if (messages_.empty()) return fail("the request is empty: give it a message or a text");
    return result_of(bundle.prompts.chat(conversation(), limits));
}

Result<engine::Request> Request::prepare(text::Prompt& prompt) {
    engine::Request request;
    request.prompt = std::move(prompt.tokens);
    request.shown = std::move(prompt.shown);
    request.sampling = user::next_sampling(settings_);
    request.max_tokens = settings_.max_tokens;
    request.stop = settings_.stop;
    request.continues_text = text_.has_value();
    for (const auto& bias : request.sampling.logit_bias)
        TRY(user::check_vocabulary({bias.first}, model_->bundle().model.vocab));
    if (masked_ != settings_.grammar) {
        masks_ = settings_.grammar ? TRY(model_->engine().masks_for(settings_.grammar)) : nullptr;
        masked_ = settings_.grammar;
    }
    request.grammar = masks_;
    return request;
}

Status Request::generate(const OnText& on_text) {
    text::Prompt made = TRY(prompt());
    std::optional<text::AnswerReader> reader;
    if (!text_) reader.emplace(text::answer_reader_options(made, tools_));
    engine::Request request = TRY(prepare(made));
    const uint64_t seed = request.sampling.seed;
    Teller teller(std::move(reader), on_text, on_reasoning_);
    const Model::Listener listener = {.on_id =
                                          [&](engine::RequestId id) {
                                              const std::lock_guard lock(mutex_);
                                              under_way_ = id;
                                          },
                                      .on_text = [&](std::string_view piece) { return teller.push(piece); }};
    const Result<engine::Finish> finish = model_->run(std::move(request), listener);
    {
        const std::lock_guard lock(mutex_);
        under_way_.reset();
    }
    if (!finish) return finish.error();
    answer_ = teller.finish(finish->reason);
    answer_.usage = finish->usage;
    answer_.timing = finish->timing;
    answer_.seed = seed;
    return Ok{};
}

bool Request::cancel() {
    const std::lock_guard lock(mutex_);
    if (under_way_) model_->engine().cancel(*under_way_);
    return under_way_.has_value();
}

}  // namespace tandem::lib
