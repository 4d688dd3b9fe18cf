#include "cli/machine_profile.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "cli/text_output.h"
#include "format/json.h"
#include "measure/measure_speeds.h"
#include "user/paths.h"

namespace tandem::cli {

namespace {

using StoredJson = nlohmann::json;

struct StoredFigure {
    const char* name;
    double plan::Speeds::*figure;
};
constexpr StoredFigure kStoredFigures[] = {{"dispatch_s", &plan::Speeds::dispatch_s},
                                           {"dispatch_growth_s", &plan::Speeds::dispatch_growth_s},
                                           {"attention_flops_per_s", &plan::Speeds::attention_flops_per_s},
                                           {"attention_row_flops_per_s", &plan::Speeds::attention_row_flops_per_s},
                                           {"activation_bytes_per_s", &plan::Speeds::activation_bytes_per_s}};

struct StoredRate {
    const char* name;
    double device::Rates::*rate;
};
constexpr StoredRate kStoredRates[] = {{"read_bytes_per_s", &device::Rates::read_bytes_per_s},
                                       {"matrix_flops_per_s", &device::Rates::matrix_flops_per_s},
                                       {"cache_bytes", &device::Rates::cache_bytes}};

// A number that is none or below 0 is none of ours.
std::optional<double> stored_number(const StoredJson& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number()) return std::nullopt;
    const auto number = found->get<double>();
    return std::isfinite(number) && number >= 0 ? std::optional(number) : std::nullopt;
}

std::string stored_text(const StoredJson& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

StoredJson stored(const DeviceProfile& profile) {
    StoredJson products = StoredJson::object();
    for (const plan::ProductCurve& curve : profile.speeds.products) {
        StoredJson points = StoredJson::array();
        for (const plan::ProductPoint& point : curve.points) points.push_back({point.rows, point.seconds_per_byte});
        products[std::string(name(curve.type))] = std::move(points);
    }
    StoredJson json = {{"version", TANDEM_VERSION},
                       {"device", profile.device},
                       {"hardware", profile.hardware},
                       {"details", profile.details},
                       {"upload_bytes_per_s", profile.upload_bytes_per_s},
                       {"products", std::move(products)}};
    for (const StoredFigure& each : kStoredFigures) json[each.name] = profile.speeds.*each.figure;
    for (const StoredRate& each : kStoredRates) json[each.name] = profile.speeds.rates.*each.rate;
    return json;
}

std::optional<plan::ProductCurve> curve_from(const std::string& type, const StoredJson& points) {
    const std::optional<DType> dtype = parse_dtype(type);
    if (!dtype || !points.is_array() || points.empty()) return std::nullopt;
    plan::ProductCurve curve{.type = *dtype, .points = {}};
    for (const StoredJson& point : points) {
        if (!point.is_array() || point.size() != 2 || !point[0].is_number_integer() || !point[1].is_number())
            return std::nullopt;
        const auto rows = point[0].get<int64_t>();
        const auto seconds = point[1].get<double>();
        const int before = curve.points.empty() ? 0 : curve.points.back().rows;
        if (rows <= before || rows > (1 << 20) || !(seconds > 0) || !std::isfinite(seconds)) return std::nullopt;
        curve.points.push_back({static_cast<int>(rows), seconds});
    }
    return curve;
}

// Nothing where a figure is missing: then it is measured again.
std::optional<DeviceProfile> profile_from(const StoredJson& json) {
    if (!json.is_object() || stored_text(json, "version") != TANDEM_VERSION) return std::nullopt;
    DeviceProfile profile{.device = stored_text(json, "device"),
                          .hardware = stored_text(json, "hardware"),
                          .details = stored_text(json, "details"),
                          .speeds = {}};
    profile.upload_bytes_per_s = stored_number(json, "upload_bytes_per_s").value_or(0);
    for (const StoredFigure& each : kStoredFigures) {
        const std::optional<double> figure = stored_number(json, each.name);
        if (!figure) return std::nullopt;
        profile.speeds.*each.figure = *figure;
    }
    for (const StoredRate& each : kStoredRates) {
        const std::optional<double> rate = stored_number(json, each.name);
        if (!rate) return std::nullopt;
        profile.speeds.rates.*each.rate = *rate;
    }
    const auto products = json.find("products");
    if (products == json.end() || !products->is_object()) return std::nullopt;
    for (const auto& [type, points] : products->items()) {
        std::optional<plan::ProductCurve> curve = curve_from(type, points);
        if (!curve) return std::nullopt;
        profile.speeds.products.push_back(std::move(*curve));
    }
    if (profile.speeds.products.empty() || profile.speeds.rates.read_bytes_per_s == 0) return std::nullopt;
    return profile;
}

bool is_of(const DeviceProfile& profile, const device::Description& device) {
    return profile.device == device.name && profile.hardware == device.hardware && profile.details == device.details;
}

// What cannot be read counts as nothing: it is measured again.
std::vector<DeviceProfile> read_profiles(const std::filesystem::path& file) {
    std::vector<DeviceProfile> profiles;
    constexpr size_t kMost = size_t{1} << 20;
    const Result<std::string> text = read_text_file(file, kMost);
    if (!text) return profiles;
    const Result<StoredJson> kept = format::parse_json(*text, file.string());
    if (!kept || !kept->is_array()) return profiles;
    for (const StoredJson& each : *kept) {
        if (std::optional<DeviceProfile> profile = profile_from(each)) profiles.push_back(std::move(*profile));
    }
    return profiles;
}

}  // namespace

std::filesystem::path profile_file() {
    const std::filesystem::path cache = user::cache_directory();
    return cache.empty() ? cache : cache / "machine.json";
}

std::optional<DeviceProfile> kept_profile(const std::filesystem::path& file, const device::Description& device) {
    if (file.empty()) return std::nullopt;
    for (DeviceProfile& profile : read_profiles(file)) {
        if (is_of(profile, device)) return std::move(profile);
    }
    return std::nullopt;
}

Status keep_profile(const std::filesystem::path& file, const DeviceProfile& profile) {
    if (file.empty()) return Ok{};
    std::vector<DeviceProfile> profiles = read_profiles(file);
    std::erase_if(profiles, [&](const DeviceProfile& each) { return each.device == profile.device; });
    profiles.push_back(profile);
    StoredJson all = StoredJson::array();
    for (const DeviceProfile& each : profiles) all.push_back(stored(each));
    std::error_code ignored;
    std::filesystem::create_directories(file.parent_path(), ignored);
    return write_file(file, all.dump(2, ' ', false, StoredJson::error_handler_t::replace) + "\n");
}

Result<DeviceProfile> measure_profile(user::Devices& devices, device::Backend& backend) {
    const device::Description device = backend.describe();
    note(fmt::format("measuring {} ({})", device.name, device.hardware));
    Progress progress("measuring " + device.name);
    const device::Rates rates = TRY(devices.measure_rates());
    DeviceProfile profile{.device = device.name, .hardware = device.hardware, .details = device.details, .speeds = {}};
    profile.speeds = TRY(measure::measure_speeds(backend, rates, {.progress = [&](double done) -> Status {
                                                     progress.show(done, 1);
                                                     return Ok{};
                                                 }}));
    profile.upload_bytes_per_s = TRY(devices.measure_upload());
    const Status kept = keep_profile(profile_file(), profile);
    if (!kept) note(fmt::format("what was measured is not kept: {}", kept.error().message));
    return profile;
}

Result<DeviceProfile> profile_of(user::Devices& devices, device::Backend& backend) {
    if (std::optional<DeviceProfile> kept = kept_profile(profile_file(), backend.describe())) return std::move(*kept);
    return measure_profile(devices, backend);
}

}  // namespace tandem::cli
