#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/doctor_findings.h"
#include "cli/machine_profile.h"
#include "cli/text_output.h"
#include "format/checkpoint.h"
#include "measure/disk_rate.h"
#include "user/devices.h"
#include "user/models.h"
#include "user/paths.h"

namespace tandem::cli {

namespace {

using Json = nlohmann::ordered_json;

struct DoctorOptions {
    std::string model;
    bool quick = false;
    bool json = false;
};

struct Examination {
    std::vector<Finding> findings;
    std::vector<DeviceProfile> devices;
    double one_thread_bytes_per_s = 0;  // that the CPU reads
    std::optional<measure::DiskRate> disk;
    std::string disk_of;  // a folder or a file

    bool broken() const {
        return std::any_of(findings.begin(), findings.end(),
                           [](const Finding& finding) { return finding.severity == Severity::broken; });
    }
};

// Of products of as many rows as were measured, operations a second; 0: not measured.
double matrix_rate(const plan::Speeds& speeds, DType type) {
    for (const plan::ProductCurve& curve : speeds.products) {
        if (curve.type != type) continue;
        const plan::ProductPoint& most = curve.points.back();
        return 2.0 * most.rows * 8 / info(type).bits_per_element() / most.seconds_per_byte;
    }
    return 0;
}

// A device that cannot be measured is a finding, and no end of the examination.
void measure_device(const std::string& name, Examination& examination) {
    const auto measured = [&]() -> Result<DeviceProfile> {
        user::DeviceOptions options;
        options.device = name;
        options.npu.npu = "off";
        user::Devices devices(options, note);
        const std::unique_ptr<device::Backend> backend = TRY(devices.open(0));
        return measure_profile(devices, *backend);
    };
    Result<DeviceProfile> profile = measured();
    if (profile) {
        examination.devices.push_back(std::move(*profile));
    } else {
        examination.findings.push_back({Severity::broken, name,
                                        fmt::format("cannot be measured: {}", profile.error().message),
                                        "see the message, and `tandem run --device " + name + "`"});
    }
}

// The file of a model; empty: none was named.
Result<std::filesystem::path> file_of(const std::string& model) {
    if (model.empty()) return std::filesystem::path();
    const format::Checkpoint checkpoint = TRY(user::open_checkpoint(model));
    if (checkpoint.path().empty()) return fail("{}: is inside the program, and on no disk of its own", model);
    return checkpoint.path();
}

void measure_disk_rate(const std::filesystem::path& file, Examination& examination) {
    const std::filesystem::path folder = user::cache_directory();
    examination.disk_of = file.empty() ? folder.string() : file.string();
    const auto rate = [&]() -> Result<measure::DiskRate> {
        if (!file.empty()) return measure::measure_disk(file);
        if (folder.empty()) return fail("there is neither XDG_CACHE_HOME nor a home to measure");
        return measure::measure_disk_of(folder);
    }();
    if (rate) {
        examination.disk = *rate;
    } else {
        examination.findings.push_back({Severity::advice, "disk", rate.error().message, "name a model file to read"});
    }
}

Status measure_all(const DoctorOptions& options, const MachineFacts& facts, Examination& examination) {
    const std::filesystem::path file = TRY(file_of(options.model));
    measure_device("cpu", examination);
    user::DeviceOptions alone;
    alone.device = "cpu";
    alone.threads = 1;
    alone.npu.npu = "off";
    user::Devices one(alone, note);
    TRY(one.check());  // opens it
    examination.one_thread_bytes_per_s = TRY(one.measure_rates()).read_bytes_per_s;
    for (const device::Description& gpu : facts.gpus) {
        if (gpu.unusable.empty()) measure_device(gpu.name, examination);
    }
    note("measuring the disk");
    measure_disk_rate(file, examination);
    return Ok{};
}

std::string rate_text(double per_s, double unit) {
    return per_s > 0 ? format_rate(per_s / unit) : "-";
}

std::string devices_text(const Examination& examination) {
    if (examination.devices.empty()) return {};
    Table table(
        {"DEVICE", "HARDWARE", "READS GB/S", "MATRICES TFLOP/S: Q4_0", "Q8_0", "F16", "DISPATCH", "UPLOAD GB/S"},
        {2, 3, 4, 5, 6, 7});
    for (const DeviceProfile& device : examination.devices) {
        const plan::Speeds& speeds = device.speeds;
        table.add({device.device, device.hardware, rate_text(speeds.rates.read_bytes_per_s, 1e9),
                   rate_text(matrix_rate(speeds, DType::q4_0), 1e12), rate_text(matrix_rate(speeds, DType::q8_0), 1e12),
                   rate_text(matrix_rate(speeds, DType::f16), 1e12), format_seconds(speeds.dispatch_s),
                   rate_text(device.upload_bytes_per_s, 1e9)});
    }
    std::string text = "\n" + table.to_string();
    text += fmt::format("one thread of the CPU reads {:.1f} GB/s\n", examination.one_thread_bytes_per_s / 1e9);
    if (examination.disk) {
        text += fmt::format("the disk of {} gives {:.2f} GB/s{}\n", examination.disk_of,
                            examination.disk->bytes_per_s / 1e9,
                            examination.disk->past_memory ? "" : " (it lies in memory, or was remembered)");
    }
    return text + fmt::format("kept in {}: `tandem plan` and `list --available` go by it\n", profile_file().string());
}

std::string to_text(const Examination& examination) {
    constexpr const char* kMarks[] = {"ok     ", "advice ", "WRONG  "};
    std::string text;
    for (const Finding& finding : examination.findings) {
        text += fmt::format("{}{}: {}\n", kMarks[static_cast<size_t>(finding.severity)], finding.about, finding.what);
        if (!finding.remedy.empty()) text += fmt::format("       -> {}\n", finding.remedy);
    }
    return text + devices_text(examination);
}

Json device_json(const DeviceProfile& device) {
    Json rates = Json::object();
    for (const plan::ProductCurve& curve : device.speeds.products)
        rates[std::string(name(curve.type))] = matrix_rate(device.speeds, curve.type);
    return {{"device", device.device},
            {"hardware", device.hardware},
            {"details", device.details},
            {"read_bytes_per_s", device.speeds.rates.read_bytes_per_s},
            {"matrix_flops_per_s", std::move(rates)},
            {"dispatch_s", device.speeds.dispatch_s},
            {"upload_bytes_per_s", device.upload_bytes_per_s}};
}

std::string to_json(const Examination& examination) {
    Json findings = Json::array();
    for (const Finding& finding : examination.findings) {
        findings.push_back({{"severity", name(finding.severity)},
                            {"about", finding.about},
                            {"what", finding.what},
                            {"remedy", finding.remedy}});
    }
    Json devices = Json::array();
    for (const DeviceProfile& device : examination.devices) devices.push_back(device_json(device));
    Json disk;
    if (examination.disk) {
        disk = {{"of", examination.disk_of},
                {"bytes_per_s", examination.disk->bytes_per_s},
                {"past_memory", examination.disk->past_memory}};
    }
    const Json report = {{"ok", !examination.broken()},
                         {"findings", std::move(findings)},
                         {"devices", std::move(devices)},
                         {"cpu_one_thread_bytes_per_s", examination.one_thread_bytes_per_s},
                         {"disk", std::move(disk)}};
    return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<int> examine_machine(const DoctorOptions& options) {
    const MachineFacts facts = MachineFacts::here();
    Examination examination{
        .findings = examine(facts), .devices = {}, .one_thread_bytes_per_s = 0, .disk = {}, .disk_of = {}};
    if (!options.quick) TRY(measure_all(options, facts, examination));
    print(options.json ? to_json(examination) : to_text(examination));
    return examination.broken() ? kExitFailed : 0;
}

}  // namespace

Command add_doctor(CLI::App& parent) {
    CLI::App* const app =
        parent.add_subcommand("doctor", "Find what is wrong with this machine, and measure what its devices do");
    const auto options = std::make_shared<DoctorOptions>();
    app->add_option("MODEL", options->model, "A model whose disk is measured, not that of the cache folder")
        ->option_text(" ");
    app->add_flag("--quick", options->quick, "Look only: measure nothing");
    app->add_flag("--json", options->json, "Print JSON");
    app->footer(
        "Measures how fast each device reads memory and multiplies matrices with the kernels that models run on, what "
        "a\n"
        "dispatch costs, how fast weights get there, and how fast a disk gives a file past the memory that caches it.\n"
        "What was measured is kept for `tandem plan`. Exit code 1: something that is there cannot be used.");
    return {app, [options] { return examine_machine(*options); }};
}

}  // namespace tandem::cli
