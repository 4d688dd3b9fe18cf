#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "cli/command.h"
#include "cli/engine_options.h"
#include "cli/file_fault.h"
#include "cli/launch.h"
#include "cli/model_source.h"
#include "cli/rank_job.h"
#include "cli/text_output.h"
#include "server/app.h"
#include "server/http_server.h"
#include "server/model_pool.h"
#include "user/models.h"

namespace tandem::cli {

namespace {

constexpr int kMostSequences = 4096;
constexpr uint64_t kMegabyte = 1 << 20;
constexpr std::chrono::milliseconds kLoaderPatience{2000};
constexpr int kRankSteps = 4;  // with as many groups as ranks, all are busy for 4 of 5 steps and more

struct ServeOptions {
    std::vector<std::string> models;
    bool no_library = false;
    server::PoolOptions pool;
    server::AppOptions app;
    server::HttpOptions http;
    EngineChoice engine;
    int parallel = 32;
    int queue = 4096;
    std::string keys;
    std::string log;
    uint64_t max_body_mib = 4;
    int notice_s = 0;
    int drain_s = 30;
    std::string hosts;
};

bool is_loopback(const std::string& host) {
    return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Status check(const ServeOptions& options) {
    if (!is_loopback(options.http.host) && options.keys.empty()) {
        return fail("--host {}: other machines could use this server: give --api-keys FILE, or stay on 127.0.0.1",
                    options.http.host);
    }
    if (options.http.certificate.empty() != options.http.private_key.empty()) {
        return fail("TLS needs both --certificate and --private-key");
    }
    return Ok{};
}

// The ranks of a job have one model together.
Status check_for_ranks(const ServeOptions& options) {
    if (options.models.size() > 1)
        return fail("the ranks of a job serve one model, not {}: start a job for each", options.models.size());
    if (!options.pool.folder.empty()) return fail("--models: the ranks of a job serve one model: name it");
    return Ok{};
}

std::vector<server::StageSample> stage_samples(const RankJob& job) {
    std::vector<server::StageSample> samples;
    const std::vector<ranks::StageReport> stages = job.report();
    for (const ranks::StageReport& stage : stages) {
        samples.push_back({.rank = stage.rank,
                           .host = stage.host,
                           .next_rank = (stage.rank + 1) % static_cast<int>(stages.size()),
                           .busy_s = stage.seconds.busy,
                           .waiting_s = stage.seconds.waiting,
                           .hop_s = stage.hop_seconds,
                           .sent_bytes = stage.sent_bytes});
    }
    return samples;
}

Result<int> serve(ServeOptions& options) {
    TRY(check(options));
    spdlog::set_level(spdlog::level::info);
    user::DeviceOptions& device = options.engine.device;
    if (!options.hosts.empty()) {
        return launch({.hosts = options.hosts, .has_split = !device.split.empty()});
    }
    const std::unique_ptr<RankJob> job = TRY(RankJob::join(device, true));
    if (job) TRY(check_for_ranks(options));
    if (job && !job->is_first()) return job->work(options.models.empty() ? "" : options.models.front());
    survive_file_faults();  // one model may fail, not all
    if (!options.keys.empty()) options.app.keys = TRY(server::Keys::load(options.keys));
    if (!options.log.empty()) options.app.log = TRY(server::AccessLog::open(options.log));
    user::Devices devices(options.engine.device, note);
    TRY(devices.check());  // a wrong --device is told at once
    options.pool.open_device = [&devices, &job](uint64_t weight_bytes) {
        return open_device(devices, job.get(), weight_bytes);
    };
    options.pool.engine = {.context = options.engine.context,
                           .sequences = options.parallel,
                           .queue = options.queue,
                           .kv_dtype = kv_dtype_of(options.engine.kv),
                           .least_steps = job ? kRankSteps : 1};
    if (job) options.app.stages = [&job] { return stage_samples(*job); };
    options.app.version = TANDEM_VERSION;
    options.http.body_bytes = options.max_body_mib * kMegabyte;
    options.http.notice_time = std::chrono::seconds(options.notice_s);
    options.http.drain_time = std::chrono::seconds(options.drain_s);

    for (const std::string& model : options.models) {
        const std::string source = TRY(find_or_fetch(model, {}));
        const bool is_name = source != model;  // of the library: it is asked for by that
        options.pool.models.push_back({source, is_name ? TRY(user::require_model(model)).name : ""});
    }
    if (!options.no_library && !job) options.pool.library = hub::find_places();

    const std::unique_ptr<server::ModelPool> pool = TRY(server::ModelPool::open(std::move(options.pool)));
    const bool has_tls = !options.http.certificate.empty();
    const std::string host = options.http.host;
    server::App app(*pool, std::move(options.app));
    std::unique_ptr<server::HttpServer> http = TRY(server::HttpServer::open(app, std::move(options.http)));
    log::info("listening on {}://{}:{}", has_tls ? "https" : "http",
              host.find(':') == std::string::npos ? host : "[" + host + "]", http->port());
    pool->start();
    if (job) job->watch([&http] { http->stop(); });
    http->run();
    if (job) job->unwatch();
    http.reset();
    log::info("stopped");
    if (!pool->loader_ends(kLoaderPatience)) std::_Exit(0);  // a device takes its time, and nothing needs saving
    pool->close();                                           // before the app that its engines report to
    if (job && !job->failure().empty()) return Error{job->failure()};
    return 0;
}

void add_model_options(CLI::App& app, ServeOptions& options) {
    app.add_option("MODEL", options.models,
                   "Models to load now and to keep, fetched if need be; the first is the default (tales)")
        ->option_text(" ");
    app.add_option("--models", options.pool.folder,
                   "Folder of GGUF files and Hugging Face directories: loaded when a request names them")
        ->option_text("DIR");
    app.add_flag("--no-library", options.no_library,
                 "Offer only what is named here, not all models of this machine (tandem list); nothing is fetched");
    app.add_option("--keep-alive", options.pool.keep_alive_s,
                   "Seconds that a model of --models stays loaded after its last use; -1: for good (300)")
        ->option_text("S");
    app.add_option("--memory", options.pool.memory_bytes,
                   "Memory for all models, as 12GB: what was not used for longest is unloaded first (no limit)")
        ->option_text("SIZE")
        ->transform(CLI::AsSizeValue(false));
    app.add_option("--parallel", options.parallel, "Answers written at once by each model (32)")
        ->option_text("N")
        ->check(CLI::Range(1, kMostSequences));
    app.add_option("--queue", options.queue, "Requests under way or waiting for each model; more get 503 (4096)")
        ->option_text("N")
        ->check(CLI::Range(1, 1'000'000));
    add_engine_options(app, options.engine);
    app.add_option(
           "--hosts", options.hosts,
           "Share the model's layers among these machines, as a,b,c: starts this program on each by mpirun, and "
           "again\nwhen one was lost")
        ->option_text("HOSTS");
}

void add_network_options(CLI::App& app, ServeOptions& options) {
    app.add_option("--host", options.http.host, "Address to listen on (127.0.0.1: this machine only)")
        ->option_text("ADDRESS");
    app.add_option("--port", options.http.port, "Port; 0: any that is free (8080)")
        ->option_text("N")
        ->check(CLI::Range(0, 65535));
    app.add_option("--certificate", options.http.certificate, "TLS: certificate chain, as PEM")->option_text("FILE");
    app.add_option("--private-key", options.http.private_key, "TLS: its private key, as PEM")->option_text("FILE");
    app.add_option("--api-keys", options.keys,
                   "File of lines `KEY SCOPES [NAME]`, SCOPES being use, admin or use,admin; readable by you alone")
        ->option_text("FILE");
    app.add_flag("--open-metrics", options.app.open_metrics,
                 "Whoever reaches the server may read /metrics without a key: gateways that scrape have none");
    app.add_option("--allow-host", options.app.guard.hosts, "Name by which clients may call the server; repeatable")
        ->option_text("NAME")
        ->allow_extra_args(false);
    app.add_option("--allow-origin", options.app.guard.origins,
                   "Web site whose pages may use the server, as https://chat.example.org; repeatable")
        ->option_text("ORIGIN")
        ->allow_extra_args(false);
    app.add_option("--http-threads", options.http.threads, "Threads that serve the connections (2)")
        ->option_text("N")
        ->check(CLI::Range(1, 64));
    app.add_option(
           "--notice", options.notice_s,
           "Seconds after SIGTERM in which /health says no and work is still taken, so that balancers notice (0)")
        ->option_text("S")
        ->check(CLI::Range(0, 3600));
    app.add_option("--drain", options.drain_s, "Seconds that answers get to end after SIGTERM (30)")
        ->option_text("S")
        ->check(CLI::Range(0, 86'400));
}

void add_limit_options(CLI::App& app, ServeOptions& options) {
    app.add_option("--requests-per-minute", options.app.limits.requests_per_minute, "Of each key; 0: any number (0)")
        ->option_text("N")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--concurrent", options.app.limits.concurrent, "Requests of each key at once; 0: any number (0)")
        ->option_text("N")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--max-seconds", options.app.service.answer_seconds, "That an answer may take; 0: any time (0)")
        ->option_text("S")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--max-n", options.app.service.limits.n, "Answers that one request may ask for (16)")
        ->option_text("N")
        ->check(CLI::PositiveNumber);
    app.add_option("--max-body", options.max_body_mib, "Size of a request in MiB (4)")
        ->option_text("MIB")
        ->check(CLI::Range(1, 1024));
    app.add_option("--log", options.log, "Append a line of JSON for each request to this file; - is standard error")
        ->option_text("FILE");
}

constexpr const char* kServeHelp =
    "Speaks the APIs of OpenAI (/v1/chat/completions and others), Ollama and Anthropic, has a chat page at /,\n"
    "Prometheus metrics at /metrics, and says at /health whether it is ready. Ends on SIGTERM or Ctrl-C, when the "
    "answers\n"
    "under way have been written. docs/server.md describes all of it.\n"
    "\n"
    "Only this machine can reach it unless --host says otherwise, and then it wants API keys.\n"
    "\n"
    "Examples:\n"
    "  tandem serve\n"
    "  tandem serve gemma-3-1b.gguf --context 16384 --parallel 8\n"
    "  tandem serve gemma3:4b qwen3:8b --memory 12GB\n"
    "  tandem serve --models ~/models --memory 12GB --keep-alive 600\n"
    "  tandem serve model.gguf --host 0.0.0.0 --api-keys keys.txt --certificate chain.pem --private-key key.pem\n"
    "  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": "
    "\"Hi\"}]}'\n";

}  // namespace

Command add_serve(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("serve", "Serve models to programs and browsers over HTTP");
    const auto options = std::make_shared<ServeOptions>();
    add_model_options(*app, *options);
    add_network_options(*app, *options);
    add_limit_options(*app, *options);
    app->footer(kServeHelp);
    return {app, [options] { return serve(*options); }};
}

}  // namespace tandem::cli
