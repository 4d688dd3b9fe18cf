#include "cli/npu_gain.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "format/json.h"

namespace tandem::cli {

namespace {

constexpr const char* kAlone = "prompt_s";
constexpr const char* kTogether = "prompt_with_npu_s";

// What cannot be read counts as nothing: it is measured again with one command.
nlohmann::json read(const std::filesystem::path& file) {
    const Result<std::string> text = read_text_file(file);
    if (!text) return nlohmann::json::object();
    Result<nlohmann::json> kept = format::parse_json(*text, file.string());
    return kept && kept->is_object() ? *kept : nlohmann::json::object();
}

}  // namespace

std::optional<NpuGain> kept_npu_gain(const std::filesystem::path& file, const std::string& hardware) {
    const nlohmann::json all = read(file);
    const auto found = all.find(hardware);
    if (found == all.end() || !found->is_object()) return std::nullopt;
    const auto seconds = [&](const char* name) {
        const auto value = found->find(name);
        return value != found->end() && value->is_number() ? value->get<double>() : 0.0;
    };
    return NpuGain{.alone_s = seconds(kAlone), .together_s = seconds(kTogether)};
}

Status keep_npu_gain(const std::filesystem::path& file, const std::string& hardware, const NpuGain& gain) {
    nlohmann::json all = read(file);
    all[hardware] = {{kAlone, gain.alone_s}, {kTogether, gain.together_s}};
    std::error_code ignored;
    std::filesystem::create_directories(file.parent_path(), ignored);
    return write_file(file, all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace tandem::cli
