#include "server/responses.h"

#include <utility>

#include "server/openai.h"
#include "server/responses_parse.h"
#include "server/sse.h"

namespace tandem::server {

namespace {

Json response_tools(const Json& tools) {
    Json list = Json::array();
    for (const Json& tool : tools) {
        Json entry = {{"type", "function"}};
        entry.update(tool.at("function"));
        list.push_back(std::move(entry));
    }
    return list;
}

Json response_choice(const Ask& ask) {
    switch (ask.tool_choice) {
        case ToolChoice::none:
            return "none";
        case ToolChoice::required:
            return "required";
        case ToolChoice::named:
            return {{"type", "function"}, {"name", ask.tool_name}};
        default:
            return "auto";
    }
}

Json response_format(const ResponseFormat& format) {
    if (format.kind == FormatKind::json_object) return {{"type", "json_object"}};
    if (format.kind != FormatKind::json_schema) return {{"type", "text"}};
    return {{"type", "json_schema"}, {"schema", Json::parse(format.source, nullptr, false)}};
}

// A response before there is any output.
Json new_response(const Ask& ask, const AnswerHead& head) {
    const Json effort = ask.reasoning_effort.empty() ? Json() : Json(ask.reasoning_effort);
    return {{"id", "resp_" + head.id},
            {"object", "response"},
            {"created_at", head.created_s},
            {"status", "in_progress"},
            {"error", nullptr},
            {"incomplete_details", nullptr},
            {"instructions", ask.instructions.empty() ? Json() : Json(ask.instructions)},
            {"max_output_tokens", ask.max_tokens > 0 ? Json(ask.max_tokens) : Json()},
            {"model", head.model},
            {"output", Json::array()},
            {"parallel_tool_calls", ask.parallel_tool_calls},
            {"previous_response_id", nullptr},
            {"reasoning", {{"effort", effort}, {"summary", nullptr}}},
            {"store", false},
            {"temperature", ask.sampling.temperature},
            {"text", {{"format", response_format(ask.format)}}},
            {"tool_choice", response_choice(ask)},
            {"tools", response_tools(ask.tools)},
            {"top_p", ask.sampling.top_p},
            {"truncation", "disabled"},
            {"usage", nullptr},
            {"user", ask.user.empty() ? Json() : Json(ask.user)},
            {"metadata", ask.metadata}};
}

Json response_usage(const Ending& end) {
    const engine::Usage& usage = end.usage;
    return {{"input_tokens", usage.prompt_tokens},
            {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
            {"output_tokens", usage.generated_tokens},
            {"output_tokens_details", {{"reasoning_tokens", end.reasoning_tokens}}},
            {"total_tokens", usage.prompt_tokens + usage.generated_tokens}};
}

Json logprob_entry(const TokenText& token) {
    Json bytes = Json::array();
    for (const char c : token.bytes) bytes.push_back(static_cast<unsigned char>(c));
    return {{"token", token.text}, {"logprob", token.logprob}, {"bytes", std::move(bytes)}};
}

Json response_logprobs(const std::vector<TokenDetail>& details) {
    Json list = Json::array();
    for (const TokenDetail& detail : details) {
        Json entry = logprob_entry(detail.chosen);
        entry["top_logprobs"] = Json::array();
        for (const TokenText& token : detail.top) entry["top_logprobs"].push_back(logprob_entry(token));
        list.push_back(std::move(entry));
    }
    return list;
}

enum class ItemKind : uint8_t { none, reasoning, message, call };

// An item of the output, as it is before anything is in it.
Json new_item(ItemKind kind, const ToolCallPiece* call) {
    const char* const status = "in_progress";
    if (kind == ItemKind::reasoning) {
        return {{"id", "rs_" + random_id()},
                {"type", "reasoning"},
                {"summary", Json::array()},
                {"content", Json::array()},
                {"status", status}};
    }
    if (kind == ItemKind::message) {
        return {{"id", "msg_" + random_id()},
                {"type", "message"},
                {"status", status},
                {"role", "assistant"},
                {"content", Json::array()}};
    }
    return {{"id", "fc_" + random_id()}, {"type", "function_call"}, {"status", status},
            {"call_id", call->id},       {"name", call->name},      {"arguments", ""}};
}

Json new_part(ItemKind kind) {
    if (kind == ItemKind::reasoning) return {{"type", "reasoning_text"}, {"text", ""}};
    return {{"type", "output_text"}, {"text", ""}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
}

// Builds the output item by item, and tells it in events.
class ResponsesWriter final : public Writer {
  public:
    ResponsesWriter(const Ask& ask, const AnswerHead& head) : response_(new_response(ask, head)) {}

    std::string begin() override {
        say("response.created", {{"response", response_}});
        say("response.in_progress", {{"response", response_}});
        return std::exchange(events_, {});
    }

    std::string write(const Delta& delta) override {
        // Those of the reasoning are not told; others may come before the text they belong to.
        if (delta.reasoning.empty() || !delta.content.empty())
            details_.insert(details_.end(), delta.logprobs.begin(), delta.logprobs.end());
        if (!delta.reasoning.empty()) add_text(ItemKind::reasoning, delta.reasoning, {});
        if (!delta.content.empty()) add_text(ItemKind::message, delta.content, std::exchange(details_, {}));
        for (const ToolCallPiece& piece : delta.tool_calls) add_call(piece);
        if (delta.end) finish(*delta.end);
        return std::exchange(events_, {});
    }

    std::string end() override {
        say(response_["status"] == "completed" ? "response.completed" : "response.incomplete",
            {{"response", response_}});
        return std::exchange(events_, {});
    }

    std::string fail(const ApiError& error) override {
        const Json code = error.code.empty() ? Json("server_error") : Json(error.code);
        response_["status"] = "failed";
        response_["error"] = {{"code", code}, {"message", error.message}};
        say("response.failed", {{"response", response_}});
        return std::exchange(events_, {});
    }

    std::string whole(const std::vector<WholeChoice>& choices) override {
        const WholeChoice& choice = choices.front();
        Delta delta;
        delta.reasoning = choice.reasoning;
        delta.content = choice.content;
        delta.tool_calls = choice.tool_calls;
        delta.logprobs = choice.logprobs;
        delta.end = choice.end;
        write(delta);
        return dump(response_);
    }

  private:
    void say(const char* type, const Json& fields) {
        Json event_json = {{"type", type}, {"sequence_number", sequence_++}};
        event_json.update(fields);
        events_ += event(type, event_json);
    }

    Json& item() { return response_["output"].back(); }
    // Where an event belongs.
    Json place(bool in_part) {
        Json fields = {{"item_id", item()["id"]}, {"output_index", response_["output"].size() - 1}};
        if (in_part) fields["content_index"] = 0;
        return fields;
    }

    void open(ItemKind kind, const ToolCallPiece* call) {
        const int index = call == nullptr ? 0 : call->index;
        if (kind_ == kind && call_ == index) return;
        close(false);
        kind_ = kind;
        call_ = index;
        response_["output"].push_back(new_item(kind, call));
        say("response.output_item.added", {{"output_index", response_["output"].size() - 1}, {"item", item()}});
        if (kind == ItemKind::call) return;
        Json fields = place(true);
        fields["part"] = new_part(kind);
        item()["content"].push_back(fields["part"]);
        say("response.content_part.added", fields);
    }

    void add_text(ItemKind kind, const std::string& text, const std::vector<TokenDetail>& details) {
        open(kind, nullptr);
        Json& part = item()["content"][0];
        part["text"].get_ref<std::string&>() += text;
        Json fields = place(true);
        fields["delta"] = text;
        if (kind == ItemKind::message) {
            fields["logprobs"] = response_logprobs(details);
            for (const Json& entry : fields["logprobs"]) part["logprobs"].push_back(entry);
        }
        say(kind == ItemKind::reasoning ? "response.reasoning_text.delta" : "response.output_text.delta", fields);
    }

    void add_call(const ToolCallPiece& piece) {
        open(ItemKind::call, &piece);
        item()["arguments"].get_ref<std::string&>() += piece.arguments;
        Json fields = place(false);
        fields["delta"] = piece.arguments;
        say("response.function_call_arguments.delta", fields);
    }

    // The last item has ended.
    void close(bool cut) {
        if (kind_ == ItemKind::none) return;
        if (kind_ == ItemKind::call) {
            Json fields = place(false);
            fields["name"] = item()["name"];
            fields["arguments"] = item()["arguments"];
            say("response.function_call_arguments.done", fields);
        } else {
            const Json& part = item()["content"][0];
            Json fields = place(true);
            fields["text"] = part["text"];
            if (kind_ == ItemKind::message) fields["logprobs"] = part["logprobs"];
            say(kind_ == ItemKind::reasoning ? "response.reasoning_text.done" : "response.output_text.done", fields);
            fields = place(true);
            fields["part"] = part;
            say("response.content_part.done", fields);
        }
        item()["status"] = cut ? "incomplete" : "completed";
        say("response.output_item.done", {{"output_index", response_["output"].size() - 1}, {"item", item()}});
        kind_ = ItemKind::none;
    }

    void finish(const Ending& end) {
        const bool cut = end.reason == EndReason::length;
        close(cut);
        response_["status"] = cut ? "incomplete" : "completed";
        if (cut) response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
        response_["usage"] = response_usage(end);
    }

    Json response_;
    std::string events_;
    std::vector<TokenDetail> details_;
    int sequence_ = 0;
    ItemKind kind_ = ItemKind::none;  // of the item that is open
    int call_ = 0;
};

std::unique_ptr<Writer> responses_writer(const Ask& ask, AnswerHead head) {
    return std::make_unique<ResponsesWriter>(ask, head);
}

std::string responses_error(const ApiError& error) {
    return dump(openai_error(error));
}

}  // namespace

const Dialect kResponses = {.fields = responses_fields,
                            .parse = parse_responses,
                            .writer = responses_writer,
                            .error = responses_error,
                            .has_cut_calls = true};

}  // namespace tandem::server
