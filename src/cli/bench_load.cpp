#include "cli/bench_load.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/bench_report.h"
#include "cli/text_output.h"
#include "measure/load.h"
#include "user/models.h"

namespace tandem::cli {

namespace {

using LoadJson = nlohmann::ordered_json;

constexpr int kLoadRepetitions = 3;
constexpr int kLoadContext = 512;  // of what is loaded: its cache should not count

// What one kind of loading cannot be faster than, and why.
struct LoadLimit {
    double bytes_per_s = 0;  // 0: none is known
    const char* of = "";
};

struct LoadFindings {
    measure::LoadReport load;
    device::Description device;
    double device_open_s = 0;
    DType type = DType::f16;
    double upload_bytes_per_s = 0;  // of weights of that type; 0: used where they lie

    LoadLimit limit(bool is_cold) const;
};

LoadLimit LoadFindings::limit(bool is_cold) const {
    const std::optional<measure::DiskRate>& disk = load.disk;
    const bool reads = disk && (is_cold || !disk->past_memory);  // what lies in memory is read from there each time
    const LoadLimit read{reads ? disk->bytes_per_s : 0, reads && disk->past_memory ? "disk" : "memory"};
    const LoadLimit upload{upload_bytes_per_s, "upload"};
    if (read.bytes_per_s == 0) return upload;
    return upload.bytes_per_s > 0 && upload.bytes_per_s < read.bytes_per_s ? upload : read;
}

// The type of most of the weights.
DType main_type(const graph::Weights& weights) {
    std::map<DType, uint64_t> bytes;
    for (const auto& [name, view] : weights.all()) bytes[view.dtype] += view.size_bytes();
    const auto most =
        std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == bytes.end() ? DType::f16 : most->first;
}

Result<LoadFindings> find_load(const BenchLoadOptions& options) {
    user::Devices devices(options.device, note);
    TRY(devices.check());
    const std::string source = TRY(user::find_source(options.model));
    LoadFindings findings;
    uint64_t bytes = 0;
    {
        const engine::Bundle bundle = TRY(user::open_bundle(options.model));
        if (bundle.checkpoint->path().empty())
            return fail("--load {}: is inside the program: name a file, whose loading can be measured", options.model);
        bytes = bundle.model.weights.size_bytes();
        findings.type = main_type(bundle.model.weights);
        const Stopwatch opening;
        const auto backend = TRY(devices.open(bytes));
        findings.device_open_s = opening.seconds();
        findings.device = backend->describe();
    }
    Progress progress("loading", Progress::Unit::bytes);
    findings.load = TRY(measure::measure_load({
        .source = source,
        .open_device = [&] { return devices.open(bytes); },
        .repetitions = options.repetitions > 0 ? options.repetitions : kLoadRepetitions,
        .context = kLoadContext,
        .kv_dtype = options.kv_dtype,
        .progress = [&](double done, double all) { progress.show(done, all); },
    }));
    const Result<double> upload = devices.measure_upload(findings.type);
    if (upload) findings.upload_bytes_per_s = *upload;
    return findings;
}

std::string share_of(double rate, const LoadLimit& limit) {
    return limit.bytes_per_s > 0 ? fmt::format("{:.0f} % of {}", 100 * rate / limit.bytes_per_s, limit.of) : "-";
}

void add_row(Table& table, const LoadFindings& found, const char* what, bool is_cold) {
    const std::vector<measure::LoadTimes>& times = is_cold ? found.load.cold : found.load.warm;
    if (times.empty()) return;
    const double rate = measure::LoadReport::weights_rate(found.load.weight_bytes, times);
    const LoadLimit limit = found.limit(is_cold);
    std::string each;
    for (const measure::LoadTimes& time : times)
        each += fmt::format("{}{:.3f}", each.empty() ? "" : ", ", time.ready_s);
    table.add({what, fmt::format("{:.3f}", static_cast<double>(found.load.weight_bytes) / rate),
               fmt::format("{:.2f}", rate / 1e9), limit.bytes_per_s > 0 ? format_rate(limit.bytes_per_s / 1e9) : "-",
               share_of(rate, limit), fmt::format("{:.3f}", measure::LoadReport::ready_s(times)), each});
}

std::string to_text(const LoadFindings& found) {
    std::string text = fmt::format("{} on {}: {} ({}), {} of weights, mostly {}\n", found.load.model, found.device.name,
                                   found.device.hardware, found.device.details, format_bytes(found.load.weight_bytes),
                                   name(found.type));
    if (found.load.disk) {
        text += fmt::format("{} gives {:.2f} GB/s to several readers\n",
                            found.load.disk->past_memory ? "the disk" : "the file lies in memory, which",
                            found.load.disk->bytes_per_s / 1e9);
    } else {
        text += fmt::format("the rate of the disk is not known: {}\n", found.load.no_disk);
    }
    text += found.upload_bytes_per_s > 0 ? fmt::format("{} takes {:.2f} GB/s of {}, repacked\n", found.device.name,
                                                       found.upload_bytes_per_s / 1e9, name(found.type))
                                         : fmt::format("{} uses weights where they lie\n", found.device.name);
    text += fmt::format("the device was opened in {:.3f} s\n\n", found.device_open_s);
    Table table({"", "WEIGHTS S", "GB/S", "LIMIT GB/S", "SHARE", "READY S", "EACH TIME"}, {1, 2, 3, 5});
    add_row(table, found, "from the disk", true);
    add_row(table, found, "from memory", false);
    text += table.to_string();
    constexpr uint64_t kSmall = uint64_t{256} << 20;
    if (found.load.weight_bytes < kSmall)
        text += "a small file: what the system reads ahead with its header is much of it, so shares mean little\n";
    if (found.load.cold.empty())
        text += "not measured from the disk: the system does not forget the file (it lies in memory, or is in use)\n";
    return text + "ready: from the start to the first token of an answer, but for the opening of the device; medians\n";
}

LoadJson times_json(const LoadFindings& found, bool is_cold) {
    const std::vector<measure::LoadTimes>& times = is_cold ? found.load.cold : found.load.warm;
    if (times.empty()) return nullptr;
    LoadJson weights = LoadJson::array();
    LoadJson ready = LoadJson::array();
    for (const measure::LoadTimes& time : times) {
        weights.push_back(time.weights_s);
        ready.push_back(time.ready_s);
    }
    const double rate = measure::LoadReport::weights_rate(found.load.weight_bytes, times);
    const LoadLimit limit = found.limit(is_cold);
    const bool has_limit = limit.bytes_per_s > 0;
    return {{"weights_s", std::move(weights)},
            {"bytes_per_s", rate},
            {"limit_bytes_per_s", has_limit ? LoadJson(limit.bytes_per_s) : LoadJson()},
            {"limit", has_limit ? LoadJson(limit.of) : LoadJson()},
            {"share", has_limit ? LoadJson(rate / limit.bytes_per_s) : LoadJson()},
            {"ready_s", std::move(ready)},
            {"open_s", times.back().open_s}};
}

std::string to_json(const LoadFindings& found) {
    const LoadJson json = {
        {"model", found.load.model},
        {"device", found.device.name},
        {"hardware", found.device.hardware},
        {"weight_bytes", found.load.weight_bytes},
        {"weight_type", name(found.type)},
        {"disk_bytes_per_s", found.load.disk ? LoadJson(found.load.disk->bytes_per_s) : LoadJson()},
        {"past_memory", found.load.disk ? LoadJson(found.load.disk->past_memory) : LoadJson()},
        {"upload_bytes_per_s", found.upload_bytes_per_s > 0 ? LoadJson(found.upload_bytes_per_s) : LoadJson()},
        {"device_open_s", found.device_open_s},
        {"cold", times_json(found, true)},
        {"warm", times_json(found, false)}};
    return json.dump(2, ' ', false, LoadJson::error_handler_t::replace) + "\n";
}

}  // namespace

Result<int> bench_load(const BenchLoadOptions& options) {
    const LoadFindings found = TRY(find_load(options));
    print(options.json ? to_json(found) : to_text(found));
    return 0;
}

}  // namespace tandem::cli
