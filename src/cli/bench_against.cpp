#include "cli/bench_against.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/text_output.h"
#include "measure/traffic.h"

namespace tandem::cli {

namespace {

using AgainstJson = nlohmann::ordered_json;

constexpr int kMostAtOnce = 4096;

struct AgainstFindings {
    std::string url;
    std::string model;
    measure::TrafficTargets targets;
    std::vector<measure::TrafficReport> rows;
};

std::string load_of(const measure::TrafficReport& row) {
    if (row.rate > 0) return fmt::format("{:g} requests/s", row.rate);
    return fmt::format("{} user{}", row.concurrency, row.concurrency == 1 ? "" : "s");
}

std::string in_ms(const measure::Percentiles& seconds) {
    return fmt::format("{} {} {}", format_rate(seconds.p50 * 1e3), format_rate(seconds.p90 * 1e3),
                       format_rate(seconds.p99 * 1e3));
}

std::string targets_text(const measure::TrafficTargets& targets) {
    std::string text;
    if (targets.first_s > 0) text += fmt::format("first token within {:g} ms", targets.first_s * 1e3);
    if (targets.between_s > 0)
        text += fmt::format("{}a token each {:g} ms", text.empty() ? "" : ", ", targets.between_s * 1e3);
    return text;
}

std::string notes_of(const AgainstFindings& found) {
    std::string text;
    for (const measure::TrafficReport& row : found.rows) {
        for (const auto& [error, count] : row.errors)
            text += fmt::format("{}: {} of {} requests failed: {}\n", load_of(row), count, row.requests,
                                escape_short(error, 120));
        if (row.without_usage > 0)
            text += fmt::format("{}: {} answers had no usage: the pieces that came were counted as tokens\n",
                                load_of(row), row.without_usage);
        if (row.wrong_usage > 0)
            text += fmt::format("{}: the usage of {} answers cannot be: it does not add up, or is above --tokens\n",
                                load_of(row), row.wrong_usage);
    }
    return text;
}

std::string to_text(const AgainstFindings& found) {
    std::string text = fmt::format("{} at {}\n\n", escape_short(found.model, 100), found.url);
    std::vector<std::string> header = {"LOAD",     "ANSWERED", "REQUESTS/S",     "TOKENS/S",
                                       "FIRST MS", "TOKEN MS", "WHOLE ANSWER MS"};
    if (found.targets.any()) header.insert(header.end(), {"GOODPUT/S", "GOOD"});
    Table table(std::move(header), {1, 2, 3, 4, 5, 6, 7, 8});
    for (const measure::TrafficReport& row : found.rows) {
        std::vector<std::string> cells = {load_of(row),
                                          fmt::format("{} of {}", row.answered, row.requests),
                                          format_rate(row.answered / row.seconds),
                                          format_rate(static_cast<double>(row.tokens) / row.seconds),
                                          in_ms(row.first),
                                          in_ms(row.between),
                                          in_ms(row.total)};
        if (found.targets.any()) {
            cells.push_back(format_rate(row.good / row.seconds));
            cells.push_back(fmt::format("{:.0f} %", 100.0 * row.good / row.requests));
        }
        table.add(std::move(cells));
    }
    text += table.to_string();
    text += "times: half of the answers, 90 % and 99 % had at most so much; they count from when a request came\n";
    if (found.targets.any()) text += fmt::format("good: {}\n", targets_text(found.targets));
    return text + notes_of(found);
}

AgainstJson to_json(const measure::Percentiles& seconds) {
    return {{"p50", seconds.p50 * 1e3}, {"p90", seconds.p90 * 1e3}, {"p99", seconds.p99 * 1e3}};
}

std::string to_json(const AgainstFindings& found) {
    AgainstJson rows = AgainstJson::array();
    for (const measure::TrafficReport& row : found.rows) {
        rows.push_back({{"rate", row.rate > 0 ? AgainstJson(row.rate) : AgainstJson()},
                        {"concurrency", row.concurrency},
                        {"requests", row.requests},
                        {"answered", row.answered},
                        {"seconds", row.seconds},
                        {"requests_per_s", row.answered / row.seconds},
                        {"tokens_per_s", static_cast<double>(row.tokens) / row.seconds},
                        {"first_token_ms", to_json(row.first)},
                        {"per_token_ms", to_json(row.between)},
                        {"answer_ms", to_json(row.total)},
                        {"good", found.targets.any() ? AgainstJson(row.good) : AgainstJson()},
                        {"goodput_per_s", found.targets.any() ? AgainstJson(row.good / row.seconds) : AgainstJson()},
                        {"without_usage", row.without_usage},
                        {"wrong_usage", row.wrong_usage},
                        {"errors", row.errors}});
    }
    const AgainstJson json = {{"url", found.url}, {"model", found.model}, {"rows", std::move(rows)}};
    return json.dump(2, ' ', false, AgainstJson::error_handler_t::replace) + "\n";
}

Result<measure::TrafficReport> measure_one(const measure::TrafficOptions& traffic,
                                           const measure::TrafficTargets& targets) {
    Progress progress("requests");
    measure::TrafficOptions shown = traffic;
    shown.progress = [&](int done, int all) { progress.show(done, all); };
    return measure::send_traffic(shown, targets);
}

}  // namespace

void add_against_options(CLI::App& app, AgainstOptions& options) {
    constexpr const char* kGroup = "With --against";
    const auto add = [&](const char* name, auto& value, const char* help, const char* text) {
        return app.add_option(name, value, help)->option_text(text)->group(kGroup);
    };
    add("--against", options.url, "Measure an OpenAI-compatible server as its users see it; --model names the model",
        "URL");
    add("--rate", options.rates, "Requests a second, at random moments; else users that ask one thing after another",
        "R,R,...")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(0.001, 1e5));
    add("--concurrency", options.concurrency, "Users, or with --rate the most requests at once (1; with --rate 4096)",
        "N,N,...")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(1, kMostAtOnce));
    add("--requests", options.requests, "Requests of each measurement (50)", "N")->check(CLI::Range(1, 1'000'000));
    add("--words", options.prompt_words, "Random words of a prompt (128)", "N")->check(CLI::Range(0, 1'000'000));
    add("--tokens", options.tokens, "The most tokens of an answer (64)", "N")->check(CLI::Range(1, 1'000'000));
    add("--ttft-ms", options.first_ms, "A good answer's first token comes within this time", "MS")
        ->check(CLI::PositiveNumber);
    add("--tpot-ms", options.between_ms, "A good answer's tokens come so fast after one another", "MS")
        ->check(CLI::PositiveNumber);
    add("--key", options.key_file, "A file with the key that the server wants", "FILE");
    add("--patience", options.patience_s, "Seconds after which a request is given up (300)", "S")
        ->check(CLI::Range(1, 86'400));
    add("--seed", options.seed, "Of the prompts and the moments (1)", "N");
}

Result<int> bench_against(const AgainstOptions& options) {
    const measure::Endpoint endpoint = TRY(measure::make_endpoint(options.url, options.key_file));
    AgainstFindings found{.url = endpoint.url,
                          .model = options.model,
                          .targets = {.first_s = options.first_ms / 1e3, .between_s = options.between_ms / 1e3},
                          .rows = {}};
    if (found.model.empty()) found.model = TRY(measure::first_model_of(endpoint));
    measure::TrafficOptions traffic{.endpoint = endpoint,
                                    .model = found.model,
                                    .requests = options.requests,
                                    .prompt_words = options.prompt_words,
                                    .tokens = options.tokens,
                                    .patience = std::chrono::seconds(options.patience_s),
                                    .seed = options.seed};
    for (const double rate : options.rates) {
        traffic.rate = rate;
        traffic.concurrency =
            options.concurrency.size() == 1 && options.concurrency[0] > 1 ? options.concurrency[0] : kMostAtOnce;
        found.rows.push_back(TRY(measure_one(traffic, found.targets)));
    }
    for (const int users : options.rates.empty() ? options.concurrency : std::vector<int>()) {
        traffic.concurrency = users;
        found.rows.push_back(TRY(measure_one(traffic, found.targets)));
    }
    print(options.json ? to_json(found) : to_text(found));
    const bool all_answered =
        std::ranges::all_of(found.rows, [](const auto& row) { return row.answered == row.requests; });
    return all_answered ? 0 : kExitFailed;
}

}  // namespace tandem::cli
