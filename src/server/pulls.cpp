#include "server/pulls.h"

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "hub/catalog.h"
#include "server/routes.h"
#include "server/sse.h"

namespace tandem::server {

namespace {

using PullJson = nlohmann::ordered_json;

constexpr size_t kMostPulls = 4;
constexpr std::chrono::milliseconds kBetweenLines{200};

PullJson progress_line(const hub::PullEvents::Step& step) {
    return {{"status", "pulling " + step.digest.substr(0, 12)},
            {"digest", step.digest.size() == 64 ? "sha256:" + step.digest : step.digest},
            {"total", step.file_bytes},
            {"completed", step.file_done_bytes}};
}

}  // namespace

// ---- PullExchange

void PullExchange::set_streaming(bool streams) {
    const std::lock_guard lock(mutex_);
    streams_ = streams;
}

void PullExchange::say(const PullJson& line) {
    {
        const std::lock_guard lock(mutex_);
        if (!streams_) return;
        bytes_ += dump(line) + "\n";
    }
    wake();
}

void PullExchange::succeed() {
    {
        const std::lock_guard lock(mutex_);
        const PullJson line = {{"status", "success"}};
        if (streams_) bytes_ += dump(line) + "\n";
        if (!streams_) whole_ = Response{.body = dump(line)};
        is_ended_ = true;
    }
    wake();
}

void PullExchange::fail(const ApiError& error) {
    {
        const std::lock_guard lock(mutex_);
        const std::string body = error_body(path_, error);
        const bool has_lines = is_begun_ || !bytes_.empty();
        if (streams_ && has_lines) bytes_ += body.ends_with('\n') ? body : body + "\n";
        if (!streams_ || !has_lines) whole_ = error_response(error, body);
        is_ended_ = true;
    }
    wake();
}

Output PullExchange::take(bool /*ticked*/) {
    taken();
    const std::lock_guard lock(mutex_);
    Output output;
    if (whole_) {
        output.head = std::move(*whole_);
        whole_.reset();
        output.ended = true;
        return output;
    }
    if (!streams_) return output;
    if (!is_begun_ && !bytes_.empty()) {
        is_begun_ = true;
        output.head = Response{.content_type = "application/x-ndjson"};
        output.streams = true;
    }
    output.bytes = std::move(bytes_);
    bytes_.clear();
    output.ended = is_ended_;
    return output;
}

// ---- Pulls

Pulls::~Pulls() {
    stopping_ = true;
    for (Job& job : jobs_) job.thread.join();
}

void Pulls::start(std::shared_ptr<PullExchange> exchange, hub::Places places, hub::Reference reference) {
    const std::lock_guard lock(mutex_);
    for (auto job = jobs_.begin(); job != jobs_.end();) {
        if (!job->is_done) {
            ++job;
            continue;
        }
        job->thread.join();
        job = jobs_.erase(job);
    }
    if (stopping_ || jobs_.size() >= kMostPulls) {
        return exchange->fail(
            {.status = 503,
             .type = "unavailable_error",
             .message = fmt::format("{} models are being fetched already: try again later", kMostPulls),
             .retry_after_s = 30});
    }
    Job& job = jobs_.emplace_back();
    job.thread = std::thread(
        [this, &job, exchange = std::move(exchange), places = std::move(places), reference = std::move(reference)] {
            try {
                run(*exchange, places, reference);
            } catch (const std::exception& error) {  // no memory, most likely
                exchange->fail({.status = 500, .type = "server_error", .message = error.what()});
            }
            job.is_done = true;
        });
}

void Pulls::run(PullExchange& exchange, const hub::Places& places, const hub::Reference& reference) const {
    hub::Http http({.places = places, .stop = [&] { return stopping_ || exchange.is_cancelled(); }});
    exchange.say({{"status", "pulling manifest"}});
    auto said = std::chrono::steady_clock::time_point();
    std::string file;
    const hub::PullEvents events{.plan = [](const hub::PullEvents::Plan& plan) -> Status {
                                     log::info("fetching {}", plan.name);
                                     return Ok{};
                                 },
                                 .step =
                                     [&](const hub::PullEvents::Step& step) {
                                         const auto now = std::chrono::steady_clock::now();
                                         const bool is_news =
                                             step.file != file || step.file_done_bytes == step.file_bytes;
                                         if (!is_news && now - said < kBetweenLines) return;
                                         said = now;
                                         file = step.file;
                                         exchange.say(progress_line(step));
                                     },
                                 .note = [](std::string_view text) { log::info("{}", text); }};
    const Result<hub::LocalModel> model = hub::pull(http, reference, events);
    if (!model) {
        const bool is_stopped = hub::is_stopped(model.error());
        if (!is_stopped) log::warn("{}", model.error().message);
        return exchange.fail({.status = 502,
                              .type = "server_error",
                              .message = is_stopped ? "stopped; what has arrived is kept" : model.error().message,
                              .code = "pull_failed"});
    }
    log::info("fetched {}", model->name);
    exchange.say({{"status", "verifying sha256 digest"}});
    exchange.say({{"status", "writing manifest"}});
    exchange.succeed();
}

Reply<hub::Reference> find_remote_model(const std::string& name, const hub::Places& places) {
    if (const hub::CatalogEntry* const entry = hub::find_in_catalog(name)) {
        return hub::Reference{.repo = std::string(entry->repo)};
    }
    const std::optional<hub::Reference> reference = TRY(hub::parse_reference(name, places.endpoint));
    if (reference) return *reference;
    return ApiError{
        .status = 404,
        .type = "not_found_error",
        .message = fmt::format("'{}' is not known: name a model of Hugging Face as hf.co/org/name[:QUANT], or "
                               "put the file into the server's folder (--models)",
                               name),
        .code = "model_not_found"};
}

}  // namespace tandem::server
