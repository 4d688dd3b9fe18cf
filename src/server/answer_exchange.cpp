#include "server/answer_exchange.h"

#include <algorithm>
#include <cmath>

#include "server/sse.h"

namespace tandem::server {

namespace {

constexpr size_t kMostBacklogBytes = size_t{4} << 20;  // that a slow reader may leave with us

EndReason reason_of(engine::FinishReason reason) {
    switch (reason) {
        case engine::FinishReason::length:
            return EndReason::length;
        case engine::FinishReason::cancelled:
            return EndReason::cancelled;
        case engine::FinishReason::deadline:
            return EndReason::deadline;
        case engine::FinishReason::error:
            return EndReason::error;
        default:
            return EndReason::stop;
    }
}

// The first numbers of an embedding, again of length 1; 0: all.
std::vector<float> shortened(std::vector<float> vector, int dimensions) {
    if (dimensions == 0 || static_cast<size_t>(dimensions) >= vector.size()) return vector;
    vector.resize(static_cast<size_t>(dimensions));
    double square = 0;
    for (const float number : vector) square += static_cast<double>(number) * static_cast<double>(number);
    const auto scale = static_cast<float>(square > 0 ? 1 / std::sqrt(square) : 0);
    for (float& number : vector) number *= scale;
    return vector;
}

size_t bytes_of(const engine::Event& event) {
    size_t bytes = event.text.size();
    for (const engine::TokenLogprobs& token : event.logprobs) {
        bytes += sizeof(token) + token.top.size() * sizeof(token.chosen);
    }
    return bytes;
}

}  // namespace

AnswerExchange::~AnswerExchange() {
    record(499, "the client closed the connection");
}

// ---- Of who makes the answer

void AnswerExchange::start(Ask ask, Start start) {
    const ModelPool::Use model = start.model.another();  // the connection may be done with its own before all is said
    int choices = 0;
    for (const engine::Request& request : start.requests) choices += request.n;
    {
        const std::lock_guard lock(mutex_);
        if (cancelled_) return;
        ask_ = std::move(ask);
        model_ = std::move(start.model);
        head_ = std::move(start.head);
        metrics_ = start.metrics;
        choices_ = std::vector<Choice>(static_cast<size_t>(choices));
        pending_.resize(choices_.size());
        latest_.resize(choices_.size());
        for (Choice& choice : choices_) {
            if (ask_.kind == AskKind::chat) choice.reader.emplace(start.reader);
        }
        open_choices_ = choices;
        if (!ask_.stream) whole_.emplace(choices);
        started_ = true;
    }
    int first = 0;
    for (engine::Request& request : start.requests) {
        const int n = request.n;
        request.on_event = [self = shared_from_this(), first, &wakes = model->wakes()](const engine::Event& event) {
            self->on_event(event, first, wakes);
        };
        const Result<engine::RequestId> id = model->engine().submit(std::move(request));
        if (!id) {
            ApiError error{.message = id.error().message};
            if (model->engine().full()) {
                error = {.status = 503, .type = "overloaded_error", .message = error.message, .retry_after_s = 1};
            }
            fail(std::move(error));
            return cancel_requests();
        }
        first += n;
        const std::lock_guard lock(mutex_);
        ids_.push_back(*id);
    }
    const bool gone = [&] {
        const std::lock_guard lock(mutex_);
        return cancelled_;
    }();
    if (gone) cancel_requests();
}

void AnswerExchange::fail(ApiError error) {
    {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::move(error);
    }
    wake();
}

void AnswerExchange::respond(std::string body) {
    {
        const std::lock_guard lock(mutex_);
        body_ = std::move(body);
    }
    wake();
}

void AnswerExchange::on_event(const engine::Event& event, int first_choice, WakeBatch& wakes) {
    bool too_much = false;
    {
        const std::lock_guard lock(mutex_);
        const int number = first_choice + event.choice;
        const auto index = static_cast<size_t>(number);
        measure(index, static_cast<int>(event.tokens.size()));
        News& news = pending_[index];
        news.text += event.text;
        news.pieces.emplace_back(news.text.size(), static_cast<int>(event.tokens.size()));
        news.logprobs.insert(news.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
        if (event.finish != nullptr) news.finish = *event.finish;
        if (!oldest_) oldest_ = Clock::now();
        backlog_bytes_ += bytes_of(event);
        too_much = backlog_bytes_ > kMostBacklogBytes && !error_ && ask_.stream;
    }
    if (too_much) {
        fail({.status = 408, .type = "timeout_error", .message = "the answer was read too slowly"});
        cancel_requests();
    }
    wake(&wakes);
}

void AnswerExchange::measure(size_t choice, int tokens) {
    if (tokens == 0 || metrics_ == nullptr) return;
    const Clock::time_point now = Clock::now();
    const std::optional<Clock::time_point> before = std::exchange(latest_[choice], now);
    if (before) metrics_->tokens_after(std::chrono::duration<double>(now - *before).count(), tokens);
}

void AnswerExchange::cancel_requests() {
    const std::lock_guard lock(mutex_);
    if (!started_ || !model_) return;
    for (const engine::RequestId id : ids_) model_->engine().cancel(id);
}

void AnswerExchange::cancel() {
    {
        const std::lock_guard lock(mutex_);
        cancelled_ = true;
    }
    cancel_requests();
}

// ---- Of the connection

std::vector<TokenDetail> AnswerExchange::details_of(const std::vector<engine::TokenLogprobs>& logprobs) const {
    const text::Tokenizer& tokenizer = model_->bundle().tokenizer;
    const auto text_of = [&tokenizer](const engine::TokenProbability& token) {
        std::string bytes = tokenizer.token_bytes(token.token);
        std::string shown = bytes.empty() ? std::string(tokenizer.piece(token.token)) : bytes;
        return TokenText{.text = std::move(shown), .bytes = std::move(bytes), .logprob = token.logprob};
    };
    std::vector<TokenDetail> details;
    details.reserve(logprobs.size());
    for (const engine::TokenLogprobs& token : logprobs) {
        TokenDetail& detail = details.emplace_back();
        detail.chosen = text_of(token.chosen);
        detail.top.reserve(token.top.size());
        for (const engine::TokenProbability& other : token.top) detail.top.push_back(text_of(other));
    }
    return details;
}

std::vector<text::AnswerPart> AnswerExchange::parts_of(const News& news, Choice& choice) const {
    text::AnswerReader& reader = *choice.reader;
    std::vector<text::AnswerPart> parts;
    const auto add = [&parts](std::vector<text::AnswerPart> more) {
        parts.insert(parts.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    };
    size_t begin = 0;
    for (const auto& [end, tokens] : news.pieces) {
        const bool in_reasoning = reader.in_reasoning();
        add(reader.push(std::string_view(news.text).substr(begin, end - begin)));
        if (in_reasoning || reader.in_reasoning()) choice.reasoning_tokens += tokens;
        begin = end;
    }
    if (news.finish) {
        add(reader.finish(dialect_.has_cut_calls && news.finish->reason == engine::FinishReason::length));
    }
    return parts;
}

Delta AnswerExchange::delta_of(News& news, int index) {
    Choice& choice = choices_[static_cast<size_t>(index)];
    Delta delta;
    delta.choice = index;
    delta.logprobs = details_of(news.logprobs);
    std::vector<text::AnswerPart> parts;
    if (choice.reader) {
        parts = parts_of(news, choice);
    } else {
        delta.content = std::move(news.text);
    }
    for (text::AnswerPart& part : parts) {
        if (part.kind == text::AnswerPart::Kind::content) delta.content += part.text;
        if (part.kind == text::AnswerPart::Kind::reasoning) delta.reasoning += part.text;
        if (part.kind != text::AnswerPart::Kind::call) continue;
        delta.tool_calls.push_back({.index = choice.calls++,
                                    .id = "call_" + random_id(),
                                    .name = std::move(part.name),
                                    .arguments = std::move(part.text)});
    }
    if (!news.finish) return delta;
    Ending ending{.reason = reason_of(news.finish->reason),
                  .error = news.finish->error,
                  .stop_sequence = news.finish->stop,
                  .usage = news.finish->usage,
                  .reasoning_tokens = choice.reasoning_tokens,
                  .timing = news.finish->timing};
    if (ending.reason == EndReason::stop && choice.calls > 0) ending.reason = EndReason::tool_calls;
    delta.end = ending;
    return delta;
}

std::optional<ApiError> AnswerExchange::error_of(const engine::Finish& finish) const {
    switch (finish.reason) {
        case engine::FinishReason::deadline:
            return ApiError{.status = 504,
                            .type = "timeout_error",
                            .message = "the answer took longer than this server allows",
                            .code = "timeout"};
        case engine::FinishReason::error:
            return ApiError{.status = 500, .type = "server_error", .message = finish.error, .code = "engine_error"};
        case engine::FinishReason::cancelled:
            return ApiError{
                .status = 503, .type = "server_error", .message = "the server is stopping", .retry_after_s = 5};
        default:
            return std::nullopt;
    }
}

void AnswerExchange::begin(Output& output) {
    if (begun_) return;
    begun_ = true;
    output.head = Response{.content_type = std::string(writer_->stream_type())};
    output.streams = true;
    output.bytes = writer_->begin();
}

Output AnswerExchange::fail_now(const ApiError& error) {
    cancel_requests();
    record(error.status, error.message);
    release();
    if (begun_) return {.bytes = writer_->fail(error), .ended = true};
    return {.head = error_response(error, dialect_.error(error)), .ended = true};
}

Response AnswerExchange::whole() {
    Response response;
    if (ask_.kind == AskKind::embedding) {
        Embeddings all;
        all.vectors.reserve(choices_.size());
        for (Choice& choice : choices_) all.vectors.push_back(shortened(std::move(choice.embedding), ask_.dimensions));
        all.prompt_tokens = head_.prompt_tokens;
        all.total_seconds = std::chrono::duration<double>(Clock::now() - began_).count();
        response.body = dialect_.embeddings(ask_, head_, all);
    } else {
        response.body = writer_->whole(whole_->choices());
    }
    return response;
}

Output AnswerExchange::take(bool ticked) {
    taken();
    std::vector<News> news;
    std::optional<ApiError> error;
    Output output;
    {
        const std::lock_guard lock(mutex_);
        error = error_;
        if (body_) {
            record(200, "");
            return {.head = Response{.body = std::move(*body_)}, .ended = true};
        }
        if (!started_ && !error) return {};
        if (!error) news = std::exchange(pending_, std::vector<News>(pending_.size()));
        backlog_bytes_ = 0;
        output.since = std::exchange(oldest_, std::nullopt);
    }
    if (error) return fail_now(*error);
    if (!writer_ && dialect_.writer != nullptr) writer_ = dialect_.writer(ask_, head_);

    error = write(news, output);
    if (error) {
        Output last = fail_now(*error);
        if (!output.streams) return last;
        output.bytes += last.bytes;
        output.ended = true;
        return output;
    }
    if (open_choices_ == 0) return end(std::move(output));
    if (ticked && output.bytes.empty() && ask_.stream) {
        begin(output);
        output.bytes += writer_->heartbeat();
    }
    return output;
}

// Stops at the first choice that failed, with the reason.
std::optional<ApiError> AnswerExchange::write(std::vector<News>& news, Output& output) {
    for (size_t i = 0; i < news.size(); ++i) {
        if (news[i].finish) {
            std::optional<ApiError> error = error_of(*news[i].finish);
            if (error) return error;
            choices_[i].embedding = std::move(news[i].finish->embedding);
        }
        const Delta delta = delta_of(news[i], static_cast<int>(i));
        if (delta.empty()) continue;
        if (delta.end) {
            choices_[i].ending = delta.end;
            --open_choices_;
        }
        if (whole_) {
            whole_->add(delta);
            continue;
        }
        begin(output);
        output.bytes += writer_->write(delta);
    }
    return std::nullopt;
}

Output AnswerExchange::end(Output output) {
    if (whole_) {
        output.head = whole();
    } else {
        output.bytes += writer_->end();
    }
    output.ended = true;
    record(200, "");
    release();
    return output;
}

void AnswerExchange::release() {
    const std::lock_guard lock(mutex_);
    model_.release();
}

void AnswerExchange::record(int status, const std::string& error) {
    if (std::exchange(recorded_, true) || !on_end_) return;
    AnswerRecord record{.model = head_.model, .status = status, .error = error, .usage = {}, .endings = {}};
    for (size_t i = 0; i < choices_.size(); ++i) {
        if (!choices_[i].ending) continue;
        const engine::Usage& usage = choices_[i].ending->usage;
        const bool first = i % static_cast<size_t>(std::max(ask_.n, 1)) == 0;
        record.usage.prompt_tokens += first ? usage.prompt_tokens : 0;
        record.usage.cached_tokens += first ? usage.cached_tokens : 0;
        record.usage.generated_tokens += usage.generated_tokens;
        record.endings.push_back(*choices_[i].ending);
    }
    on_end_(record);
}

}  // namespace tandem::server
