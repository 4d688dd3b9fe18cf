// tandem top: a running server, as its counters show it, looked at again and again.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/text_output.h"
#include "measure/watch.h"

namespace tandem::cli {

namespace {

using TopJson = nlohmann::ordered_json;
using TopClock = std::chrono::steady_clock;

struct TopOptions {
    std::string url = "localhost:8080";
    std::string key_file;
    double interval_s = 2;
    bool once = false;
    bool json = false;
};

// "▁▂▄█": the last values, of which the largest is as high as a letter.
std::string bars_of(const std::deque<double>& values) {
    constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    constexpr int kHighest = 7;
    const double most = values.empty() ? 0 : *std::ranges::max_element(values);
    std::string text;
    for (const double value : values) text += kBars[most > 0 ? static_cast<int>(value / most * kHighest + 0.5) : 0];
    return text;
}

std::string two_times(double half_s, double most_s) {
    if (most_s <= 0) return "-";
    return fmt::format("{} {}", format_rate(half_s * 1e3), format_rate(most_s * 1e3));
}

std::string health_of(const measure::ServerLook& look) {
    if (look.health == "loading") return fmt::format("loading, {:.0f} %", 100 * look.load_progress);
    return escape_short(look.health, 40);
}

std::string models_table(const std::vector<measure::ModelActivity>& models) {
    Table table({"MODEL", "RUNNING", "WAITING", "CACHE", "TOKENS/S", "PROMPTS/S", "CACHED", "FIRST MS", "TOKEN MS"},
                {1, 2, 3, 4, 5, 6, 7, 8});
    for (const measure::ModelActivity& model : models) {
        table.add({escape_short(model.name, 60), fmt::format("{:g}", model.running), fmt::format("{:g}", model.waiting),
                   fmt::format("{:.0f} %", 100 * model.cache_usage), format_rate(model.tokens_per_s),
                   format_rate(model.prompt_tokens_per_s), fmt::format("{:.0f} %", 100 * model.cached_share),
                   two_times(model.first_p50_s, model.first_p99_s),
                   two_times(model.between_p50_s, model.between_p99_s)});
    }
    return table.to_string();
}

std::string devices_table(const std::vector<measure::DeviceLoad>& devices) {
    if (devices.empty()) return {};
    Table table({"DEVICE", "BUSY", "MEMORY USED", "OF"}, {1, 2, 3});
    for (const measure::DeviceLoad& device : devices) {
        table.add({escape_short(device.name, 40), fmt::format("{:.0f} %", 100 * device.busy),
                   format_bytes(static_cast<uint64_t>(device.used_bytes)),
                   format_bytes(static_cast<uint64_t>(device.memory_bytes))});
    }
    return "\n" + table.to_string();
}

TopJson activity_json(const measure::ServerLook& look, const std::vector<measure::ModelActivity>& models) {
    TopJson list = TopJson::array();
    for (const measure::ModelActivity& model : models) {
        list.push_back({{"name", model.name},
                        {"running", model.running},
                        {"waiting", model.waiting},
                        {"cache_usage", model.cache_usage},
                        {"tokens_per_s", model.tokens_per_s},
                        {"prompt_tokens_per_s", model.prompt_tokens_per_s},
                        {"cached_share", model.cached_share},
                        {"first_token_ms", {{"p50", model.first_p50_s * 1e3}, {"p99", model.first_p99_s * 1e3}}},
                        {"per_token_ms", {{"p50", model.between_p50_s * 1e3}, {"p99", model.between_p99_s * 1e3}}}});
    }
    TopJson devices = TopJson::array();
    for (const measure::DeviceLoad& device : look.devices) {
        devices.push_back({{"name", device.name},
                           {"busy", device.busy},
                           {"memory_bytes", device.memory_bytes},
                           {"used_bytes", device.used_bytes}});
    }
    return {{"health", look.health}, {"models", std::move(list)}, {"devices", std::move(devices)}};
}

// What is shown, each time anew: on a terminal in place, else one after another.
class TopView {
  public:
    TopView(std::string url, bool in_lines)
        : url_(std::move(url)), json_(in_lines), in_place_(!in_lines && has_control_sequences(1)) {}

    void show(const measure::ServerLook& look, const std::vector<measure::ModelActivity>& models) {
        double rate = 0;
        for (const measure::ModelActivity& model : models) rate += model.tokens_per_s;
        rates_.push_back(rate);
        constexpr size_t kShownRates = 60;
        if (rates_.size() > kShownRates) rates_.pop_front();
        if (json_) return draw(dumped(activity_json(look, models)));
        draw(fmt::format("{}: {}\n{}tokens/s {} {}\n\n{}{}", url_, health_of(look), in_place_ ? "\n" : "",
                         format_rate(rate), in_place_ ? bars_of(rates_) : "", models_table(models),
                         devices_table(look.devices)) +
             kFootnote);
    }

    // A server that went away may come back.
    void show_away(const std::string& why, double seconds) {
        if (json_) return draw(dumped({{"health", "away"}, {"error", why}, {"away_s", seconds}}));
        draw(fmt::format("{}\naway for {:.0f} s; looking again, Ctrl-C ends\n", why, seconds));
    }

  private:
    static constexpr const char* kFootnote = "times: half of them, 99 % of them; since the last look\n";

    static std::string dumped(const TopJson& look) {
        return look.dump(-1, ' ', false, TopJson::error_handler_t::replace) + "\n";
    }

    // Line by line over what was there: nothing flickers, as it would if all were wiped first.
    void draw(std::string text) {
        if (!in_place_) return print(text + (json_ ? "" : "\n"));
        std::string screen = is_first_ ? "\x1b[2J\x1b[H" : "\x1b[H";
        is_first_ = false;
        for (const char letter : text) screen += letter == '\n' ? std::string("\x1b[K\n") : std::string(1, letter);
        print(screen + "\x1b[J");
    }

    std::string url_;
    bool json_;
    bool in_place_;
    bool is_first_ = true;
    std::deque<double> rates_;
};

double seconds_of(TopClock::time_point time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// False: somebody wants it to end.
bool sleep_until(TopClock::time_point time) {
    constexpr std::chrono::milliseconds kNap{50};
    while (!interrupted() && TopClock::now() < time)
        std::this_thread::sleep_for(std::min<TopClock::duration>(kNap, time - TopClock::now()));
    return !interrupted();
}

Result<int> top_once(const measure::Endpoint& endpoint, const TopOptions& options) {
    const TopClock::time_point begin = TopClock::now();
    const measure::ServerLook before = TRY(measure::look_at(endpoint, seconds_of(begin)));
    if (!sleep_until(begin +
                     std::chrono::duration_cast<TopClock::duration>(std::chrono::duration<double>(options.interval_s))))
        return interrupt_exit_code();
    const measure::ServerLook now = TRY(measure::look_at(endpoint, seconds_of(TopClock::now())));
    const std::vector<measure::ModelActivity> models = measure::activity_between(before, now);
    if (options.json) {
        print(activity_json(now, models).dump(2, ' ', false, TopJson::error_handler_t::replace) + "\n");
    } else {
        print(fmt::format("{}: {}\n\n", endpoint.url, health_of(now)) + models_table(models) +
              devices_table(now.devices));
    }
    return 0;
}

Result<int> top(const TopOptions& options) {
    const measure::Endpoint endpoint = TRY(measure::make_endpoint(options.url, options.key_file));
    catch_endings();
    if (options.once) return top_once(endpoint, options);
    TopView view(endpoint.url, options.json);
    std::optional<measure::ServerLook> before;
    TopClock::time_point seen = TopClock::now();
    do {
        const TopClock::time_point now = TopClock::now();
        Result<measure::ServerLook> look = measure::look_at(endpoint, seconds_of(now));
        if (look) {
            seen = now;
            view.show(*look, measure::activity_between(before.value_or(*look), *look));
            before = std::move(*look);
        } else {
            view.show_away(look.error().message, std::chrono::duration<double>(now - seen).count());
        }
    } while (sleep_until(TopClock::now() + std::chrono::duration_cast<TopClock::duration>(
                                               std::chrono::duration<double>(options.interval_s))));
    return interrupt_exit_code();
}

}  // namespace

Command add_top(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("top", "Watch a running server: throughput, queue, cache, latencies");
    const auto options = std::make_shared<TopOptions>();
    app->add_option("URL", options->url, "Where it is (localhost:8080)")->option_text(" ");
    app->add_option("--key", options->key_file, "A file with the key that the server wants")->option_text("FILE");
    app->add_option("--interval", options->interval_s, "Seconds from one look to the next (2)")
        ->option_text("S")
        ->check(CLI::Range(0.05, 3600.0));
    app->add_flag("--once", options->once, "Look twice, show what was between, and end");
    app->add_flag("--json", options->json, "Print JSON, a line for each look");
    app->footer(
        "Reads /metrics and /health of tandem serve, or of a server with vLLM's names. On a terminal it is drawn in\n"
        "place, else one look follows another. A server that goes away is waited for; with --once it is an error.\n"
        "Examples:\n"
        "  tandem top\n"
        "  tandem top gpu-box:8080 --key key.txt\n"
        "  tandem top --once --json");
    return {app, [options] { return top(*options); }};
}

}  // namespace tandem::cli
