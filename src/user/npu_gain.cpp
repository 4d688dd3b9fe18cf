#include "user/npu_gain.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "format/json.h"

namespace tandem::user {

namespace {

constexpr const char* kAlone = "prompt_s";
constexpr const char* kTogether = "prompt_with_npu_s";
constexpr const char* kSelftest = "selftest_passed";
constexpr const char* kSteps = "steps";

// What cannot be read counts as nothing: it is measured again with one command.
nlohmann::json read(const std::filesystem::path& file) {
    const Result<std::string> text = read_text_file(file);
    if (!text) return nlohmann::json::object();
    Result<nlohmann::json> kept = format::parse_json(*text, file.string());
    return kept && kept->is_object() ? *kept : nlohmann::json::object();
}

Status write(const std::filesystem::path& file, const nlohmann::json& all) {
    std::error_code ignored;
    std::filesystem::create_directories(file.parent_path(), ignored);
    return write_file(file, all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

double number_of(const nlohmann::json& object, const char* name) {
    const auto value = object.find(name);
    return value != object.end() && value->is_number() ? value->get<double>() : 0.0;
}

// What is kept of `hardware`, an object.
nlohmann::json& entry_of(nlohmann::json& all, const std::string& hardware) {
    nlohmann::json& entry = all[hardware];
    if (!entry.is_object()) entry = nlohmann::json::object();
    return entry;
}

}  // namespace

std::optional<NpuGain> kept_npu_gain(const std::filesystem::path& file, const std::string& hardware) {
    const nlohmann::json all = read(file);
    const auto found = all.find(hardware);
    if (found == all.end() || !found->is_object()) return std::nullopt;
    if (!found->contains(kAlone)) return std::nullopt;
    return NpuGain{.alone_s = number_of(*found, kAlone), .together_s = number_of(*found, kTogether)};
}

Status keep_npu_gain(const std::filesystem::path& file, const std::string& hardware, const NpuGain& gain) {
    nlohmann::json all = read(file);
    entry_of(all, hardware)[kAlone] = gain.alone_s;
    entry_of(all, hardware)[kTogether] = gain.together_s;
    return write(file, all);
}

bool kept_npu_selftest(const std::filesystem::path& file, const std::string& hardware) {
    const nlohmann::json all = read(file);
    const auto found = all.find(hardware);
    if (found == all.end() || !found->is_object()) return false;
    const auto passed = found->find(kSelftest);
    return passed != found->end() && passed->is_boolean() && passed->get<bool>();
}

Status keep_npu_selftest(const std::filesystem::path& file, const std::string& hardware) {
    nlohmann::json all = read(file);
    entry_of(all, hardware)[kSelftest] = true;
    return write(file, all);
}

std::map<int64_t, plan::Learned::Times> kept_npu_times(const std::filesystem::path& file, const std::string& hardware) {
    std::map<int64_t, plan::Learned::Times> times;
    const nlohmann::json all = read(file);
    const auto found = all.find(hardware);
    if (found == all.end() || !found->is_object() || !found->contains(kSteps) || !(*found)[kSteps].is_array())
        return times;
    for (const nlohmann::json& step : (*found)[kSteps]) {
        if (!step.is_object()) continue;
        const auto rows = static_cast<int64_t>(number_of(step, "rows"));
        const plan::Learned::Times taken{.alone_s = number_of(step, "alone_s"),
                                         .together_s = number_of(step, "together_s")};
        if (rows > 0 && taken.alone_s > 0 && taken.together_s > 0) times[rows] = taken;
    }
    return times;
}

Status keep_npu_times(const std::filesystem::path& file, const std::string& hardware,
                      const std::map<int64_t, plan::Learned::Times>& times) {
    nlohmann::json all = read(file);
    nlohmann::json steps = nlohmann::json::array();
    for (const auto& [rows, taken] : times)
        steps.push_back({{"rows", rows}, {"alone_s", taken.alone_s}, {"together_s", taken.together_s}});
    entry_of(all, hardware)[kSteps] = std::move(steps);
    return write(file, all);
}

}  // namespace tandem::user
