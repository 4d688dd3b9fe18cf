// list, rm and show: the models on this machine.
#include <CLI/CLI.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/machine_profile.h"
#include "cli/model_source.h"
#include "cli/model_summary.h"
#include "cli/plan_subject.h"
#include "cli/run_arguments.h"
#include "cli/text_output.h"
#include "engine/bundle.h"
#include "hub/catalog.h"
#include "plan/forecast.h"
#include "user/devices.h"
#include "user/models.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json) {
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// "3 days ago"
std::string age(int64_t changed_s) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count() - changed_s;
    constexpr std::pair<int64_t, const char*> kUnits[] = {{86'400, "day"}, {3600, "hour"}, {60, "minute"}};
    for (const auto& [unit, word] : kUnits) {
        if (seconds >= unit) return fmt::format("{} {}{} ago", seconds / unit, word, seconds / unit == 1 ? "" : "s");
    }
    return "now";
}

// ---- list

struct ListOptions {
    bool available = false;
    bool json = false;
};

int list_here(bool json) {
    const std::vector<hub::LocalModel> models = hub::find_models(hub::find_places());
    const std::vector<hub::LocalModel> unfinished = hub::find_unfinished(hub::find_places());
    if (json) {
        Json list = Json::array();
        for (const hub::LocalModel& model : models) {
            list.push_back({{"name", model.name},
                            {"size_bytes", model.size_bytes},
                            {"changed_s", model.changed_s},
                            {"owner", name(model.owner)},
                            {"path", model.path.string()}});
        }
        Json left = Json::array();
        for (const hub::LocalModel& model : unfinished)
            left.push_back({{"name", model.name}, {"size_bytes", model.size_bytes}});
        print(dumped({{"models", std::move(list)}, {"unfinished", std::move(left)}}));
        return 0;
    }
    Table table({"NAME", "SIZE", "CHANGED", "OF"}, {1});
    for (const engine::EmbeddedModel& model : engine::embedded_models()) {
        table.add({std::string(model.name), format_bytes(model.gguf.size()), "", "this program"});
    }
    for (const hub::LocalModel& model : models) {
        table.add({escape_short(model.name, 100), format_bytes(model.size_bytes), age(model.changed_s),
                   std::string(name(model.owner))});
    }
    print(table.to_string());
    for (const hub::LocalModel& model : unfinished) {
        const std::string shown = escape_short(model.name, 100);
        note(
            fmt::format("{}: a fetch was interrupted, which takes {}: `tandem pull` goes on, `tandem rm {}` removes it",
                        shown, format_bytes(model.size_bytes), shown));
    }
    if (models.empty()) note("No other model is here yet: `tandem list --available` names some to `tandem pull`.");
    return 0;
}

// Of one answer with a context of a few pages; nothing where the model's shape is not known.
std::optional<double> forecast_rate(const hub::CatalogEntry& entry, const plan::Speeds& speeds) {
    constexpr int kContext = 1024;
    const models::NamedShape* const shape = shape_of_catalog(entry.name);
    if (shape == nullptr) return std::nullopt;
    const Result<PlannedModel> planned = open_shape(*shape, std::string(entry.name));
    if (!planned) return std::nullopt;
    return plan::forecast_decode(planned->model.program, 1, kContext, DType::f16, speeds).tokens_per_s();
}

// What is known of the device that models run on by themselves; without `tandem doctor` only how fast it reads.
Result<DeviceProfile> default_profile() {
    user::Devices devices({}, note);
    const std::unique_ptr<device::Backend> backend = TRY(devices.open(0));
    const device::Description device = backend->describe();
    if (std::optional<DeviceProfile> kept = kept_profile(profile_file(), device)) return std::move(*kept);
    return DeviceProfile{.device = device.name,
                         .hardware = device.hardware,
                         .details = device.details,
                         .speeds = {.rates = TRY(devices.measure_rates())}};
}

Result<int> list_available(bool json) {
    const auto most = static_cast<double>(largest_model_bytes());
    const DeviceProfile profile = TRY(default_profile());
    const double rate = profile.speeds.rates.read_bytes_per_s;
    const bool is_known = !profile.speeds.products.empty();
    constexpr double kGb = 1e9;
    constexpr double kShareForWeights = 0.85;  // the cache and the system need the rest
    Json list = Json::array();
    Table table({"NAME", "SIZE", "FITS", "TOKENS/S", "AT MOST", "ABOUT"}, {1, 3, 4});
    for (const hub::CatalogEntry& entry : hub::catalog()) {
        const bool fits = entry.size_gb * kGb <= kShareForWeights * most;
        const double limit = rate / (entry.read_gb * kGb);
        const std::optional<double> forecast = fits && is_known ? forecast_rate(entry, profile.speeds) : std::nullopt;
        table.add({std::string(entry.name), fmt::format("{:.1f} GB", entry.size_gb), fits ? "yes" : "no",
                   forecast ? format_rate(*forecast) : "", fits ? format_rate(limit) : "", std::string(entry.about)});
        list.push_back({{"name", entry.name},
                        {"repository", entry.repo},
                        {"size_gb", entry.size_gb},
                        {"fits", fits},
                        {"tokens_per_second", forecast ? Json(*forecast) : Json()},
                        {"tokens_per_second_at_most", fits ? Json(limit) : Json()}});
    }
    if (json) {
        print(dumped({{"device", profile.device}, {"read_bytes_per_s", rate}, {"models", std::move(list)}}));
        return 0;
    }
    print(table.to_string());
    print(
        fmt::format("\nIn Q4_K_M, one answer at a time. At most: what {} reads, {:.1f} GB/s, by what one token needs; "
                    "TOKENS/S is a\n"
                    "forecast{}. `tandem pull NAME` fetches one; any other of Hugging Face by org/name[:QUANT].\n",
                    profile.device, rate / kGb,
                    is_known ? ", as of `tandem plan`" : " once `tandem doctor` has measured this machine"));
    return 0;
}

// ---- rm

// A model, or what an interrupted fetch of it has left.
Result<hub::LocalModel> find_removable(const hub::Places& places, const std::string& wanted) {
    Result<hub::LocalModel> model = user::require_model(wanted);
    if (model) return model;
    const Result<std::optional<hub::Reference>> remote = user::find_remote(wanted);
    const std::string name = remote && *remote && !(*remote)->repo.empty() ? (*remote)->repo : wanted;
    for (hub::LocalModel& left : hub::find_unfinished(places)) {
        if (left.name == name) return std::move(left);
    }
    return model;
}

Result<int> remove(const std::vector<std::string>& names) {
    const hub::Places places = hub::find_places();
    for (const std::string& wanted : names) {
        const hub::LocalModel model = TRY(find_removable(places, wanted));
        TRY(hub::remove_model(places, model));
        note(fmt::format("removed {}, {}", model.name, format_bytes(model.size_bytes)));
    }
    return 0;
}

// ---- show

Result<int> show(const std::string& model, bool json) {
    std::optional<hub::LocalModel> local;
    if (!user::names_a_model(model)) local = TRY(user::require_model(model));
    const std::string source = local ? local->path.string() : model;
    const format::Checkpoint checkpoint = TRY(engine::open_checkpoint(source));
    const ModelSummary summary = summarize(checkpoint);
    const Result<models::Model> loaded = models::load(checkpoint);
    const std::string flaw = loaded ? "" : loaded.error().message;
    const std::string where = local ? source : checkpoint.path().string();
    if (json) {
        print(dumped({{"name", local ? local->name : model},
                      {"path", where},
                      {"owner", local ? Json(name(local->owner)) : Json()},
                      {"family", summary.family},
                      {"parameters", summary.total.elements},
                      {"quantization", summary.quantization},
                      {"size_bytes", summary.file_bytes},
                      {"runs", loaded ? Json(true) : Json(false)},
                      {"why_not", flaw}}));
        return 0;
    }
    Table table({"name", escape_short(local ? local->name : model, 100)});
    table.add({"model", escape_short(summary.name, 80)});
    table.add({"family", escape_short(summary.family, 80)});
    table.add({"parameters", format_count(summary.total.elements)});
    table.add({"quantization", summary.quantization.empty() ? "not named" : summary.quantization});
    table.add({"size", format_bytes(summary.file_bytes)});
    if (loaded) table.add({"context", fmt::format("{}", loaded->context_length)});
    table.add({"of", local ? std::string(name(local->owner)) : "a file"});
    table.add({"path", where.empty() ? "inside the program" : where});
    table.add({"runs", flaw.empty() ? "yes" : "no: " + flaw});
    print(table.to_string());
    return 0;
}

}  // namespace

Command add_list(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("list", "List the models on this machine, or those to fetch");
    const auto options = std::make_shared<ListOptions>();
    app->add_flag("--available", options->available,
                  "Models to fetch: which fit this machine, and how fast they could be");
    app->add_flag("--json", options->json, "Print JSON");
    app->footer(
        "Also what Ollama, the programs of Hugging Face, llama.cpp and LM Studio have downloaded: it is used where it "
        "lies.\n`tandem run NAME` runs one.");
    return {app, [options]() -> Result<int> {
                return options->available ? list_available(options->json) : Result<int>(list_here(options->json));
            }};
}

Command add_rm(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("rm", "Remove models that were fetched");
    const auto names = std::make_shared<std::vector<std::string>>();
    app->add_option("NAME", *names, "As `tandem list` shows it")->option_text(" ")->required();
    app->footer(
        "Files that another model needs stay. What belongs to Ollama, llama.cpp or LM Studio is removed there.");
    return {app, [names] { return remove(*names); }};
}

Command add_show(CLI::App& parent) {
    CLI::App* const app = parent.add_subcommand("show", "Say what a model is, where it lies and whether it runs");
    const auto model = std::make_shared<std::string>();
    const auto json = std::make_shared<bool>(false);
    app->add_option("MODEL", *model,
                    "A name of `tandem list`, a GGUF file, a Hugging Face directory or an embedded model")
        ->option_text(" ")
        ->required();
    app->add_flag("--json", *json, "Print JSON");
    app->footer("`tandem inspect` shows all that is in it.");
    return {app, [model, json] { return show(*model, *json); }};
}

}  // namespace tandem::cli
