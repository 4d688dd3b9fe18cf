#include "server/app.h"

#include <nlohmann/json.hpp>

#include "format/json.h"
#include "server/affinity.h"
#include "server/dialect.h"
#include "server/routes.h"
#include "server/sse.h"

namespace tandem::server {

namespace {

double seconds_from(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int64_t unix_seconds() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

void append(Headers& headers, const Headers& more) {
    headers.insert(headers.end(), more.begin(), more.end());
}

// How long a model stays loaded is for all who use it: only who administrates the server has a say in it.
Ask allowed(const Call& call, Ask ask) {
    if (!call.may_administrate) ask.keep_alive_s.reset();
    return ask;
}

ApiError draining_error() {
    return {.status = 503,
            .type = "unavailable_error",
            .message = "the server is stopping and takes no new work",
            .retry_after_s = 5};
}

}  // namespace

Result<Json> take_body(Call& call) {
    Result<Json> json = format::parse_ordered_json(call.body, "the body");
    call.body = {};
    call.room.reset();
    return json;
}

App::App(ModelPool& pool, AppOptions options)
    : pool_(pool),
      options_(std::move(options)),
      metrics_(options_.version),
      monitor_(pool_, metrics_),
      limits_(options_.limits),
      workers_(options_.worker_threads),
      service_(pool_, workers_, metrics_, options_.service) {}

Response App::refuse(const ApiError& error) const {
    return error_response(error, error_body("", error));
}

Reply<Ok> App::find_route(Call& call) {
    const std::string_view method = call.head.method == "HEAD" ? "GET" : std::string_view(call.head.method);
    std::string allowed;
    for (const Route& route : routes()) {
        // The page's files, where nothing else is.
        const bool is_other = route.path == "/*" && (!allowed.empty() || route.method != method);
        if (is_other || !matches(route, call.target.path, call.name)) continue;
        if (route.method == method) {
            call.route = &route;
            return Ok{};
        }
        allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
    }
    if (allowed.empty()) {
        return ApiError{.status = 404,
                        .type = "not_found_error",
                        .message = fmt::format("there is no {}: /openapi.json lists what there is", call.target.path)};
    }
    return ApiError{.status = 405,
                    .message = fmt::format("{} takes {}, not {}", call.target.path, allowed, call.head.method),
                    .headers = {{"Allow", allowed}}};
}

Reply<Ok> App::authorize(Call& call) const {
    call.may_administrate = options_.keys.empty();
    if (options_.keys.empty()) return Ok{};
    const std::optional<std::string> secret = TRY(presented_key(call.head));
    const Key* const key = secret ? options_.keys.find(*secret) : nullptr;
    const bool is_open =
        call.route->access == Access::open || (options_.open_metrics && call.route->path == kMetricsPath);
    if (key == nullptr) {
        if (is_open) return Ok{};
        return ApiError{.status = 401,
                        .type = "authentication_error",
                        .message = secret ? "the API key is not one of this server's"
                                          : "an API key is needed: send it as 'Authorization: Bearer KEY'",
                        .code = "invalid_api_key",
                        .headers = {{"WWW-Authenticate", "Bearer"}}};
    }
    call.entry.key = key->name;
    call.may_administrate = key->has(Scope::admin);
    const bool fits = is_open || key->has(Scope::admin) || (call.route->access == Access::use && key->has(Scope::use));
    if (fits) return Ok{};
    return ApiError{.status = 403,
                    .type = "permission_error",
                    .message = fmt::format("the key '{}' may not do this: it needs another scope", key->name)};
}

// For load balancers that ask for it.
void App::report_load(Call& call) {
    const std::vector<std::string_view> formats = call.head.all("endpoint-load-metrics-format");
    if (formats.empty()) return;
    const ModelPool::Use model = pool_.find_loaded("");
    if (!model) return;
    const std::optional<std::string> report = load_report(formats.front(), model->engine().stats());
    if (report) call.headers.emplace_back("endpoint-load-metrics", *report);
}

App::Admission App::admit(RequestHead head, std::string remote) {
    const auto call = std::make_shared<Call>();
    call->head = std::move(head);
    AccessEntry& entry = call->entry;
    entry.time = std::chrono::system_clock::now();
    const std::vector<std::string_view> ids = call->head.all("x-request-id");
    entry.request_id = request_id(ids.empty() ? "" : ids.front());
    entry.remote = std::move(remote);
    entry.method = call->head.method;
    entry.path = call->head.target;
    call->headers.emplace_back("x-request-id", entry.request_id);

    const auto admitted = [&]() -> Reply<bool> {
        TRY(take_absolute_target(call->head));
        TRY(check_host(call->head, options_.guard));
        append(call->headers, TRY(check_origin(call->head, options_.guard)));
        if (is_preflight(call->head)) return false;
        call->target = TRY(normalise_target(call->head.target));
        entry.path = call->target.path;
        TRY(find_route(*call));
        TRY(authorize(*call));
        report_load(*call);
        if (!call->route->generates()) return true;
        if (draining_) return draining_error();
        call->ticket = TRY(limits_.enter(entry.key, std::chrono::steady_clock::now()));
        return true;
    }();
    if (!admitted) {
        entry.error = admitted.error().message;
        return {call, error_response(admitted.error(), error_body(call->target.path, admitted.error()))};
    }
    if (!*admitted) {
        append(call->headers, preflight_headers(call->head));
        return {call, Response{.status = 204, .content_type = ""}};
    }
    if (call->route->generates()) ++under_way_;
    return {call, std::nullopt};
}

void App::announce_end() {
    ending_ = true;
}

void App::drain() {
    ending_ = true;
    draining_ = true;
    pool_.stop_loading();
}

void App::ended(const Call& call) {
    if (call.route->generates()) --under_way_;
}

std::shared_ptr<Exchange> App::handle(const CallPtr& call) {
    if (call->route->dialect != nullptr) return answer(call, *call->route->dialect);
    return call->route->handle(*this, call);
}

// On a worker's thread; whatever goes wrong there, the client gets to know.
void App::work(const std::shared_ptr<AnswerExchange>& exchange, std::function<void()> task) {
    workers_.post([exchange, task = std::move(task)] {
        try {
            task();
        } catch (const std::exception& error) {
            exchange->fail({.status = 500, .type = "server_error", .message = error.what(), .code = "internal_error"});
        }
    });
}

std::shared_ptr<Exchange> App::answer(const CallPtr& call, const Dialect& dialect) {
    const auto exchange = std::make_shared<AnswerExchange>(
        dialect, options_.heartbeat, [this, call](const AnswerRecord& answered) { record(*call, answered); });
    work(exchange, [this, call, exchange, &dialect] {
        const Result<Json> body = take_body(*call);
        if (!body) return exchange->fail({.message = body.error().message});
        Reply<Ask> ask = dialect.parse(*body);
        if (!ask) return exchange->fail(std::move(ask).error());
        if (dialect.loaded != nullptr && ask->only_loads()) return load_only(call, std::move(*ask), exchange);
        const std::string prefix = prefix_key(*ask);
        if (!prefix.empty()) call->headers.emplace_back(kPrefixHeader, prefix);
        service_.answer(
            allowed(*call, std::move(*ask)),
            {.salt = call->entry.key, .owner = options_.keys.empty() ? call->entry.remote : call->entry.key}, exchange);
    });
    return exchange;
}

// Ollama's way to load and to unload a model.
void App::load_only(const CallPtr& call, Ask ask, const std::shared_ptr<AnswerExchange>& exchange) {
    const Dialect& dialect = *call->route->dialect;
    const bool unloads = ask.keep_alive_s && *ask.keep_alive_s == 0;
    AnswerHead head{.id = {}, .created_s = unix_seconds(), .model = ask.model, .prompt_tokens = 0, .load_seconds = 0};
    if (unloads) {
        if (!call->may_administrate) {
            return exchange->fail({.status = 403,
                                   .type = "permission_error",
                                   .message = "unloading a model needs a key with the scope admin"});
        }
        const Reply<Ok> done = pool_.unload(ask.model);
        if (!done) return exchange->fail(done.error());
        return exchange->respond(dialect.loaded(ask, head));
    }
    ask = allowed(*call, std::move(ask));
    const std::string name = ask.model;
    const std::optional<double> keep_alive_s = ask.keep_alive_s;
    service_.with_model(name, keep_alive_s,
                        [exchange, &dialect, head, ask = std::move(ask)](const Reply<ModelPool::Use>& model) {
                            if (!model) return exchange->fail(model.error());
                            AnswerHead loaded = head;
                            loaded.model = model->name();
                            loaded.load_seconds = model->load_seconds();
                            exchange->respond(dialect.loaded(ask, loaded));
                        });
}

void App::record(Call& call, const AnswerRecord& answered) {
    const std::lock_guard lock(call.mutex);
    AccessEntry& entry = call.entry;
    entry.model = answered.model;
    entry.error = answered.error;
    entry.prompt_tokens = answered.usage.prompt_tokens;
    entry.cached_tokens = answered.usage.cached_tokens;
    entry.generated_tokens = answered.usage.generated_tokens;
    for (const Ending& ending : answered.endings) {
        entry.finish = name(ending.reason);
        entry.first_token_seconds = ending.timing.first_token;
        monitor_.first_token(ending.timing.first_token);
        metrics_.model(answered.model).ended(ending);
    }
}

void App::sent_after(std::chrono::steady_clock::duration delay) {
    metrics_.sent_after(std::chrono::duration<double>(delay).count());
}

void App::finished(Call& call, int status, uint64_t sent_bytes) {
    if (call.route != nullptr) metrics_.request(call.route->path, status);
    call.ticket.reset();
    const std::lock_guard lock(call.mutex);
    call.entry.status = status;
    call.entry.sent_bytes = sent_bytes;
    call.entry.seconds = seconds_from(call.begin);
    if (options_.log) options_.log->add(call.entry);
}

}  // namespace tandem::server
