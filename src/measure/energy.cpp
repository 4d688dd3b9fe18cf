#include "measure/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>

namespace tandem::measure {

namespace {

constexpr double kMicro = 1e-6;
constexpr std::chrono::milliseconds kSamplePeriod{100};  // power sensors are means of about so long

std::optional<double> number_in(const std::filesystem::path& file) {
    std::ifstream stream(file);
    double value = 0;
    if (!(stream >> value) || value < 0) return std::nullopt;
    return value;
}

std::string word_in(const std::filesystem::path& file) {
    std::ifstream stream(file);
    std::string word;
    stream >> word;
    return word;
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> entries;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) entries.push_back(entry.path());
    std::sort(entries.begin(), entries.end());
    return entries;
}

double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

EnergyMeter::EnergyMeter(bool gpu_is_integrated, const std::filesystem::path& root) {
    find_processors(root);
    find_gpus(root, gpu_is_integrated);
    find_batteries(root);
}

// What cannot be read now is left out.
void EnergyMeter::add(Source source) {
    if (number_in(source.file)) sources_.push_back(std::move(source));
}

// Zones are in one folder: intel-rapl:0 is a package, intel-rapl:0:2 a part of it. Memory is no part of a package.
void EnergyMeter::find_processors(const std::filesystem::path& root) {
    for (const std::filesystem::path& zone : entries_of(root / "class/powercap")) {
        const std::string word = word_in(zone / "name");
        const bool counts = word.starts_with("package") || word == "dram";
        if (!counts || zone.filename().string().starts_with("intel-rapl-mmio")) continue;  // the same once more
        add({.name = word == "dram" ? "memory of " + zone.filename().string() : word,
             .file = zone / "energy_uj",
             .range_uj = number_in(zone / "max_energy_range_uj").value_or(0)});
    }
}

void EnergyMeter::find_gpus(const std::filesystem::path& root, bool is_integrated) {
    const bool is_counted = is_integrated && !sources_.empty();
    for (const std::filesystem::path& card : entries_of(root / "class/drm")) {
        const std::string name = card.filename().string();
        if (!name.starts_with("card") || name.find('-') != std::string::npos) continue;  // card0-DP-1 is a plug
        for (const std::filesystem::path& sensors : entries_of(card / "device/hwmon")) {
            const size_t before = sources_.size();
            Source source{.name = "gpu " + name, .file = sensors / "energy1_input", .is_part = !is_counted};
            add(source);
            source.kind = Kind::power;
            for (const char* const file : {"power1_average", "power1_input"}) {
                source.file = sensors / file;
                if (sources_.size() == before) add(source);
            }
        }
    }
}

void EnergyMeter::find_batteries(const std::filesystem::path& root) {
    const bool is_alone = sources_.empty();
    for (const std::filesystem::path& supply : entries_of(root / "class/power_supply")) {
        if (word_in(supply / "type") != "Battery" || word_in(supply / "status") != "Discharging") continue;
        add({.name = "battery " + supply.filename().string(),
             .file = supply / "power_now",
             .kind = Kind::power,
             .is_part = is_alone});
    }
}

void EnergyMeter::begin(double at_s) {
    last_s_ = at_s;
    for (Source& source : sources_) {
        source.last = number_in(source.file).value_or(0);
        source.joules = 0;
    }
}

void EnergyMeter::sample(double at_s) {
    const double seconds = at_s - last_s_;
    last_s_ = at_s;
    for (Source& source : sources_) {
        const double now = number_in(source.file).value_or(source.last);
        if (source.kind == Kind::power) {
            source.joules += (source.last + now) / 2 * kMicro * seconds;
        } else {
            const double wrapped = now < source.last ? source.range_uj : 0;
            source.joules += std::max(0.0, now + wrapped - source.last) * kMicro;
        }
        source.last = now;
    }
}

std::vector<EnergyUse> EnergyMeter::end(double at_s) {
    sample(at_s);
    std::vector<EnergyUse> uses;
    for (const Source& source : sources_) uses.push_back({source.name, source.joules, source.is_part});
    return uses;
}

EnergySpan::EnergySpan(EnergyMeter& meter) : meter_(meter) {
    if (meter_.empty()) return;
    meter_.begin(steady_seconds());
    thread_ = std::thread([this] { run(); });
}

EnergySpan::~EnergySpan() {
    stop();
}

void EnergySpan::run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kSamplePeriod, [this] { return stopping_; })) meter_.sample(steady_seconds());
}

std::vector<EnergyUse> EnergySpan::stop() {
    if (!thread_.joinable()) return {};
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
    return meter_.end(steady_seconds());
}

double total_joules(const std::vector<EnergyUse>& uses) {
    double joules = 0;
    for (const EnergyUse& use : uses) joules += use.is_part ? use.joules : 0;
    return joules;
}

}  // namespace tandem::measure
