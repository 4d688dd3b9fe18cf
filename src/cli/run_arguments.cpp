#include "cli/run_arguments.h"

#include <algorithm>
#include <filesystem>

#include "cli/model_source.h"
#include "engine/bundle.h"

namespace tandem::cli {

namespace {

std::vector<std::string_view> embedded_names() {
    std::vector<std::string_view> names;
    for (const auto& model : engine::embedded_models()) names.push_back(model.name);
    return names;
}

}  // namespace

bool names_a_model(const std::string& argument) {
    const auto names = embedded_names();
    std::error_code ignored;
    return std::find(names.begin(), names.end(), argument) != names.end() || std::filesystem::exists(argument, ignored);
}

Result<RunArguments> resolve_arguments(const std::vector<std::string>& arguments) {
    if (arguments.empty()) return RunArguments{};
    const std::string& first = arguments[0];
    if (arguments.size() == 1 && !names_a_model(first)) {
        if (first.find_first_of(" \t\n") != std::string::npos) return RunArguments{.prompt = first};
        const Result<hub::LocalModel> here = require_model(first);
        const std::optional<hub::Reference> remote = TRY(find_remote(first));
        if (!here && !remote) return fail("{}; for a prompt of one word name the model too", here.error().message);
    }
    RunArguments resolved{.model = first};
    if (arguments.size() > 1) resolved.prompt = arguments[1];
    return resolved;
}

}  // namespace tandem::cli
