#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "server/openai.h"
#include "server/sse.h"

namespace tandem::server {

namespace {

constexpr const char* kFingerprint = "tandem";

Json or_null(const std::string& text) {
    return text.empty() ? Json() : Json(text);
}

Json finish_reason(EndReason reason) {
    switch (reason) {
        case EndReason::length:
            return "length";
        case EndReason::tool_calls:
            return "tool_calls";
        default:
            return "stop";
    }
}

Json bytes_of(const std::string& bytes) {
    Json numbers = Json::array();
    for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
    return numbers;
}

// Of UTF-8.
bool begins_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

Json chat_token(const TokenText& token) {
    return {{"token", token.text}, {"logprob", token.logprob}, {"bytes", bytes_of(token.bytes)}};
}

Json chat_logprobs(const std::vector<TokenDetail>& tokens) {
    Json content = Json::array();
    for (const TokenDetail& token : tokens) {
        Json entry = chat_token(token.chosen);
        entry["top_logprobs"] = Json::array();
        for (const TokenText& other : token.top) entry["top_logprobs"].push_back(chat_token(other));
        content.push_back(std::move(entry));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json call_of(const ToolCallPiece& piece, bool in_stream) {
    Json call = Json::object();
    if (in_stream) call["index"] = piece.index;
    if (!piece.id.empty()) call["id"] = piece.id;
    if (!piece.id.empty()) call["type"] = "function";
    call["function"] = Json::object();
    if (!piece.name.empty()) call["function"]["name"] = piece.name;
    call["function"]["arguments"] = piece.arguments;
    return call;
}

Json calls_of(const std::vector<ToolCallPiece>& pieces, bool in_stream) {
    Json calls = Json::array();
    for (const ToolCallPiece& piece : pieces) calls.push_back(call_of(piece, in_stream));
    return calls;
}

// What the two kinds of completion share: the envelope, usage, the end of a stream.
class CompletionWriter : public Writer {
  public:
    CompletionWriter(const Ask& ask, AnswerHead head, std::string id_prefix)
        : head_(std::move(head)),
          id_(id_prefix + head_.id),
          n_(ask.n),
          include_usage_(ask.include_usage),
          choices_(ask.n * std::max<int>(1, static_cast<int>(ask.prompts.size()))) {}

    std::string write(const Delta& delta) override {
        const std::string piece = piece_of(delta);
        std::string out = piece.empty() ? std::string() : chunk(piece);
        if (!delta.end) return out;
        count(delta);
        return out + chunk(dump(last_of(delta)));
    }

    std::string end() override {
        std::string out;
        if (include_usage_) {
            Json last = envelope(stream_object());
            last["choices"] = Json::array();
            last["usage"] = openai_usage(usage_, reasoning_tokens_);
            out = event(last);
        }
        return out + "data: [DONE]\n\n";
    }

    std::string fail(const ApiError& error) override { return event(openai_error(error)); }

    std::string whole(const std::vector<WholeChoice>& choices) override {
        Json answer = envelope(whole_object());
        Json list = Json::array();
        for (size_t i = 0; i < choices.size(); ++i) list.push_back(whole_choice(choices[i], static_cast<int>(i)));
        answer["choices"] = std::move(list);
        int reasoning_tokens = 0;
        for (const WholeChoice& choice : choices) reasoning_tokens += choice.end.reasoning_tokens;
        answer["usage"] = openai_usage(total_usage(choices, n_), reasoning_tokens);
        return dump(answer);
    }

  protected:
    virtual const char* stream_object() const = 0;
    virtual const char* whole_object() const = 0;
    virtual std::string piece_of(const Delta& delta) = 0;  // a choice as JSON text; empty: nothing to say
    virtual Json last_of(const Delta& delta) = 0;
    virtual Json whole_choice(const WholeChoice& choice, int index) = 0;

    int choices() const { return choices_; }

    // Of every token: what is the same in all of a stream is written once.
    std::string chunk(std::string_view choice) {
        if (head_text_.empty()) {
            head_text_ = "data: " + dump(envelope(stream_object()));
            head_text_.pop_back();
        }
        return fmt::format(R"({},"choices":[{}]{}}})", head_text_, choice, include_usage_ ? R"(,"usage":null)" : "") +
               "\n\n";
    }

  private:
    Json envelope(const char* object) const {
        return {{"id", id_},
                {"object", object},
                {"created", head_.created_s},
                {"model", head_.model},
                {"system_fingerprint", kFingerprint}};
    }

    void count(const Delta& delta) {
        const engine::Usage& usage = delta.end->usage;
        if (delta.choice % n_ == 0) {
            usage_.prompt_tokens += usage.prompt_tokens;
            usage_.cached_tokens += usage.cached_tokens;
        }
        usage_.generated_tokens += usage.generated_tokens;
        usage_.accepted_tokens += usage.accepted_tokens;
        reasoning_tokens_ += delta.end->reasoning_tokens;
    }

    AnswerHead head_;
    std::string id_;
    std::string head_text_;  // of a chunk, up to its choices
    int n_;
    bool include_usage_;
    int choices_;
    engine::Usage usage_;
    int reasoning_tokens_ = 0;
};

class ChatWriter final : public CompletionWriter {
  public:
    ChatWriter(const Ask& ask, AnswerHead head) : CompletionWriter(ask, std::move(head), "chatcmpl-") {}

    std::string begin() override {
        std::string out;
        for (int i = 0; i < choices(); ++i) {
            out += chunk(piece_text(i, {{"role", "assistant"}, {"content", ""}}, nullptr));
        }
        return out;
    }

  protected:
    const char* stream_object() const override { return "chat.completion.chunk"; }
    const char* whole_object() const override { return "chat.completion"; }

    std::string piece_of(const Delta& delta) override {
        Json piece = Json::object();
        if (!delta.content.empty()) piece["content"] = delta.content;
        if (!delta.reasoning.empty()) piece["reasoning_content"] = delta.reasoning;
        if (!delta.reasoning.empty()) piece["reasoning"] = delta.reasoning;
        if (!delta.tool_calls.empty()) piece["tool_calls"] = calls_of(delta.tool_calls, true);
        if (piece.empty() && delta.logprobs.empty()) return {};
        return piece_text(delta.choice, piece, delta.logprobs.empty() ? Json() : chat_logprobs(delta.logprobs));
    }

    Json last_of(const Delta& delta) override {
        return {{"index", delta.choice},
                {"delta", Json::object()},
                {"logprobs", nullptr},
                {"finish_reason", finish_reason(delta.end->reason)}};
    }

    Json whole_choice(const WholeChoice& whole, int index) override {
        Json message = {{"role", "assistant"}, {"content", whole.content}, {"refusal", nullptr}};
        if (!whole.reasoning.empty()) message["reasoning_content"] = whole.reasoning;
        if (!whole.reasoning.empty()) message["reasoning"] = whole.reasoning;
        if (!whole.tool_calls.empty()) {
            message["content"] = or_null(whole.content);
            message["tool_calls"] = calls_of(whole.tool_calls, false);
        }
        return {{"index", index},
                {"message", std::move(message)},
                {"logprobs", whole.logprobs.empty() ? Json() : chat_logprobs(whole.logprobs)},
                {"finish_reason", finish_reason(whole.end.reason)}};
    }

  private:
    static std::string piece_text(int index, const Json& delta, const Json& logprobs) {
        return fmt::format(R"({{"index":{},"delta":{},"logprobs":{},"finish_reason":null}})", index, dump(delta),
                           dump(logprobs));
    }
};

class TextWriter final : public CompletionWriter {
  public:
    TextWriter(const Ask& ask, AnswerHead head)
        : CompletionWriter(ask, std::move(head), "cmpl-"), offsets_(static_cast<size_t>(choices())) {}

  protected:
    const char* stream_object() const override { return "text_completion"; }
    const char* whole_object() const override { return "text_completion"; }

    std::string piece_of(const Delta& delta) override {
        if (delta.content.empty() && delta.logprobs.empty()) return {};
        return fmt::format(R"({{"index":{},"text":{},"logprobs":{},"finish_reason":null}})", delta.choice,
                           dump(delta.content), dump(logprobs_of(delta.logprobs, delta.choice)));
    }

    Json last_of(const Delta& delta) override {
        return choice(delta.choice, "", nullptr, finish_reason(delta.end->reason));
    }

    Json whole_choice(const WholeChoice& whole, int index) override {
        return choice(index, whole.content, logprobs_of(whole.logprobs, index), finish_reason(whole.end.reason));
    }

  private:
    static Json choice(int index, const std::string& text, Json logprobs, Json reason) {
        return {
            {"index", index}, {"text", text}, {"logprobs", std::move(logprobs)}, {"finish_reason", std::move(reason)}};
    }

    Json logprobs_of(const std::vector<TokenDetail>& tokens, int choice) {
        if (tokens.empty()) return nullptr;
        Json names = Json::array();
        Json values = Json::array();
        Json tops = Json::array();
        Json offsets = Json::array();
        size_t& offset = offsets_[static_cast<size_t>(choice)];
        for (const TokenDetail& token : tokens) {
            names.push_back(token.chosen.text);
            values.push_back(token.chosen.logprob);
            Json top = Json::object();
            for (const TokenText& other : token.top) top[other.text] = other.logprob;
            tops.push_back(std::move(top));
            offsets.push_back(offset);
            offset += static_cast<size_t>(
                std::count_if(token.chosen.text.begin(), token.chosen.text.end(), begins_character));
        }
        return {{"tokens", std::move(names)},
                {"token_logprobs", std::move(values)},
                {"top_logprobs", std::move(tops)},
                {"text_offset", std::move(offsets)}};
    }

    std::vector<size_t> offsets_;  // of the next token, in characters, by choice
};

std::string base64_of(const std::vector<float>& values) {
    static_assert(std::endian::native == std::endian::little, "the floats are sent as they lie in memory");
    const size_t size = values.size() * sizeof(float);
    std::string text((size + 2) / 3 * 4 + 1, '\0');
    const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                       reinterpret_cast<const unsigned char*>(values.data()), static_cast<int>(size));
    text.resize(static_cast<size_t>(length));
    return text;
}

std::unique_ptr<Writer> make_chat_writer(const Ask& ask, AnswerHead head) {
    return std::make_unique<ChatWriter>(ask, std::move(head));
}

std::unique_ptr<Writer> make_text_writer(const Ask& ask, AnswerHead head) {
    return std::make_unique<TextWriter>(ask, std::move(head));
}

std::string write_embeddings(const Ask& ask, const AnswerHead& head, const Embeddings& embeddings) {
    Json data = Json::array();
    for (size_t i = 0; i < embeddings.vectors.size(); ++i) {
        const std::vector<float>& vector = embeddings.vectors[i];
        data.push_back({{"object", "embedding"},
                        {"index", i},
                        {"embedding", ask.base64 ? Json(base64_of(vector)) : Json(vector)}});
    }
    return dump({{"object", "list"},
                 {"data", std::move(data)},
                 {"model", head.model},
                 {"usage", {{"prompt_tokens", embeddings.prompt_tokens}, {"total_tokens", embeddings.prompt_tokens}}}});
}

std::string write_error(const ApiError& error) {
    return dump(openai_error(error));
}

}  // namespace

const Dialect kOpenAiChat = {.fields = openai_chat_fields,
                             .parse = parse_openai_chat,
                             .writer = make_chat_writer,
                             .error = write_error,
                             .has_cut_calls = true};
const Dialect kOpenAiCompletions = {.fields = openai_completion_fields,
                                    .parse = parse_openai_completion,
                                    .writer = make_text_writer,
                                    .error = write_error};
const Dialect kOpenAiEmbeddings = {.fields = openai_embedding_fields,
                                   .parse = parse_openai_embeddings,
                                   .embeddings = write_embeddings,
                                   .error = write_error};

Json openai_error(const ApiError& error) {
    Json inner = {{"message", error.message},
                  {"type", error.type},
                  {"param", or_null(error.param)},
                  {"code", or_null(error.code)}};
    for (const auto& [key, value] : error.extra) inner[key] = value;
    return {{"error", std::move(inner)}};
}

Json openai_usage(const engine::Usage& usage, int reasoning_tokens) {
    return {{"prompt_tokens", usage.prompt_tokens},
            {"completion_tokens", usage.generated_tokens},
            {"total_tokens", usage.prompt_tokens + usage.generated_tokens},
            {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
            {"completion_tokens_details", {{"reasoning_tokens", reasoning_tokens}}}};
}

Json openai_model(const ModelCard& card) {
    const Ask unasked;
    const device::SamplingParams& sampling = unasked.sampling;
    Json model = {{"id", card.name}, {"object", "model"}, {"created", card.created_s}, {"owned_by", "tandem"}};
    if (card.context > 0) {
        model["max_model_len"] = card.context;
        model["meta"] = {{"n_ctx", card.context},
                         {"n_ctx_train", card.trained_context},
                         {"n_embd", card.dim},
                         {"n_params", card.parameters},
                         {"size", card.file_bytes}};
    }
    model["state"] = name(card.state);
    model["default_sampling"] = {{"temperature", sampling.temperature},
                                 {"top_p", sampling.top_p},
                                 {"top_k", sampling.top_k},
                                 {"min_p", sampling.min_p},
                                 {"frequency_penalty", sampling.frequency_penalty},
                                 {"presence_penalty", sampling.presence_penalty}};
    return model;
}

Json openai_models(std::span<const ModelCard> cards) {
    Json data = Json::array();
    for (const ModelCard& card : cards) data.push_back(openai_model(card));
    return {{"object", "list"}, {"data", std::move(data)}};
}

}  // namespace tandem::server
