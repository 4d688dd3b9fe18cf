#include "server/endpoints.h"

#include "device/host_memory.h"
#include "hub/catalog.h"
#include "hub/library.h"
#include "server/anthropic.h"
#include "server/fields.h"
#include "server/ollama.h"
#include "server/openai.h"
#include "server/openapi.h"
#include "server/page.h"
#include "server/routes.h"
#include "server/sse.h"
#include "text/utf8.h"

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

// An answer has a number for each token, and those who work on it at once must not take all memory.
constexpr size_t kMostTokenizeBytes = 1 << 20;

Reply<std::vector<text::TokenId>> tokens_of_text(const Fields& fields, const text::Tokenizer& tokenizer) {
    // the names of llama-server and of vLLM
    const bool is_content = fields.find("content") != nullptr;
    const std::string content = TRY(fields.required_text(is_content ? "content" : "prompt"));
    if (content.size() > kMostTokenizeBytes) {
        return ApiError{.status = 413,
                        .message = fmt::format("a text of {} bytes; at most {} at once: send it in parts",
                                               content.size(), kMostTokenizeBytes),
                        .param = is_content ? "content" : "prompt"};
    }
    text::EncodeOptions options{.add_special = !is_content};
    TRY(fields.read("add_special", options.add_special));
    TRY(fields.read("add_special_tokens", options.add_special));
    TRY(fields.read("parse_special", options.parse_special));
    return tokenizer.encode(content, options);
}

// As llama-server has it: {"id", "piece"}, the piece as bytes where it is no text by itself.
Json with_piece(text::TokenId token, const text::Tokenizer& tokenizer) {
    const std::string bytes = tokenizer.token_bytes(token);
    const std::string piece = bytes.empty() ? std::string(tokenizer.piece(token)) : bytes;
    if (text::is_valid_utf8(piece)) return {{"id", token}, {"piece", piece}};
    Json values = Json::array();
    for (const char c : piece) values.push_back(static_cast<unsigned char>(c));
    return {{"id", token}, {"piece", std::move(values)}};
}

Reply<Json> tokenize_body(const Json& body, LoadedModel& model) {
    const Fields fields = TRY(Fields::of(body));
    bool with_pieces = false;
    TRY(fields.read("with_pieces", with_pieces));
    std::vector<text::TokenId> tokens;
    if (fields.find("messages") != nullptr) {
        Json chat = body;
        chat.erase("with_pieces");
        const Ask ask = TRY(parse_openai_chat(chat));
        TRY(check(ask));
        tokens = TRY(Service::tokens_of_chat(ask, model));
    } else {
        tokens = TRY(tokens_of_text(fields, model.bundle().tokenizer));
    }
    if (with_pieces) {
        Json pieces = Json::array();
        for (const text::TokenId token : tokens) pieces.push_back(with_piece(token, model.bundle().tokenizer));
        return Json{
            {"tokens", std::move(pieces)}, {"count", tokens.size()}, {"max_model_len", model.engine().context()}};
    }
    return Json{{"tokens", tokens}, {"count", tokens.size()}, {"max_model_len", model.engine().context()}};
}

Reply<Json> detokenize_body(const Json& body, LoadedModel& model) {
    const Fields fields = TRY(Fields::of(body));
    const Json* const tokens = TRY(fields.required_array("tokens"));
    const std::vector<Prompt> prompts = TRY(parse_prompts(*tokens, "tokens"));
    const auto* const ids = std::get_if<std::vector<text::TokenId>>(&prompts.front());
    if (ids == nullptr) return fields.wrong("tokens", "an array of token ids");
    const text::Tokenizer& tokenizer = model.bundle().tokenizer;
    TRY(check_token_ids(*ids, tokenizer.vocab_size(), "tokens"));
    const std::string text = tokenizer.decode(*ids);
    return Json{{"content", text}, {"prompt", text}};
}

// Of the machine's memory; the cache and the system need the rest.
constexpr double kShareForWeights = 0.85;

ApiError no_library() {
    return {.status = 403,
            .type = "permission_error",
            .message = "this server offers only the models it was given (--no-library): nothing is fetched or removed"};
}

Reply<hub::LocalModel> require_local(const ModelPool& pool, const std::string& name) {
    if (pool.library() == nullptr) return no_library();
    const std::optional<hub::LocalModel> model = hub::find_model(*pool.library(), name);
    if (model) return *model;
    return ApiError{.status = 404,
                    .type = "not_found_error",
                    .message = fmt::format("the model '{}' was not fetched: /api/tags lists what there is", name),
                    .code = "model_not_found"};
}

Reply<Json> count_tokens_body(const Json& body, LoadedModel& model) {
    const Ask ask = TRY(parse_anthropic_count(body));
    TRY(check(ask));
    const std::vector<text::TokenId> tokens = TRY(Service::tokens_of_chat(ask, model));
    return anthropic_count(static_cast<int>(tokens.size()));
}

}  // namespace

// An answer that is made in several steps, on other threads.
class Endpoints::Answering {
  public:
    Answering(std::shared_ptr<SimpleExchange> exchange, std::string path)
        : exchange_(std::move(exchange)), path_(std::move(path)) {}

    void say(const Reply<Json>& answer) const {
        exchange_->respond(answer ? Response{.body = dump(*answer)}
                                  : error_response(answer.error(), error_body(path_, answer.error())));
    }
    // A step; whatever goes wrong there, the client gets to know.
    void guard(const std::function<void()>& step) const {
        try {
            step();
        } catch (const std::exception& error) {  // no memory, most likely
            say(ApiError{.status = 500, .type = "server_error", .message = error.what(), .code = "internal_error"});
        }
    }

  private:
    std::shared_ptr<SimpleExchange> exchange_;
    std::string path_;
};

// Hands the body to a worker: parsing it takes too long for a thread of the connections.
Endpoints::Exchanged Endpoints::with_body(App& app, const CallPtr& call, OnBody then) {
    auto exchange = std::make_shared<SimpleExchange>();
    app.workers_.post([call, answering = Answering(exchange, call->target.path), then = std::move(then)] {
        answering.guard([&] {
            Result<Json> body = take_body(*call);
            if (!body) return answering.say(std::move(body).error());
            if (!body->is_object()) return answering.say(ApiError{.message = "the body must be a JSON object"});
            then(std::move(*body), answering);
        });
    });
    return exchange;
}

// Answers with the model that the body names.
Endpoints::Exchanged Endpoints::with_model(App& app, const CallPtr& call, OnModel then) {
    return with_body(app, call, [&app, then = std::move(then)](Json body, const Answering& answering) {
        const auto name = body.find("model");
        const bool is_named = name != body.end() && name->is_string();
        const std::string model_name = is_named ? name->get<std::string>() : std::string();
        // shared: the function is copied on its way, and a body may be large
        const auto json = std::make_shared<const Json>(std::move(body));
        const auto answer = [answering, then, json](const Reply<ModelPool::Use>& model) {
            answering.guard([&] { answering.say(model ? then(*json, **model) : Reply<Json>(model.error())); });
        };
        app.service_.with_model(model_name, {}, answer);
    });
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
    if (app.ending_) {
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
    if (app.options_.stages) app.metrics_.sample(app.options_.stages());
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
    return with_body(app, call, [&app](const Json& body, const Answering& answering) {
        const auto show = [&]() -> Reply<Json> {
            const std::string name = TRY(ollama_model_name(body));
            const ModelCard card = TRY(app.pool_.card(name));
            return server::ollama_show(card);
        };
        answering.say(show());
    });
}

// Fetching, removing and naming models need a library; nothing is changed by those who only use the server.
Endpoints::Exchanged Endpoints::ollama_pull(App& app, const CallPtr& call) {
    auto exchange = std::make_shared<PullExchange>(call->target.path);
    app.workers_.post([&app, call, exchange] {
        const auto pull = [&]() -> Reply<Ok> {
            const Json body = TRY(take_body(*call));
            const std::string name = TRY(ollama_model_name(body));
            const Fields fields = TRY(Fields::of(body));
            bool streams = true;
            TRY(fields.read("stream", streams));
            exchange->set_streaming(streams);
            const hub::Places* const library = app.pool_.library();
            const bool is_here = static_cast<bool>(app.pool_.card(name));
            if (is_here && (library == nullptr || !find_remote_model(name, *library))) {
                exchange->succeed();
                return Ok{};
            }
            if (library == nullptr) return no_library();
            hub::Reference reference = TRY(find_remote_model(name, *library));
            app.pulls_.start(exchange, *library, std::move(reference));
            return Ok{};
        };
        const Reply<Ok> begun = pull();
        if (!begun) exchange->fail(begun.error());
    });
    return exchange;
}

Endpoints::Exchanged Endpoints::ollama_delete(App& app, const CallPtr& call) {
    return with_body(app, call, [&app](const Json& body, const Answering& answering) {
        const auto remove = [&]() -> Reply<Json> {
            const std::string name = TRY(ollama_model_name(body));
            const hub::LocalModel model = TRY(require_local(app.pool_, name));
            static_cast<void>(app.pool_.unload(name));  // it may not be loaded, or no model that runs
            TRY(hub::remove_model(*app.pool_.library(), model));
            return Json::object();
        };
        answering.say(remove());
    });
}

Endpoints::Exchanged Endpoints::ollama_copy(App& app, const CallPtr& call) {
    return with_body(app, call, [&app](const Json& body, const Answering& answering) {
        const auto copy = [&]() -> Reply<Json> {
            const Fields fields = TRY(Fields::of(body));
            const std::string source = TRY(fields.required_text("source"));
            const std::string destination = TRY(fields.required_text("destination"));
            const hub::LocalModel model = TRY(require_local(app.pool_, source));
            TRY(hub::name_model(*app.pool_.library(), model.path, destination));
            return Json::object();
        };
        answering.say(copy());
    });
}

Endpoints::Exchanged Endpoints::ollama_create(App& app, const CallPtr& call) {
    return with_body(app, call, [&app](const Json& body, const Answering& answering) {
        const auto create = [&]() -> Reply<Json> {
            const std::string name = TRY(ollama_model_name(body));
            const Fields fields = TRY(Fields::of(body));
            for (const char* const field :
                 {"template", "system", "parameters", "messages", "adapters", "quantize", "files"}) {
                if (fields.find(field) == nullptr) continue;
                return bad_request(field, "{} is not taken here: give 'from', a model or a file of this machine",
                                   field);
            }
            const std::string from = TRY(fields.required_text("from"));
            if (app.pool_.library() == nullptr) return no_library();
            if (!from.starts_with('/')) {
                const hub::LocalModel model = TRY(require_local(app.pool_, from));
                TRY(hub::name_model(*app.pool_.library(), model.path, name));
                return Json{{"status", "success"}};
            }
            TRY(engine::open_checkpoint(from));  // that it is a model, and whole
            TRY(hub::name_model(*app.pool_.library(), from, name));
            return Json{{"status", "success"}};
        };
        answering.say(create());
    });
}

Endpoints::Exchanged Endpoints::catalog(App& app, const CallPtr& /*call*/) {
    const hub::Places* const library = app.pool_.library();
    const std::vector<hub::LocalModel> local = library ? hub::find_models(*library) : std::vector<hub::LocalModel>();
    // The one that was fetched by its name, by the name it is asked for.
    const auto here = [&](std::string_view repo) {
        for (const hub::LocalModel& model : local) {
            if (model.name == repo || model.name.starts_with(std::string(repo) + ":")) return Json(model.name);
        }
        return Json();
    };
    const double largest = kShareForWeights * static_cast<double>(device::host_memory().size_bytes);
    Json list = Json::array();
    for (const hub::CatalogEntry& entry : hub::catalog()) {
        list.push_back({{"name", entry.name},
                        {"repository", entry.repo},
                        {"size_gb", entry.size_gb},
                        {"fits", entry.size_gb * 1e9 <= largest},
                        {"about", entry.about},
                        {"here", here(entry.repo)}});
    }
    return respond(Json{{"can_pull", library != nullptr},
                        {"largest_bytes", static_cast<uint64_t>(largest)},
                        {"models", std::move(list)}});
}

}  // namespace tandem::server
