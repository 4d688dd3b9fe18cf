#include "server/endpoints.h"

#include "format/json.h"
#include "server/anthropic.h"
#include "server/fields.h"
#include "server/ollama.h"
#include "server/openai.h"
#include "server/openapi.h"
#include "server/page.h"
#include "server/routes.h"
#include "server/sse.h"

namespace tandem::server {

namespace {

std::shared_ptr<Exchange> respond(Response response) {
    auto exchange = std::make_shared<SimpleExchange>();
    exchange->respond(std::move(response));
    return exchange;
}

std::shared_ptr<Exchange> respond(const Json& body) {
    return respond(Response{.body = dump(body)});
}

std::shared_ptr<Exchange> refuse(const Call& call, const ApiError& error) {
    return respond(error_response(error, error_body(call.target.path, error)));
}

Result<Json> body_of(const Call& call) {
    return format::parse_ordered_json(call.body, "the body");
}

Reply<std::vector<text::TokenId>> tokens_of_text(const Fields& fields, const text::Tokenizer& tokenizer) {
    // the names of llama-server and of vLLM
    const bool is_content = fields.find("content") != nullptr;
    const std::string content = TRY(fields.required_text(is_content ? "content" : "prompt"));
    text::EncodeOptions options{.add_special = !is_content};
    TRY(fields.read("add_special", options.add_special));
    TRY(fields.read("add_special_tokens", options.add_special));
    TRY(fields.read("parse_special", options.parse_special));
    return tokenizer.encode(content, options);
}

Reply<Json> tokenize_body(const Json& body, LoadedModel& model) {
    const Fields fields = TRY(Fields::of(body));
    std::vector<text::TokenId> tokens;
    if (fields.find("messages") != nullptr) {
        const Ask ask = TRY(parse_openai_chat(body));
        TRY(check(ask));
        tokens = TRY(Service::tokens_of(ask, model));
    } else {
        tokens = TRY(tokens_of_text(fields, model.bundle().tokenizer));
    }
    return Json{{"tokens", tokens}, {"count", tokens.size()}, {"max_model_len", model.engine().context()}};
}

Reply<Json> detokenize_body(const Json& body, LoadedModel& model) {
    const Fields fields = TRY(Fields::of(body));
    const Json* const tokens = TRY(fields.required_array("tokens"));
    const std::vector<Prompt> prompts = TRY(parse_prompts(*tokens, "tokens"));
    const auto* const ids = std::get_if<std::vector<text::TokenId>>(&prompts.front());
    if (ids == nullptr) return fields.wrong("tokens", "an array of token ids");
    const std::string text = model.bundle().tokenizer.decode(*ids);
    return Json{{"content", text}, {"prompt", text}};
}

Reply<Json> count_tokens_body(const Json& body, LoadedModel& model) {
    const Ask ask = TRY(parse_anthropic_count(body));
    TRY(check(ask));
    const std::vector<text::TokenId> tokens = TRY(Service::tokens_of(ask, model));
    return anthropic_count(static_cast<int>(tokens.size()));
}

}  // namespace

// Answers on a worker's thread, with the model that the body names.
Endpoints::Exchanged Endpoints::with_model(App& app, const CallPtr& call, OnModel then) {
    auto exchange = std::make_shared<SimpleExchange>();
    const auto fail_with = [exchange, path = call->target.path](const ApiError& error) {
        exchange->respond(error_response(error, error_body(path, error)));
    };
    app.workers_.post([&app, call, exchange, fail_with, then = std::move(then)] {
        Result<Json> body = body_of(*call);
        if (!body || !body->is_object()) {
            return fail_with({.message = body ? "the body must be a JSON object" : body.error().message});
        }
        const auto name = body->find("model");
        const bool is_named = name != body->end() && name->is_string();
        const std::string model_name = is_named ? name->get<std::string>() : std::string();
        app.service_.with_model(model_name, {},
                                [exchange, fail_with, then, json = std::move(*body)](Reply<ModelPool::Use> model) {
                                    if (!model) return fail_with(model.error());
                                    const Reply<Json> answer = then(json, **model);
                                    if (!answer) return fail_with(answer.error());
                                    exchange->respond(Response{.body = dump(*answer)});
                                });
    });
    return exchange;
}

Endpoints::Exchanged Endpoints::root(App& app, const CallPtr& call) {
    for (const std::string_view accepted : call->head.all("accept")) {
        if (accepted.find("text/html") != std::string_view::npos) return page(app, call);
    }
    return respond({.content_type = "text/plain; charset=utf-8", .body = "Ollama is running"});
}

Endpoints::Exchanged Endpoints::page(App& /*app*/, const CallPtr& call) {
    const PageFile* const file = find_page_file(call->target.path);
    if (file == nullptr) {
        return refuse(*call, {.status = 404, .type = "not_found_error", .message = "there is no " + call->target.path});
    }
    Response response{.content_type = std::string(file->content_type)};
    for (const PageHeader& header : page_headers()) response.headers.emplace_back(header.name, header.value);
    response.headers.emplace_back("ETag", file->etag);
    for (const std::string_view known : call->head.all("if-none-match")) {
        if (known != file->etag) continue;
        response.status = 304;
        return respond(std::move(response));
    }
    response.body = file->bytes;
    return respond(std::move(response));
}

Endpoints::Exchanged Endpoints::health(App& app, const CallPtr& /*call*/) {
    const std::string error = app.pool_.start_error();
    const double progress = app.pool_.start_progress();
    const auto not_ready = [](std::string_view message) {
        return Json{{"message", message}, {"type", "unavailable_error"}, {"code", 503}};
    };
    Json body = {{"status", "ok"}};
    if (app.draining_) {
        body = {{"status", "draining"}, {"error", not_ready("the server is stopping")}};
    } else if (!error.empty()) {
        body = {{"status", "error"}, {"error", not_ready(error)}};
    } else if (progress < 1) {
        body = {{"status", "loading"}, {"progress", progress}, {"error", not_ready("the model is loading")}};
    }
    Response response{.body = dump(body)};
    if (body.contains("error")) {
        response.status = 503;
        response.headers.emplace_back("Retry-After", "1");
    }
    return respond(std::move(response));
}

Endpoints::Exchanged Endpoints::metrics(App& app, const CallPtr& /*call*/) {
    app.monitor_.sample_engines();
    return respond({.content_type = std::string(Metrics::kContentType), .body = app.metrics_.text()});
}

Endpoints::Exchanged Endpoints::description(App& /*app*/, const CallPtr& /*call*/) {
    return respond(Response{.body = std::string(openapi())});
}

Endpoints::Exchanged Endpoints::live(App& app, const CallPtr& /*call*/) {
    auto exchange = std::make_shared<LiveExchange>(app.monitor_);
    exchange->begin();
    return exchange;
}

Endpoints::Exchanged Endpoints::models(App& app, const CallPtr& /*call*/) {
    return respond(openai_models(app.pool_.list()));
}

Endpoints::Exchanged Endpoints::model(App& app, const CallPtr& call) {
    const Reply<ModelCard> card = app.pool_.card(call->name);
    return card ? respond(openai_model(*card)) : refuse(*call, card.error());
}

Endpoints::Exchanged Endpoints::tokenize(App& app, const CallPtr& call) {
    return with_model(app, call, tokenize_body);
}

Endpoints::Exchanged Endpoints::detokenize(App& app, const CallPtr& call) {
    return with_model(app, call, detokenize_body);
}

Endpoints::Exchanged Endpoints::count_tokens(App& app, const CallPtr& call) {
    return with_model(app, call, count_tokens_body);
}

// ---- Ollama's

Endpoints::Exchanged Endpoints::ollama_tags(App& app, const CallPtr& /*call*/) {
    return respond(server::ollama_tags(app.pool_.list()));
}

Endpoints::Exchanged Endpoints::ollama_ps(App& app, const CallPtr& /*call*/) {
    return respond(server::ollama_ps(app.pool_.list(), std::chrono::system_clock::now()));
}

Endpoints::Exchanged Endpoints::ollama_version(App& app, const CallPtr& /*call*/) {
    return respond(server::ollama_version(app.options_.version));
}

Endpoints::Exchanged Endpoints::ollama_show(App& app, const CallPtr& call) {
    const auto show = [&]() -> Reply<ModelCard> {
        const Json body = TRY(body_of(*call));
        const std::string name = TRY(ollama_model_name(body));
        return app.pool_.card(name);
    };
    const Reply<ModelCard> card = show();
    return card ? respond(server::ollama_show(*card)) : refuse(*call, card.error());
}

Endpoints::Exchanged Endpoints::ollama_pull(App& app, const CallPtr& call) {
    const auto pull = [&]() -> Reply<Json> {
        const Json body = TRY(body_of(*call));
        const std::string name = TRY(ollama_model_name(body));
        return server::ollama_pull(body, static_cast<bool>(app.pool_.card(name)));
    };
    const Reply<Json> done = pull();
    return done ? respond(*done) : refuse(*call, done.error());
}

}  // namespace tandem::server
